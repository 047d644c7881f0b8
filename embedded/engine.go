package embedded

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access/httpauth"
	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/api/bridge"
	"github.com/streamwright/streamwright/api/live"
	"github.com/streamwright/streamwright/api/rest"
	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/eventlog"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/tracing/itemspans"
	"github.com/streamwright/streamwright/wire"
)

// Version is that of the program; release builds set it by the linker.
var Version = "dev"

// Options say what to start. The zero Options are an engine with the default
// configuration and a data folder named "data".
type Options struct {
	// Config is the configuration, as config.Load gives it. The fields below,
	// if set, override its [server] part.
	Config     config.Config
	Dir        string
	NATSListen string // host:port, or config.Off
	HTTP       string // host:port, or config.Off
	PProf      string // host:port of this machine, or config.Off
	Durability config.Durability
	NATSURL    string // an existing NATS, in place of an embedded one
	// Connect says how that is reached; it counts before [connect], and its URL
	// for nothing. With a context, NATSURL may be left out.
	Connect connect.Settings

	// Memory keeps everything in memory, gone at Stop; for tests. Unless they
	// are set, nothing listens: connect with [Engine.Connect].
	Memory bool

	// HTTPTokens are tokens for HTTP beside those of the configuration's
	// tokens_file, one on a line or with ; between them; HTTPTokensFile overrides
	// that.
	HTTPTokens     string
	HTTPTokensFile string

	// DedupHook, if set, is asked about submissions, in place of the subject of
	// the configuration's [dedup_hook]; the rest of that holds for it too. Score,
	// if set, orders the items of ScoreTypes (none: all) in place of their
	// priority and age: see [dispatcher.Config].
	DedupHook  dispatcher.DedupHook
	Score      func(events.Submit) time.Duration
	ScoreTypes []events.Type

	// Tracing makes spans of what happens to items; nil: none. It must have been
	// made with the ids of package tracing/itemspans, and the caller shuts it down.
	Tracing trace.TracerProvider

	NATSOptions []nats.Option // for NATSURL
	Logger      *slog.Logger  // nil: none
}

// Engine is an engine with all that belongs to it, in this process.
type Engine struct {
	cfg   config.Config
	given config.Config // cfg before its connection was resolved
	o     Options
	log   *slog.Logger

	dir        *dataDir
	space      *space
	dataSize   dataSize
	auth       *httpauth.Authenticator
	httpTLS    atomic.Pointer[tls.Config] // that of new connections
	reloading  sync.Mutex                 // one reload at a time
	srv        *server
	nc         *nats.Conn // the engine's own
	denied     denied
	execDenied denied // to the login of [connect.exec]
	eventLog   eventlog.Log
	store      *projector.Store
	dispatcher *dispatcher.Engine
	service    *api.Service
	metrics    *api.Metrics
	http       *rest.Server
	profiler   *profiler
	live       *live.Hub // nil without HTTP
	bridge     *bridge.Bridge
	mirror     *mirror
	janitor    *blobs.Janitor
	execs      []*execWorker
	spans      *itemspans.Recorder // nil: nothing is traced

	stop sync.Once
	err  error // of Stop
}

// Start starts an engine and returns once it owns its log and answers. Several
// engines can run in one process, each with a folder of its own or in memory.
// A failure undoes what has been started, and its error says what to do.
func Start(ctx context.Context, o Options) (*Engine, error) {
	e := &Engine{o: o, cfg: o.config(), log: o.Logger, metrics: api.NewMetrics()}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if err := e.cfg.Validate(); err != nil {
		return nil, events.WithCode(events.CodeBadConfig, err)
	}
	e.given = e.cfg
	if err := e.resolveConnection(); err != nil {
		return nil, events.WithCode(events.CodeBadConfig, err)
	}
	if err := e.openAccess(); err != nil {
		return nil, events.WithCode(events.CodeBadConfig, err)
	}
	for _, step := range []func(context.Context) error{e.openDir, e.startPProf, e.openServer, e.openLog, e.openStore, e.startEngine, e.startFaces, e.startExecs} {
		if err := step(ctx); err != nil {
			undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			defer cancel()
			return nil, errors.Join(e.denied.explain(err), e.Stop(undo))
		}
	}
	return e, nil
}

