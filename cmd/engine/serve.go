package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
)

// stopWithin bounds an orderly stop; after it the engine gives up in the
// midst, which the log survives.
const stopWithin = 30 * time.Second

func serveCommand(a *app) *cobra.Command {
	var file, durability string
	var o embedded.Options
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the engine",
		Long: `Runs the engine with a NATS server of its own, or on an existing one
(--nats-url), until it is interrupted. Flags override the [server] part of the
configuration file. Data is in one folder, which one process has at a time.`,
		Args: console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" {
				c, err := config.Load(file)
				if err != nil {
					return events.WithCode(events.CodeBadConfig, err)
				}
				o.Config = c
			}
			o.Durability = config.Durability(durability)
			return a.serve(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", "configuration `file` (see engine.example.toml)")
	f.StringVar(&o.Dir, "dir", "", `data folder (default "data")`)
	f.StringVar(&o.NATSListen, "nats-listen", "", `address of the NATS server, or off (default "127.0.0.1:4222")`)
	f.StringVar(&o.HTTP, "http", "", `address of the HTTP API, /healthz, /readyz and /metrics, or off (default "127.0.0.1:8484")`)
	f.StringVar(&o.PProf, "pprof", "", `address of Go's profiler, of this machine alone, or off (default "off")`)
	f.StringVar(&durability, "durability", "", `always: every acknowledged write is on disk; interval: synced every second (default "always")`)
	f.StringVar(&o.NATSURL, "nats-url", "", "an existing NATS server with JetStream to use instead of an embedded one")
	return cmd
}

func (a *app) serve(ctx context.Context, o embedded.Options) error {
	o.Tracing = a.tracing
	o.Logger = logger(a.Err, o.Config.WithDefaults().Server)
	if a.Creds != "" {
		o.NATSOptions = append(o.NATSOptions, nats.UserCredentials(a.Creds))
	}
	e, err := embedded.Start(ctx, o)
	if err != nil {
		return err
	}
	a.printServing(e)
	select {
	case <-ctx.Done():
		a.Notef("stopping: finishing what was taken")
	case <-e.Done():
		a.Notef("the engine has ended by itself")
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if err := e.Stop(stop); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}

func (a *app) printServing(e *embedded.Engine) {
	if a.JSON {
		_ = a.PrintJSON(map[string]string{"nats": e.URL(), "http": e.HTTP(), "pprof": e.PProf(), "dir": e.Dir(), "durability": string(e.Durability())})
		return
	}
	a.Printf("engine ready\n  NATS        %s\n", orNone(e.URL()))
	if e.HTTP() != "" {
		a.Printf("  health      http://%s/healthz\n  metrics     http://%s/metrics\n", e.HTTP(), e.HTTP())
	}
	if e.PProf() != "" {
		a.Printf("  profiles    http://%s/debug/pprof/\n", e.PProf())
	}
	a.Printf("  data        %s (durability %s)\n", orNone(e.Dir()), e.Durability())
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// logger makes the program's log, on standard error.
func logger(w io.Writer, s config.Server) *slog.Logger {
	opts := &slog.HandlerOptions{Level: s.Level()}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
