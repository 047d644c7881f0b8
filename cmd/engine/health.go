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
	// safeWait is the time that a newer look at the nodes may take.
	safeWait = 30 * time.Second
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

With --wait it asks until the engine is well. With --safe nothing may be at risk
either: every node of a cluster answers, and no stream lacks a replica. Ask so
before you stop a node, and two are never missing at once. A node looks at the
others every ten seconds, and only a look that is newer than the question
counts, so --safe waits for 30 seconds if --wait does not say otherwise.

Of an engine on this machine the certificate is not checked.`,
		Example: "  engine health\n  engine health https://127.0.0.1:8484 --safe --wait 5m",
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
			if h.safe && h.wait == 0 {
				h.wait = safeWait
			}
			is, err := h.ask(cmd.Context(), a)
			return a.show(is, err, func() { a.Printf("%s\n", console.Clean(is.Status)) })
		},
	}
	f := cmd.Flags()
	f.BoolVar(&h.safe, "safe", false, "nothing may be at risk in its cluster")
	f.Func("wait", "ask until all is well, for a `duration` at most", console.Duration(&h.wait))
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

// healthCheck is a question for an engine's health, and what counts as well.
type healthCheck struct {
	client *http.Client
	url    string
	safe   bool
	wait   time.Duration
	first  *time.Time // when the engine had looked at the nodes as it was asked first
}

// ask asks until the engine is well, or the time is up.
func (h *healthCheck) ask(ctx context.Context, a *app) (is api.Health, err error) {
	ctx, cancel := context.WithTimeout(ctx, max(h.wait, time.Nanosecond)) // ends the sleep, not a question
	defer cancel()
	for told := ""; ; {
		within, done := a.Within(context.WithoutCancel(ctx))
		is, err = h.once(within)
		done()
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

// once asks once. The error says why the engine is not well.
func (h *healthCheck) once(ctx context.Context) (is api.Health, err error) {
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
	switch {
	case resp.StatusCode != http.StatusOK && is.Starting != "":
		return is, events.Refuse(events.CodeUnavailable, "the engine is starting: %s", is.Starting)
	case resp.StatusCode != http.StatusOK:
		return is, events.Refuse(events.CodeUnavailable, "the engine is not well: %s", is.Status)
	case !h.safe:
		return is, nil
	}
	if h.first == nil {
		h.first = &is.NodesAt
	}
	switch {
	case len(is.Warnings) > 0:
		return is, events.Refuse(events.CodeUnavailable, "at risk: %s", strings.Join(is.Warnings, "; "))
	case !is.NodesAt.After(*h.first):
		return is, events.Refuse(events.CodeUnavailable, "the engine has not looked at the nodes again yet: give it ten seconds")
	}
	return is, nil
}
