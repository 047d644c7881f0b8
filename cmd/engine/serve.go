package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
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
		Long: `Run the engine with a NATS server of its own, or on an existing one (--nats-url), until interrupted.
SIGHUP makes it read again who may use it: the users, tokens and certificates of the configuration file and
of the files that it names. Flags override the [server] part of the configuration file. Data is in one folder,
which one process has at a time.`,
		Example: "  engine serve\n  engine serve --config engine.toml --dir /var/lib/streamwright\n  engine serve --http 0.0.0.0:8484 --http-tokens tokens.txt",
		Args:    console.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkServeFlags(o, durability); err != nil {
				return err
			}
			c, err := loadConfig(file)
			if err != nil {
				return err
			}
			o.Config = c
			o.Durability = config.Durability(durability)
			o.HTTPTokens = os.Getenv("WORK_TOKENS")
			return a.serve(cmd.Context(), o, file)
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", "the configuration `file` (see engine.example.toml)")
	f.StringVar(&o.Dir, "dir", "", "the data `folder` (default \"data\")")
	f.StringVar(&o.NATSListen, "nats-listen", "", "the `address` of the NATS server, or off (default \"127.0.0.1:4222\")")
	f.StringVar(&o.HTTP, "http", "", "the `address` of the HTTP API, /healthz, /readyz and /metrics, or off (default \"127.0.0.1:8484\")")
	f.StringVar(&o.PProf, "pprof", "", "the `address` of Go's profiler, of this machine alone, or off (default \"off\")")
	f.StringVar(&o.HTTPTokensFile, "http-tokens", "", "the `file` of bearer tokens for HTTP, name token role[,role…] on a line (env WORK_TOKENS: more of them, with ; between)")
	f.StringVar(&durability, "durability", "", "how `durable` a write is: always, on disk when acknowledged; interval, synced every second (default \"always\")")
	f.StringVar(&o.NATSURL, "nats-url", "", "the `URL` of an existing NATS server with JetStream, to use instead of an embedded one; so is that of --context")
	f.BoolVar(&o.SetStoreAside, "set-store-aside", false, "accept an event log that has lost what the store holds, or all (log_lost): the store is set aside and made anew")
	return cmd
}

// checkServeFlags checks of the flags what the configuration file has no part in.
func checkServeFlags(o embedded.Options, durability string) error {
	for _, f := range []struct{ flag, addr string }{{"nats-listen", o.NATSListen}, {"http", o.HTTP}, {"pprof", o.PProf}} {
		if f.addr != "" && !config.IsAddress(f.addr) {
			return console.Usagef("invalid --%s %q: use host:port such as 127.0.0.1:4222 (port 0: any free one), or off", f.flag, f.addr)
		}
	}
	switch config.Durability(durability) {
	case "", config.Always, config.Interval:
		return nil
	}
	return console.Usagef("invalid --durability %q: use always or interval", durability)
}

// loadConfig reads the configuration file, if there is one.
func loadConfig(file string) (config.Config, error) {
	if file == "" {
		return config.Config{}, nil
	}
	c, err := config.Load(file)
	if err != nil {
		return c, events.WithCode(events.CodeBadConfig, err)
	}
	return c, nil
}

func (a *app) serve(ctx context.Context, o embedded.Options, file string) error {
	o.Tracing = a.tracing
	o.Logger = logger(a.Err, o.Config.WithDefaults().Server)
	conn, err := a.serveConnection(o)
	if err != nil {
		return err
	}
	o.Connect = conn
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	o.StandingBy = func(owner string) { a.Notef("standing by: %s owns the log", owner) }
	for {
		err := a.serveOnce(ctx, &o, file, reload)
		if !errors.Is(err, embedded.ErrNotOwner) || ctx.Err() != nil {
			return err
		}
		a.Notef("%s: standing by", err)
	}
}

// serveOnce runs an engine until it is to stop, or has ended. One that is
// interrupted while it stands by has nothing to stop. What was read again
// meanwhile is in o: the next engine must not let in whoever was taken out.
func (a *app) serveOnce(ctx context.Context, o *embedded.Options, file string, reload <-chan os.Signal) error {
	stood := false
	run := *o
	run.StandingBy = func(owner string) { stood = true; o.StandingBy(owner) }
	e, err := embedded.Start(ctx, run)
	if stood && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	if err != nil {
		return err
	}
	a.printServing(e)
	a.attend(ctx, e, reload, func() {
		c, err := loadConfig(file)
		if err != nil {
			o.Logger.Error("the configuration was not read again: all is as it was", "error", err)
			return
		}
		if _, err := e.Reload(c); err == nil { // the log says what came of it
			o.Config = c
		}
	})
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if err := e.Stop(stop); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}

// attend returns when the engine is to stop or has ended; until then it reads
// the configuration again whenever it is told to.
func (a *app) attend(ctx context.Context, e *embedded.Engine, reload <-chan os.Signal, again func()) {
	for {
		select {
		case <-ctx.Done():
			a.Notef("stopping: finishing what was taken")
			return
		case <-e.Done():
			a.Notef("the engine has ended by itself")
			return
		case <-reload:
			again()
		}
	}
}

func (a *app) printServing(e *embedded.Engine) {
	if a.JSON {
		_ = a.PrintJSON(map[string]string{"nats": streamwright.Redact(e.URL()), "http": e.HTTP(), "pprof": e.PProf(), "dir": e.Dir(), "durability": string(e.Durability())})
		return
	}
	a.Printf("engine ready\n  NATS        %s\n", orNone(streamwright.Redact(e.URL())))
	if e.HTTP() != "" {
		a.Printf("  page        %s/%s\n", e.HTTPURL(), others(e.HTTP()))
		a.Printf("  HTTP API    %s/api/v1, described at %s/docs\n", e.HTTPURL(), e.HTTPURL())
		a.Printf("  health      %s/healthz\n  metrics     %s/metrics\n", e.HTTPURL(), e.HTTPURL())
	}
	if e.PProf() != "" {
		a.Printf("  profiles    http://%s/debug/pprof/\n", e.PProf())
	}
	a.Printf("  data        %s (durability %s)\n", orNone(e.Dir()), e.Durability())
}

// others says that a server can be reached at other addresses than that which is
// shown.
func others(listen string) string {
	host, _, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return ""
	}
	return " (and at this machine's other addresses)"
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

// serveConnection is how an existing NATS is reached, as far as the command
// line and the environment say. An embedded server needs nothing of it: what
// the environment has is meant for clients then, and flags are a mistake.
func (a *app) serveConnection(o embedded.Options) (connect.Settings, error) {
	flags := a.Flagged
	flags.URL = ""
	if o.NATSURL == "" && !o.Config.External() && flags.Context == "" {
		if flags != (connect.Settings{}) {
			return connect.Settings{}, console.Usagef("the flags of a connection are for an existing NATS: name it by --nats-url or --context, or leave them out")
		}
		return connect.Settings{}, nil
	}
	if err := flags.Check("the command line"); err != nil {
		return connect.Settings{}, console.Usage(err)
	}
	env := connect.FromEnv(os.Getenv)
	if err := env.Check("the environment"); err != nil {
		return connect.Settings{}, console.Usage(err)
	}
	// The server is that of nats_url, and a context one that is asked for.
	env.URL, env.Context = "", ""
	if flags.Context == "" {
		return connect.Merge(flags, env), nil
	}
	named, err := flags.Resolve()
	if err != nil {
		return connect.Settings{}, events.WithCode(events.CodeBadConfig, err)
	}
	return connect.Merge(named, env), nil
}