// config is the configuration with the overrides in it.
func (o Options) config() config.Config {
	c := o.Config
	set := func(dst *string, v string) {
		if v != "" {
			*dst = v
		}
	}
	if o.Memory {
		c.Server.NATSListen, c.Server.HTTP, c.Server.PProf = config.Off, config.Off, config.Off
	}
	set(&c.Server.Dir, o.Dir)
	set(&c.Server.NATSListen, o.NATSListen)
	set(&c.Server.HTTP, o.HTTP)
	set(&c.Server.PProf, o.PProf)
	set(&c.Server.NATSURL, o.NATSURL)
	set(&c.HTTP.TokensFile, o.HTTPTokensFile)
	c.Connect = o.connection(c.Connect)
	if o.Durability != "" {
		c.Server.Durability = o.Durability
	}
	return c.WithDefaults()
}

func (e *Engine) names() wire.Names {
	return wire.WithPrefix(e.cfg.Server.Prefix).In(e.cfg.Connect.Domain)
}

func (e *Engine) openDir(context.Context) (err error) {
	if e.o.Memory {
		return nil
	}
	if e.dir, err = openDataDir(e.cfg.Server.Dir); err != nil {
		return err
	}
	return nil
}

func (e *Engine) openServer(ctx context.Context) (err error) {
	if e.cfg.Server.NATSURL == "" {
		so := e.serverOptions()
		so.Before = func(s *server) error { return e.holdNatives(ctx, s) }
		if e.srv, err = startServer(so); err != nil {
			return err
		}
	}
	if e.nc, err = e.connect(true, nats.Name("streamwright engine"), nats.MaxReconnects(-1)); err != nil {
		return err
	}
	return e.checkServer(ctx)
}

// minPayload is the least that a message may have: no event is larger.
const minPayload = 2 << 20

// checkServer refuses a server that can't carry the engine.
func (e *Engine) checkServer(ctx context.Context) error {
	if most := e.nc.MaxPayload(); most < minPayload {
		return fmt.Errorf("use NATS at %s: its max_payload is %d bytes: set it to %d or more", streamwright.Redact(e.URL()), most, minPayload)
	}
	js, err := connect.JetStream(e.nc, e.names())
	if err == nil {
		_, err = js.AccountInfo(ctx)
	}
	if err != nil {
		return fmt.Errorf("use NATS at %s: JetStream does not answer: %w: enable it there, for this account", streamwright.Redact(e.URL()), err)
	}
	return nil
}

// connect opens a connection; with the engine's own rights if privileged.
func (e *Engine) connect(privileged bool, opts ...nats.Option) (*nats.Conn, error) {
	if e.srv != nil {
		return e.srv.connect(privileged, opts...)
	}
	return e.connectOutside(opts)
}

func (e *Engine) openLog(ctx context.Context) error {
	l, err := eventlog.Open(ctx, eventlog.Config{
		Connect: func() (*nats.Conn, error) {
			return e.connect(true, nats.Name("streamwright log"), nats.ReconnectBufSize(-1))
		},
		Names: e.names(), SyncAlways: e.cfg.Server.Durability == config.Always && !e.o.Memory, Memory: e.o.Memory, Logger: e.log,
	})
	if err != nil {
		return err // and no log, not even a nil one, for Stop to close
	}
	e.eventLog = l
	return nil
}

