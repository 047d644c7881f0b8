package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cli"
	"github.com/streamwright/streamwright/wire"
)

// stopWithin bounds an orderly stop; after it the engine stops in the middle of
// its work, which the log survives.
const stopWithin = 30 * time.Second

func serveCommand(a *app) *cobra.Command {
	var file string
	var o embedded.Options
	var logged config.Server
	tied := false
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the engine",
		Long: `Run the engine until interrupted, with a NATS server of its own or on an
existing one (--nats-url). SIGHUP makes it read again who may use it: the users,
tokens and certificates of the configuration file and of the files that it
names. Flags override the [server] part of the configuration file. Data is in
one folder, which one process has at a time.`,
		Example: "  engine serve\n  engine serve --config engine.toml --dir /var/lib/streamwright\n  engine serve --http 0.0.0.0:8484 --http-tokens tokens.txt\n  engine serve --config cluster.toml --node a",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Config, err = loadConfig(file); err != nil {
				return err
			}
			o.Config.Server.LogFormat = cmp.Or(logged.LogFormat, o.Config.Server.LogFormat)
			o.Config.Server.LogTransitions = cmp.Or(logged.LogTransitions, o.Config.Server.LogTransitions)
			if tied {
				go endWith(a.In)
			}
			o.HTTPTokens = os.Getenv("WORK_TOKENS")
			return a.serve(cmd.Context(), o, file)
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", "the configuration `file` (see engine.example.toml)")
	f.StringVar(&o.Dir, "dir", "", "the data `folder` (default \"data\")")
	f.Func("nats-listen", "the `address` of the NATS server, or off (default \"127.0.0.1:4222\")", listenAddress(&o.NATSListen))
	f.Func("http", "the `address` of the HTTP API, /healthz, /readyz and /metrics, or off (default \"127.0.0.1:8484\")", listenAddress(&o.HTTP))
	f.Func("pprof", "the `address` of Go's profiler, of this machine alone, or off (default \"off\")", listenAddress(&o.PProf))
	f.StringVar(&o.HTTPTokensFile, "http-tokens", "", "the `file` of bearer tokens for HTTP, name token role[,role…] on a line (env WORK_TOKENS: more of them, with ; between)")
	f.Func("durability", "the `policy` for writes: always, on disk when acknowledged; interval, synced every second (default \"always\")",
		console.Choice(&o.Durability, config.Always, config.Interval))
	f.Func("log-format", "the `format` of the log: text, json (default \"text\")", console.Choice(&logged.LogFormat, "text", "json"))
	f.Func("log-transitions", "log `which` transitions of items, a line each: off, sampled (at most 100 a second), all (default \"off\")", console.Choice(&logged.LogTransitions, "off", "sampled", "all"))
	f.StringVar(&o.NATSURL, "nats-url", "", "the `URL` of an existing NATS server with JetStream, to use instead of an embedded one; --context names one as well")
	f.StringVar(&o.Cluster.Name, "cluster", "", "form a cluster of this `name` with the nodes named by --peer")
	f.StringVar(&o.Cluster.Node, "node", "", "this node's `name`, different on each")
	f.Func("cluster-listen", "the `address` for the other nodes, such as 10.0.0.1:6222", console.Value(&o.Cluster.Listen, clusterAddress))
	f.Func("cluster-advertise", "the `address` by which they reach this node, if it is another", console.Value(&o.Cluster.Advertise, clusterAddress))
	f.Func("peer", "the `address` of a node; repeat it for each, with or without this one", func(s string) error {
		addr, err := clusterAddress(s)
		o.Cluster.Peers = append(o.Cluster.Peers, addr)
		return err
	})
	f.StringVar(&o.Cluster.SecretFile, "cluster-secret-file", "", "the `file` whose first line is the secret that the nodes share")
	f.StringVar(&o.RestoreFrom, "restore", "", "a `backup` to begin with where there is no log yet, as on the nodes of a new cluster; give it to all of them")
	f.Func("restore-namespace", "a `name=backup` to begin with where that namespace has no log yet: start all nodes with it, then add the namespace; repeat it for others", restoreNamespace(&o.RestoreNamespaces))
	f.BoolVar(&o.SetStoreAside, "set-store-aside", false, "accept an event log that has lost some or all of what the store holds (log_lost): the store is set aside and made anew")
	f.BoolVar(&tied, "until-input-ends", false, "end at once when the standard input does, as with the program that has its other end")
	_ = f.MarkHidden("until-input-ends") // it is there; for engine demo
	return cmd
}

// restoreNamespace decodes which namespace is to be restored, and from which backup.
func restoreNamespace(dst *map[events.Namespace]string) func(string) error {
	return func(s string) error {
		name, file, _ := strings.Cut(s, "=")
		ns, err := events.ParseNamespace(name)
		if err == nil && (file == "" || ns == events.DefaultNamespace) {
			err = errors.New("use NAME=BACKUP, of another namespace than default (which has --restore)")
		}
		if err != nil {
			return err
		}
		if *dst == nil {
			*dst = map[events.Namespace]string{}
		}
		(*dst)[ns] = file
		return nil
	}
}

