package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cli"
)

func mirrorCommand(a *app) *cobra.Command {
	o := embedded.MirrorOptions{}
	var file, tokenFile string
	cmd := &cobra.Command{
		Use:   "mirror",
		Short: "Copy the log of an engine, to read it here",
		Long: `Copy the log of another engine, the hub, until interrupted, and answer what
reads: queries, the page, tails, any moment of the past, verify. What decides is
refused, with the name of the hub. Cut off from the hub it answers as of the
last event that it has, and says so. The hub names the site in [[leaf.sites]] of
its configuration, with mirror = true. Data is in one folder, which can be
removed: it is filled again from the hub.

With --namespace it is the log of that namespace, which the hub names for the
site too. Programs here then use the same --namespace.

With --keep the mirror is an archive: it keeps what the hub cuts of its log, and
the items whose retention is over there, for so long. Its folder then holds what
the hub no longer has: started without --keep, it drops that.`,
		Example: "  engine mirror --hub tls://hub.example:7422 --name berlin --token-file token\n  engine mirror --hub tls://hub.example:7422 --name old --token-file t --keep 5y\n  engine mirror --hub tls://hub.example:7422 --name acme-1 --namespace acme\n  engine list --server nats://127.0.0.1:4224",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Token, err = siteToken(o.Hub, o.Site, tokenFile); err != nil {
				return err
			}
			if o.Namespace, err = cli.Namespace(a.Namespace, os.Getenv); err != nil {
				return err
			}
			if o.Options.Config, err = loadConfig(file); err != nil {
				return err
			}
			o.Options.HTTPTokens = os.Getenv("WORK_TOKENS")
			return runMirror(cmd.Context(), a, o)
		},
	}
	f := cmd.Flags()
	siteFlags(f, &o.Hub, &o.Site, &tokenFile)
	f.StringVar(&file, "config", "", "a configuration `file` for what listens here: [server], [http], [nats], [quotas]")
	f.StringVar(&o.Options.Dir, "dir", "", "the data `folder` (default \"mirror\")")
	f.Func("keep", "keep what the hub cuts and prunes for this `duration`, such as 90d or 5y (default: drop it as the hub does)", keepFor(&o.Keep))
	f.Func("nats-listen", "the `address` of the NATS server, or off (default \"127.0.0.1:4224\")", listenAddress(&o.Options.NATSListen))
	f.Func("http", "the `address` of the HTTP API, the page, /healthz, /readyz and /metrics, or off (default \"127.0.0.1:8485\")", listenAddress(&o.Options.HTTP))
	f.StringVar(&o.Options.HTTPTokensFile, "http-tokens", "", "the `file` of bearer tokens for HTTP, as of engine serve (env WORK_TOKENS)")
	f.Func("durability", "the `policy` for writes: always, or interval, synced every second (default \"interval\": what is lost is copied again)",
		console.Choice(&o.Options.Durability, config.Always, config.Interval))
	return cmd
}

// pageOf returns the path of a namespace's page.
func pageOf(ns events.Namespace) string {
	if ns == events.DefaultNamespace {
		return "/"
	}
	return "/ns/" + string(ns) + "/"
}

// keepFor decodes a duration above 0, in days and years too.
func keepFor(dst *time.Duration) func(string) error {
	return console.Value(dst, func(s string) (time.Duration, error) {
		d, err := config.ParseDuration(s)
		if err == nil && d <= 0 {
			err = errors.New("it must be positive")
		}
		return d, err
	})
}

// runMirror runs a mirror, and prints when it is cut off, and when it follows again.
func runMirror(ctx context.Context, a *app, o embedded.MirrorOptions) error {
	if o.Options.Config.Server.Prefix == "" {
		o.Options.Config.Server.Prefix = a.Prefix
	}
	if o.Options.Config.Server.Durability == "" && o.Options.Durability == "" {
		o.Options.Durability = config.Interval
	}
	o.CA, o.Cert, o.Key = a.Flagged.CA, a.Flagged.Cert, a.Flagged.Key
	o.Options.Logger = logger(a.Err, config.Server{LogLevel: "warn", LogFormat: "text"})
	m, err := embedded.StartMirror(ctx, o)
	if err != nil {
		return err
	}
	if !a.JSON {
		a.Printf("mirror %s ready\n  hub    %s\n  NATS   %s\n", o.Site, m.State().Hub, m.URL())
		if m.HTTPURL() != "" {
			a.Printf("  page   %s%s\n", m.HTTPURL(), pageOf(o.Namespace))
		}
	}
	return a.attend(ctx, m.Done(), m.Stop, func() (any, string, string) {
		st := m.State()
		is := "follows the hub"
		if st.CutOff != "" {
			is = "does not follow the hub: " + st.CutOff
		}
		return st, is, fmt.Sprintf("; position %s", st.Projected)
	})
}