// openStore opens the projection and sees to it that it is that of the log. A
// store that is not, or that can't be opened, is derived: it is made anew.
func (e *Engine) openStore(ctx context.Context) error {
	opts := projector.Options{InMemory: e.o.Memory, Logger: e.log}
	folder := ""
	if e.dir != nil {
		folder = filepath.Join(e.dir.path, "store")
	}
	store, err := projector.Open(folder, opts)
	if err != nil && folder != "" {
		e.log.Warn("the store can't be opened: making it anew from the log", "error", err)
		if rerr := os.RemoveAll(folder); rerr != nil {
			return errors.Join(err, rerr)
		}
		store, err = projector.Open(folder, opts)
	}
	if err != nil {
		return err
	}
	e.store = store
	tip, err := e.eventLog.Last(ctx)
	if err != nil {
		return err
	}
	e.metrics.CountFrom(tip.Seq)
	identity := tip.Created.UTC().Format(time.RFC3339Nano)
	err = store.CheckLog(ctx, identity, e.eventLog)
	if errors.Is(err, projector.ErrDiverged) {
		e.log.Warn("the store is not that of the log: making it anew", "why", err)
		e.store = nil
		if err := errors.Join(store.Close(), os.RemoveAll(folder)); err != nil {
			return err
		}
		if e.store, err = projector.Open(folder, opts); err != nil {
			return err
		}
		err = nil
	}
	if err != nil {
		return err
	}
	return e.store.SetIdentity(identity)
}

func (e *Engine) startEngine(ctx context.Context) (err error) {
	if e.mirror, err = newMirror(e); err != nil {
		return err
	}
	if err := e.openBlobs(ctx); err != nil {
		return err
	}
	if e.o.Tracing != nil {
		if e.spans, err = itemspans.New(e.o.Tracing, e.store.History); err != nil {
			return err
		}
	}
	host, _ := os.Hostname()
	c := dispatcher.Config{
		Log: e.eventLog, Store: e.store, Conn: e.nc, Names: e.names(), Owner: fmt.Sprintf("%s-%d", host, os.Getpid()), Version: Version,
		Alone: e.srv != nil, MemoryOnly: e.o.Memory, Defaults: e.cfg.TypeDefaults(), MaxRunning: e.cfg.Limits.MaxRunning,
		Limits:    e.cfg.EngineLimits(),
		FileTypes: map[events.Type]func(events.TypeSettings) events.TypeSettings{}, FileSchedules: e.cfg.FileSchedules(), Logger: e.log, Hooks: e.hooks(),
		MaxParams: e.cfg.TypeDefaults().MaxParams, IntakeMaxBytes: e.intakeBytes(),
		ProbeInterval: e.cfg.Workers.ProbeInterval, ProbeTimeout: e.cfg.Workers.ProbeTimeout, ProbeFailures: e.cfg.Workers.ProbeFailures,
		Dedup: e.dedupHook(), Score: e.o.Score, ScoreTypes: e.o.ScoreTypes,
		CutEvents: e.cfg.Retention.CutEvents,
	}
	if e.spans != nil {
		c.Traceparent = e.spans.Traceparent
	}
	for name, t := range e.cfg.Types {
		if t.Patch.Empty() {
			continue // just a command: the log owns the settings
		}
		c.FileTypes[name] = t.Patch.Apply
		c.MaxParams = max(c.MaxParams, e.cfg.Settings(name).MaxParams)
	}
	if e.dispatcher, err = dispatcher.New(c); err != nil {
		return err
	}
	e.watchSpace()
	if err := e.newFaces(ctx); err != nil {
		return err
	}
	// The feed begins where the store is now, and misses nothing from there on.
	if err := e.mirror.start(); err != nil {
		return err
	}
	return e.dispatcher.Start(ctx)
}

// Connect opens an in-process connection (or one to the NATS that the engine
// uses), with a client's rights. The caller closes it.
func (e *Engine) Connect(opts ...nats.Option) (*nats.Conn, error) { return e.connect(false, opts...) }