// endWith ends the program when in does.
func endWith(in io.Reader) {
	_, _ = io.Copy(io.Discard, in)
	os.Exit(cli.ExitFailed)
}

// listenAddress decodes the address that a server listens on.
func listenAddress(dst *string) func(string) error {
	return console.Value(dst, func(s string) (string, error) {
		if !config.IsAddress(s) {
			return "", errors.New("use host:port such as 127.0.0.1:4222 (port 0: any free one), or off")
		}
		return s, nil
	})
}

// clusterAddress decodes the address of a node.
func clusterAddress(s string) (string, error) {
	if !config.IsClusterAddress(s) {
		return "", errors.New("use host:port such as 10.0.0.1:6222, or a host alone")
	}
	return s, nil
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
	o.WaitingForNodes = func(cluster string, here, of int) {
		a.Notef("waiting for the other nodes of cluster %s: %d of %d are here", cluster, here, of)
	}
	var stood atomic.Bool
	o.Role = func(role wire.NodeRole, owner string) {
		switch {
		case role == wire.RoleStandby && owner == "":
			stood.Store(true)
			a.Notef("standing by: cut off from the log")
		case role == wire.RoleStandby:
			stood.Store(true)
			a.Notef("standing by: %s owns the log", owner)
		case stood.Load(): // else it goes without saying
			a.Notef("this engine owns the log now")
		}
	}
	e, err := embedded.Start(ctx, o)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		a.Notef("stopped while starting")
		return nil
	}
	if err != nil {
		return err
	}
	a.printServing(e)
	for running := true; running; {
		select {
		case <-ctx.Done():
			a.Notef("stopping: finishing what was taken")
			running = false
		case <-e.Done():
			a.Notef("the engine has ended by itself")
			running = false
		case <-reload:
			c, err := loadConfig(file)
			if err != nil {
				o.Logger.Error("the configuration was not read again: all is as it was", "error", err)
			} else {
				_, _ = e.Reload(c) // the program's log has the outcome
			}
		}
	}
	return inOrder(ctx, e.Stop)
}

// inOrder stops an engine or a site in order, though ctx may have ended.
func inOrder(ctx context.Context, stop func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if err := stop(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}

func (a *app) printServing(e *embedded.Engine) {
	if a.JSON {
		_ = a.PrintJSON(map[string]string{"nats": streamwright.Redact(e.URL()), "http": e.HTTP(), "pprof": e.PProf(), "dir": e.Dir(), "durability": string(e.Durability())})
		return
	}
	a.Printf("engine ready\n  NATS        %s\n", cmp.Or(streamwright.Redact(e.URL()), "none"))
	if at := e.LeafURL(); at != "" {
		a.Printf("  sites       %s\n", at)
	}
	if e.HTTP() != "" {
		a.Printf("  page        %s/%s\n", e.HTTPURL(), others(e.HTTP()))
		a.Printf("  HTTP API    %s/api/v1, described at %s/docs\n", e.HTTPURL(), e.HTTPURL())
		a.Printf("  health      %s/healthz\n  metrics     %s/metrics\n", e.HTTPURL(), e.HTTPURL())
	}
	if e.PProf() != "" {
		a.Printf("  profiles    http://%s/debug/pprof/\n", e.PProf())
	}
	a.Printf("  data        %s (durability %s)\n", cmp.Or(e.Dir(), "none"), e.Durability())
}

// others tells that a server listens on more addresses than the one shown.
func others(listen string) string {
	host, _, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return ""
	}
	return " (and at this machine's other addresses)"
}

// logger makes the program's log.
func logger(w io.Writer, s config.Server) *slog.Logger {
	opts := &slog.HandlerOptions{Level: s.Level()}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// serveConnection returns the settings for an existing NATS that the command line and
// the environment give. An embedded server needs none of them: the environment is
// meant for clients then, and flags are a mistake.
func (a *app) serveConnection(o embedded.Options) (connect.Settings, error) {
	flags := a.Flagged
	flags.URL = ""
	none := connect.Settings{}
	if o.NATSURL == "" && !o.Config.External() && flags.Context == "" {
		if flags != none {
			return none, cli.Usagef("the flags of a connection are for an existing NATS: name it by --nats-url or --context, or leave them out")
		}
		return none, nil
	}
	env := connect.FromEnv(os.Getenv)
	if err := cmp.Or(flags.Check("the command line"), env.Check("the environment")); err != nil {
		return none, cli.Usage(err)
	}
	// nats_url names the server, and a context must be asked for.
	env.URL, env.Context = "", ""
	if flags.Context != "" {
		var err error
		if flags, err = flags.Resolve(); err != nil {
			return none, events.WithCode(events.CodeBadConfig, err)
		}
	}
	return connect.Merge(flags, env), nil
}
