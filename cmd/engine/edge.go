package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cli"
)

// siteTokenEnv is the variable of the environment that may hold the site's token.
const siteTokenEnv = "WORK_SITE_TOKEN"

// edgeEvery is the time between two looks at the site for what to print.
const edgeEvery = time.Second

func edgeCommand(a *app) *cobra.Command {
	o := embedded.EdgeOptions{}
	var tokenFile string
	cmd := &cobra.Command{
		Use:   "edge",
		Short: "Run a site at the edge, which may be cut off",
		Long: `Run a site at the edge until interrupted. Programs here publish submissions to
work.submit.TYPE on its NATS server, which keeps them on disk and acknowledges
them whether or not the hub can be reached. The hub's engine takes each of them
in exactly once, in order. Other requests go to the hub while the link is up.
The hub names the site in [[leaf.sites]] of its configuration.`,
		Example: "  engine edge --hub nats-leaf://hub.example:7422 --name lab --token-file token\n  engine list --server nats://127.0.0.1:4223",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Token, err = siteToken(o.Hub, o.Site, tokenFile); err != nil {
				return err
			}
			return a.edge(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	siteFlags(f, &o.Hub, &o.Site, &tokenFile)
	f.StringVar(&o.Dir, "dir", "", "the data `folder` (default \"edge\")")
	f.Func("nats-listen", "the `address` of the NATS server, on this machine alone (default \"127.0.0.1:4223\")", listenAddress(&o.NATSListen))
	f.Func("max-bytes", "how many `bytes` of submissions may wait; publishers get an error then (default 1GiB)", console.Value(&o.MaxBytes, config.ParseSize))
	f.Func("durability", "the `policy` for writes: always, on disk when acknowledged; interval, synced every second (default \"always\")",
		console.Choice(&o.Durability, config.Always, config.Interval))
	return cmd
}

// siteFlags defines the flags that name a hub, and a site of it.
func siteFlags(f *pflag.FlagSet, hub, site, tokenFile *string) {
	f.StringVar(hub, "hub", "", "the `URL` where the hub takes leaf connections; tls:// for TLS")
	f.StringVar(site, "name", "", "the `name` of this site, as the hub's configuration has it")
	f.StringVar(tokenFile, "token-file", "", "the `file` whose first line is the site's token (env "+siteTokenEnv+": the token)")
}

// siteToken returns the token in a file, or in the environment if no file is named. The
// hub and the site must be.
func siteToken(hub, site, file string) (string, error) {
	switch {
	case hub == "" || site == "":
		return "", cli.Usagef("name the hub and this site: --hub nats-leaf://HOST:%s --name SITE", embedded.LeafPort)
	case file == "":
		return os.Getenv(siteTokenEnv), nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", events.WithCode(events.CodeBadConfig, fmt.Errorf("read the site's token: %w", err))
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimRight(line, "\r"), nil
}

// edge runs a site, and prints how it is when that changes.
func (a *app) edge(ctx context.Context, o embedded.EdgeOptions) error {
	o.Prefix, o.CA, o.Cert, o.Key = a.Prefix, a.Flagged.CA, a.Flagged.Cert, a.Flagged.Key
	o.Logger = logger(a.Err, config.Server{LogLevel: "warn", LogFormat: "text"})
	e, err := embedded.StartEdge(ctx, o)
	if err != nil {
		return err
	}
	if !a.JSON {
		a.Printf("site %s ready\n  NATS  %s\n  hub   %s\n", o.Site, e.URL(), o.Hub)
	}
	return a.attend(ctx, nil, e.Stop, func() (any, string, string) {
		st, err := e.State(ctx)
		if err != nil {
			return nil, "", ""
		}
		return st, edgeText(st), ""
	})
}

// attend prints how a site is, at first and when that changes, until ctx or the site ends;
// then it stops the site. look returns the site's state, for JSON; how it is, in words, or
// nothing to print; and what to print behind the words, whose change alone is not printed.
func (a *app) attend(ctx context.Context, ended <-chan struct{}, stop func(context.Context) error, look func() (state any, is, more string)) error {
	again := time.NewTicker(edgeEvery)
	defer again.Stop()
	last := ""
	for {
		if state, is, more := look(); is != "" && is != last {
			last = is
			_ = a.show(state, nil, func() { a.Printf("%s  %s%s\n", time.Now().Format(time.TimeOnly), is, more) })
		}
		select {
		case <-ctx.Done():
			return inOrder(ctx, stop)
		case <-ended:
			a.Notef("the mirror has ended by itself")
			return inOrder(ctx, stop)
		case <-again.C:
		}
	}
}

// edgeText describes a site.
func edgeText(st embedded.EdgeState) string {
	waiting := console.Count(int64(st.Waiting))
	switch {
	case st.Refused != "":
		return fmt.Sprintf("cut off: %s; at most %s waiting", st.Refused, waiting)
	case !st.Connected:
		return fmt.Sprintf("cut off from the hub; at most %s waiting", waiting)
	}
	return fmt.Sprintf("connected to the hub; %s waiting", waiting)
}