// Client opens a client on a connection of its own, which Close closes.
func (e *Engine) Client(ctx context.Context) (*streamwright.Client, error) {
	if e.srv == nil {
		return streamwright.Connect(ctx, e.cfg.Server.NATSURL, streamwright.WithPrefix(e.cfg.Server.Prefix), streamwright.WithConnection(e.cfg.Connect), streamwright.WithNATS(e.o.NATSOptions...))
	}
	login, err := e.srv.inProcess(e.srv.client)
	if err != nil {
		return nil, err
	}
	return streamwright.Connect(ctx, "", streamwright.WithPrefix(e.cfg.Server.Prefix), streamwright.WithNATS(login...))
}

// URL is where other processes connect to NATS; empty if nothing listens.
func (e *Engine) URL() string {
	if e.srv == nil {
		return e.cfg.Server.NATSURL
	}
	return e.srv.URL()
}

// HTTP is where the HTTP API, the web page, health and metrics are; empty if nothing listens.
func (e *Engine) HTTP() string {
	if e.http == nil {
		return ""
	}
	return e.http.Addr()
}

// HTTPURL is HTTP as the beginning of a URL; empty if nothing listens.
func (e *Engine) HTTPURL() string {
	switch {
	case e.http == nil:
		return ""
	case e.cfg.HTTP.TLSCert != "":
		return "https://" + e.http.Addr()
	}
	return "http://" + e.http.Addr()
}

// Traffic is how many messages the embedded server has taken in and sent.
func (e *Engine) Traffic() (in, out int64) {
	if e.srv == nil {
		return 0, 0
	}
	v, err := e.srv.ns.Varz(nil)
	if err != nil {
		return 0, 0
	}
	return v.InMsgs, v.OutMsgs
}

// Done is closed when the engine has ended by itself, because its log can't be
// served: Stop then says why.
func (e *Engine) Done() <-chan struct{} { return e.dispatcher.Done() }

// Stop stops in good order: no new requests, what was taken is decided,
// durable and answered, the store is flushed, the server is down. When ctx ends
// first it gives up in the midst, which nothing is lost by. Idempotent.
func (e *Engine) Stop(ctx context.Context) error {
	e.stop.Do(func() { e.err = e.shutdown(ctx) })
	return e.err
}

func (e *Engine) shutdown(ctx context.Context) error {
	var errs []error
	do := func(there bool, stop func() error) {
		if there {
			errs = append(errs, stop())
		}
	}
	for _, x := range e.execs {
		errs = append(errs, x.stop(ctx))
	}
	do(e.space != nil, func() error { e.space.stop(); return nil })
	do(e.live != nil, func() error { e.live.Stop(); return nil })
	do(e.bridge != nil, func() error { return e.bridge.Stop(ctx) })
	do(e.http != nil, func() error { return e.http.Stop(ctx) })
	do(e.service != nil, func() error { return e.service.Stop(ctx) })
	do(e.janitor != nil, func() error { e.janitor.Stop(); return nil })
	do(e.dispatcher != nil, func() error { return e.dispatcher.Stop(ctx) })
	do(e.mirror != nil, func() error { return e.mirror.stop(ctx) })
	do(e.store != nil, func() error { return e.store.Close() })
	do(e.eventLog != nil, func() error { return e.eventLog.Close() })
	do(e.nc != nil, func() error { e.nc.Close(); return nil })
	do(e.srv != nil, func() error { return e.srv.Stop(ctx) })
	do(e.dir != nil, func() error { return e.dir.Close() })
	do(e.profiler != nil, func() error { return e.profiler.stop(ctx) })
	return errors.Join(errs...)
}

// Dir is the data folder; empty in memory.
func (e *Engine) Dir() string {
	if e.dir == nil {
		return ""
	}
	return e.dir.path
}

// Durability is what an acknowledged write has survived to.
func (e *Engine) Durability() config.Durability { return e.cfg.Server.Durability }
