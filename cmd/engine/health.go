package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cli"
	"github.com/streamwright/streamwright/internal/sleep"
)

const (
	// ownHTTP is where an engine of this machine answers HTTP, unless its configuration says otherwise.
	ownHTTP = "http://127.0.0.1:8484"
	// healthEvery is the time between two questions of `health --wait`.
	healthEvery = time.Second
	// lookWait is the time that a newer look at the nodes may take.
	lookWait = 30 * time.Second
	// mostHealth bounds an answer.
	mostHealth = 1 << 20
)

func healthCommand(a *app) *cobra.Command {
	var h healthCheck
	cmd := &cobra.Command{
		Use:   "health [URL]",
		Short: "Ask an engine over HTTP whether it is well",
		Long: `Ask the engine at URL, ` + ownHTTP + ` if none is given, whether it is
well, as GET /healthz does: for health checks of containers, which have no other
program. It needs no login. The exit code is 0 if the engine is well, else 1.

With --wait it asks until that is so. With --may-stop it asks something else:
whether this node can be stopped without harm, that is, whether all others
answer and no stream lacks a replica. Orchestrators ask that before they stop a
node, so that two are never missing at once. A node looks at the others every
ten seconds, and only a look that is newer than the question counts; so it waits
for 30 seconds if --wait does not say otherwise. A node that starts may stop.

Of an engine on this machine the certificate is not checked.`,
		Example: "  engine health\n  engine health https://127.0.0.1:8484 --may-stop --wait 5m",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			h.url = ownHTTP
			if len(args) > 0 {
				h.url = args[0]
			}
			client, err := healthClient(h.url)
			if err != nil {
				return err
			}
			h.client = client
			if h.mayStop && h.wait == 0 {
				h.wait = lookWait
			}
			is, err := h.ask(cmd.Context(), a)
			return a.show(is, err, func() { a.Printf("%s\n", console.Clean(is.Status)) })
		},
	}
	f := cmd.Flags()
	f.BoolVar(&h.mayStop, "may-stop", false, "ask whether this node of a cluster can be stopped")
	f.Func("wait", "ask until the answer is yes, for a `duration` at most", console.Duration(&h.wait))
	return cmd
}

// healthClient returns the client for a URL. Of an engine on this machine it takes any certificate, which
// has the names by which others reach it.
func healthClient(text string) (*http.Client, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, cli.Usagef("invalid URL %q: use one such as %s", text, ownHTTP)
	}
	ip, err := netip.ParseAddr(u.Hostname())
	own := u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	if own {
		transport.Proxy = nil
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	}
	return &http.Client{Transport: transport}, nil
}

// healthCheck is a question to an engine.
type healthCheck struct {
	client  *http.Client
	url     string
	mayStop bool
	wait    time.Duration
	first   *time.Time // by the engine's clock, when it was asked first
}

// ask asks until the answer is yes, or the time is up.
func (h *healthCheck) ask(ctx context.Context, a *app) (is api.Health, err error) {
	ctx, cancel := context.WithTimeout(ctx, max(h.wait, time.Nanosecond)) // ends the sleep, not a question
	defer cancel()
	for told := ""; ; {
		within, done := a.Within(context.WithoutCancel(ctx))
		is, err = h.fetch(within)
		done()
		if err == nil {
			err = h.judge(is)
		} else if h.mayStop {
			return is, err // nothing runs there
		}
		if err == nil {
			return is, nil
		}
		if text := err.Error(); text != told && h.wait > 0 {
			a.Notef("waiting: %s", console.Clean(text))
			told = text
		}
		if sleep.For(ctx, healthEvery) != nil {
			return is, err
		}
	}
}

// fetch asks once.
func (h *healthCheck) fetch(ctx context.Context) (is api.Health, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(h.url, "/")+"/healthz", nil)
	if err != nil {
		return is, err
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return is, events.WithCode(events.CodeUnavailable, err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, mostHealth)).Decode(&is); err != nil || is.Status == "" {
		return is, events.Refuse(events.CodeUnavailable, "%s answers %s, not as an engine does", h.url, resp.Status)
	}
	return is, nil
}

// judge returns an error that says why the answer is no.
func (h *healthCheck) judge(is api.Health) error {
	switch {
	case !h.mayStop && is.Starting != "":
		return events.Refuse(events.CodeUnavailable, "the engine is starting: %s", is.Starting)
	case !h.mayStop && !is.OK():
		return events.Refuse(events.CodeUnavailable, "the engine is not well: %s", is.Status)
	case !h.mayStop || is.Status == api.StatusStarting:
		return nil
	}
	if h.first == nil {
		h.first = &is.Now
	}
	switch {
	case len(is.AtRisk) > 0:
		return events.Refuse(events.CodeUnavailable, "at risk: %s", strings.Join(is.AtRisk, "; "))
	case !is.NodesAt.After(*h.first):
		return events.Refuse(events.CodeUnavailable, "the engine has not looked at the other nodes again yet")
	}
	return nil
}
