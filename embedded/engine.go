package embedded

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access/httpauth"
	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/api/bridge"
	"github.com/streamwright/streamwright/api/live"
	"github.com/streamwright/streamwright/api/rest"
	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/embedded/itemlog"
	"github.com/streamwright/streamwright/embedded/room"
	"github.com/streamwright/streamwright/embedded/submap"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/tracing/itemspans"
	"github.com/streamwright/streamwright/wire"
)

// DedupHook decides which submissions are the same work, where keys can't say. It is
// asked before a submission is decided, by several goroutines at once, and its
// verdict is recorded.
type DedupHook = dispatcher.DedupHook

// Submission is a submission as the engine decides it.
type Submission = core.Submit

// DedupQuestion is the question to a [DedupHook]: a submission, and the items
// that it may be the same as.
type DedupQuestion = dispatcher.DedupQuestion

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
	// Cluster overrides [cluster] where it is set.
	Cluster config.Cluster
	// Connect says how that NATS is reached. It overrides [connect]; its URL is
	// ignored. With a context, NATSURL may be left out.
	Connect connect.Settings

	// Memory keeps everything in memory, gone at Stop; for tests. Unless they
	// are set, nothing listens: connect with [Engine.Connect].
	Memory bool

	// SetStoreAside makes Start accept a log that is not the store's, or has
	// lost its end or all of its events. The store is set aside and rebuilt from
	// that log.
	SetStoreAside bool

	// RestoreFrom is a backup (see package backup) from which Start fills the streams if there
	// is no log yet. Of the nodes of a cluster, the first to get the lease does it. A log that
	// was restored from it before is used as it is; any other is refused.
	RestoreFrom string

	// HTTPTokens are tokens for HTTP in addition to the configuration's
	// tokens_file, one on each line or separated by semicolons. HTTPTokensFile
	// overrides tokens_file.
	HTTPTokens     string
	HTTPTokensFile string

	// DedupHook, if set, is asked about submissions, in place of the subject of
	// the configuration's [dedup_hook]; the rest of that holds for it too. Score,
	// if set, orders the items of ScoreTypes (none: all) in place of their
	// priority and age.
	DedupHook  DedupHook
	Score      func(Submission) time.Duration
	ScoreTypes []events.Type

	// Tracing receives spans of what happens to items; nil: none. It must have
	// been made with the ids of package tracing/itemspans, and the caller shuts
	// it down.
	Tracing trace.TracerProvider

	// Role, if set, is called when the engine has become the owner of its log, and when it
	// stands by for another: then with that one's name. It must not block.
	Role func(role wire.NodeRole, owner string)
	// WaitingForNodes, if set, is called when a node of a cluster begins to wait
	// for a quorum, and whenever the number of nodes that are here changes.
	WaitingForNodes func(cluster string, here, of int)

	NATSOptions []nats.Option // for NATSURL
	// keepPruned has the store of a mirror keep pruned items: see [MirrorOptions.Keep].
	keepPruned bool
	// clockSkew, for tests, is the error of the server's clock.
	clockSkew func() time.Duration
	// replicasAgain, for tests, is the time between two reads of the replicas.
	replicasAgain time.Duration
	Logger        *slog.Logger // nil: none
}

// Engine is an engine with all that belongs to it, in this process.
type Engine struct {
	cfg   config.Config
	given config.Config // cfg before its connection was resolved
	o     Options
	log   *slog.Logger

	dir        *dataDir
	space      *room.Watch
	auth       *httpauth.Authenticator
	httpTLS    atomic.Pointer[tls.Config] // for new connections
	reloading  sync.Mutex                 // one reload at a time
	srv        *server
	copies     copies       // set once the server is there
	advanced   atomic.Int64 // how far Advance has moved the clock
	nc         *nats.Conn   // the engine's own
	quotas     *quota.Book  // nil: there are none
	userRoles  userRoles
	outside    *outside
	eventLog   eventlog.Log
	store      *projector.Store
	unread     error // why the store could not be opened, until it is made anew
	dispatcher *dispatcher.Engine
	service    *api.Service
	metrics    *api.Metrics
	face       *clusterFace
	starting   *api.Starting // answers until service does
	http       *rest.Server  // says until then that the engine starts
	profiler   *profiler
	live       *live.Hub // nil without HTTP
	bridge     *bridge.Bridge
	mirror     *mirror
	sites      *sites                       // nil: there are none
	replicas   atomic.Pointer[replicaWatch] // nil: there is no NATS server of its own, or it is in memory
	items      *itemlog.Log
	lease      *lease // nil: none is needed
	working    atomic.Pointer[dispatcher.Engine]
	owns       atomic.Bool // it owns the log
	janitor    *blobs.Janitor
	execs      execs
	spans      *itemspans.Recorder // nil: nothing is traced

	life lifecycle
}

// Start starts an engine and returns once it answers: it owns its log, or, where another
// engine does, stands by for that one. A standby follows the log, answers queries from
// its own projection, passes on over HTTP what only the owner can answer, and takes
// over when the owner is gone. Several engines can run in one process, each with a
// folder of its own or in memory. A failure undoes what has been started, and its error
// says what to do.
func Start(ctx context.Context, o Options) (*Engine, error) {
	e := newEngine(o)
	e.given = e.cfg
	for _, step := range []func() error{e.cfg.Validate, func() error { return errors.Join(checkMemory(e), checkClusterListen(e)) }, e.resolve, e.openAccess} {
		if err := step(); err != nil {
			return nil, events.WithCode(events.CodeBadConfig, err)
		}
	}
	if err := e.life.start(ctx, e.parts()...); err != nil {
		return nil, e.outside.denied.explain(err)
	}
	return e, nil
}

// Stop stops in order. It lets the children of the configured commands finish for at most
// half of the time that ctx gives; then it ends them, and their items go back to the queue.
// It chooses the node that is to own the log next, refuses new requests, decides and answers
// the ones that it has taken, hands the log on, flushes the store, and stops the NATS server.
// Last it lets go of the data folder. If ctx ends first, it cuts short what is under way;
// nothing is lost by that. Stop returns once nothing of the engine runs any more, the NATS
// server included, even if ctx has ended before. It may be called again, by several
// goroutines: each call returns when the engine has stopped.
func (e *Engine) Stop(ctx context.Context) error { return e.life.stop(ctx) }

// parts returns the parts of an engine in the order of their starts.
func (e *Engine) parts() []part {
	folder := []part{{"the data folder", e.openDir, func(context.Context) error { return e.dir.Close() }}, {"what answers at the start", e.openStarting, e.closeStarting}}
	if e.restoresFolder() { // which locks it by itself
		slices.Reverse(folder)
		folder = slices.Insert(folder, 1, part{"the restore", e.restoreFolder, nil})
	}
	return append(folder, []part{
		{"the profiler", e.startPProf, func(context.Context) error { return e.profiler.stop() }},
		{"children that are slow to end", nil, func(context.Context) error { return e.execs.wait() }},
		{"the NATS server", e.startServer, func(context.Context) error { return e.srv.Stop() }},
		{"the look at the replicas", just(e.watchReplicas), just(e.stopReplicas)},
		{"the connection", e.openConnection, just(func() { e.nc.Close() })},
		{"the answers over NATS at the start", e.startsToAnswer, just(func() { e.starting.Stop() })},
		{"the look at the NATS servers", e.findServer, nil},
		{"the store", e.openStore, e.closeStore},
		{"the item log", just(e.openItemLog), just(func() { e.items.Stop() })},
		{"the buckets", e.openMirror, func(ctx context.Context) error { return e.mirror.stop(ctx) }},
		{"the lease", e.openLease, e.stopLease},
		{"the event log", e.openLog, e.closeLog},
		{"the check of JetStream", e.checkStrict, nil},
		{"the match of store and log", e.matchStore, nil},
		{"the dispatcher", e.newDispatcher, func(ctx context.Context) error { return e.dispatcher.Stop(ctx) }},
		{"the watch on room", just(e.watchSpace), just(func() { e.space.Stop() })},
		{"the large documents", e.startBlobs, just(func() { e.janitor.Stop() })},
		{"the API", e.newFaces, func(ctx context.Context) error { return e.service.Stop(ctx) }},
		{"the ownership", e.takeOver, nil},
		{"the sites", just(e.watchSites), just(func() { e.sites.stop() })},
		{"what is done first", e.settle, nil},
		{"HTTP", e.serveHTTP, e.stopHTTP},
		{"the answers", e.answer, nil},
		{"the heir", nil, e.chooseHeir},
		{"the ends of children", nil, func(ctx context.Context) error { return e.execs.end(ctx, e.log) }},
		{"the commands", nil, e.execs.finish},
		{"the types' commands", e.startExecs, nil},
		{"the repair of replicas", nil, just(e.stopReplicas)},
	}...)
}

// serverParts returns the parts of what works on the streams in place of an engine.
func (e *Engine) serverParts() []part {
	return []part{{"the NATS server", e.startServer, func(context.Context) error { return e.srv.Stop() }}, {"the connection", e.openConnection, just(func() { e.nc.Close() })}, {"the look at the NATS servers", e.findServer, nil}}
}

func newEngine(o Options) *Engine {
	e := &Engine{o: o, cfg: o.config(), log: o.Logger, metrics: api.NewMetrics()}
	e.metrics.TypeHistograms(e.cfg.Metrics.TypeHistograms)
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	e.life.log = e.log
	return e
}

// config returns the configuration with the overrides in it.
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
	c.Cluster = c.Cluster.Over(o.Cluster)
	o.Connect.URL = ""
	c.Connect = connect.Merge(o.Connect, c.Connect)
	if o.Durability != "" {
		c.Server.Durability = o.Durability
	}
	return c.WithDefaults()
}

func (e *Engine) names() wire.Names {
	return wire.WithPrefix(e.cfg.Server.Prefix).In(e.cfg.Connect.Domain)
}

// clientNames returns the names as the clients of this process have them.
func (e *Engine) clientNames() wire.Names {
	if e.srv != nil && e.srv.isolated {
		return e.names().Imported()
	}
	return e.names()
}

func (e *Engine) openDir(context.Context) (err error) {
	if e.o.Memory {
		return nil
	}
	if e.dir, err = openDataDir(e.cfg.Server.Dir); err != nil {
		return err
	}
	return e.dir.checkRestored()
}

// findServer sees that the NATS servers are there, and fit.
func (e *Engine) findServer(ctx context.Context) error {
	if err := e.awaitQuorum(ctx); err != nil {
		return err
	}
	err := patiently(ctx, e, func(ctx context.Context) error {
		return checkServer(ctx, e.nc, e.names(), streamwright.Redact(e.URL()))
	})
	if err != nil {
		return err
	}
	return patiently(ctx, e, e.findCopies)
}

// startServer starts the embedded NATS server, alone or as a node of its cluster.
func (e *Engine) startServer(ctx context.Context) (err error) {
	if e.cfg.Server.NATSURL != "" {
		return nil
	}
	e.does("the NATS server starts")
	var m *membership
	if e.cfg.Cluster.On() {
		if m, err = e.membership(ctx); err != nil {
			return events.WithCode(events.CodeBadConfig, err)
		}
	}
	if err := e.dir.markMember(m); err != nil {
		return err
	}
	so := e.serverOptions()
	so.Member = m
	if m == nil {
		so.Before = func(s *server) error { // at a restart too, when ctx may have ended
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), holdTimeout)
			defer cancel()
			return s.holdAcks(ctx, e.names())
		}
	}
	e.srv, err = startServer(so)
	return err
}

func (e *Engine) openConnection(context.Context) (err error) {
	e.nc, err = e.connect(true, nats.Name("streamwright engine"), nats.MaxReconnects(-1))
	return err
}

// holdTimeout bounds what is done before a server that starts is used.
const holdTimeout = 30 * time.Second

// minPayload is the least max_payload, in bytes: no event is larger.
const minPayload = 2 << 20

// checkServer refuses a server that can't carry the engine; url is its own, for the
// error.
func checkServer(ctx context.Context, nc *nats.Conn, names wire.Names, url string) error {
	if most := nc.MaxPayload(); most < minPayload {
		return fmt.Errorf("use NATS at %s: its max_payload is %d bytes: set it to %d or more", url, most, minPayload)
	}
	js, err := connect.JetStream(nc, names)
	if err == nil {
		_, err = js.AccountInfo(ctx)
	}
	if err != nil {
		return fmt.Errorf("use NATS at %s: JetStream does not answer: %w: enable it there, for this account", url, err)
	}
	return nil
}

// checkStrict refuses a JetStream that takes requests with fields that it does
// not know (strict: false): it would take some answers for requests. Asked for
// the state of a stream, it tells by whether it refuses such a field. url is the
// server's, for the error.
func checkStrict(ctx context.Context, nc *nats.Conn, names wire.Names, url string) error {
	ctx, cancel := context.WithTimeout(ctx, outsideTimeout)
	defer cancel()
	var answer struct{ Error json.RawMessage }
	m, err := nc.RequestWithContext(ctx, names.JetStream("STREAM.INFO."+names.EventStream(0)), []byte(`{"is_it_strict":true}`))
	if err == nil {
		err = json.Unmarshal(m.Data, &answer)
	}
	switch {
	case err != nil:
		return fmt.Errorf("ask NATS at %s whether its JetStream is strict: %w", url, err)
	case answer.Error == nil:
		return events.WithCode(events.CodeBadConfig, fmt.Errorf("use NATS at %s: its JetStream has strict: false, so that it may take an answer for a request: take that out of its configuration (jetstream { strict: true })", url))
	}
	return nil
}

// connect opens a connection; with the engine's own rights if privileged.
func (e *Engine) connect(privileged bool, opts ...nats.Option) (*nats.Conn, error) {
	if e.srv != nil {
		return e.srv.connect(privileged, opts...)
	}
	return e.outside.connect(opts)
}

func (e *Engine) openItemLog() {
	e.items = itemlog.New(e.log, itemlog.Transitions(e.cfg.Server.LogTransitions))
}

func (e *Engine) newDispatcher(context.Context) (err error) {
	if err := e.newJanitor(); err != nil {
		return err
	}
	if e.o.Tracing != nil {
		if e.spans, err = itemspans.New(e.o.Tracing, query.Of(e.store).History); err != nil {
			return err
		}
	}
	e.openQuotas()
	c := dispatcher.Config{
		Log: e.eventLog, Store: e.store, Conn: e.nc, Names: e.names(), Owner: e.nodeName(), Version: Version,
		Alone: e.lease == nil, Sites: e.cfg.Leaf.SiteNames(), MemoryOnly: e.o.Memory, Replicas: e.copies.replicas, Placement: e.copies.placement, Several: e.copies.several, Defaults: e.cfg.TypeDefaults(), MaxRunning: e.cfg.Limits.MaxRunning,
		Limits:    e.cfg.EngineLimits(),
		FileTypes: map[events.Type]func(events.TypeSettings) events.TypeSettings{}, FileSchedules: e.cfg.FileSchedules(), Logger: e.log, Hooks: e.hooks(),
		MaxParams: e.cfg.TypeDefaults().MaxParams, IntakeMaxBytes: e.share("", maxIntakeBytes, maxIntakeBytes),
		Heartbeat: e.cfg.Workers.HeartbeatInterval, Gone: e.cfg.Workers.DeadAfter, Sweep: e.cfg.Workers.SweepInterval,
		ProbeInterval: e.cfg.Workers.ProbeInterval, ProbeTimeout: e.cfg.Workers.ProbeTimeout, ProbeFailures: e.cfg.Workers.ProbeFailures,
		Dedup: dedupConfig(e.cfg.DedupHook, e.o.DedupHook, e.nc), Score: e.o.Score, ScoreTypes: e.o.ScoreTypes,
		CutEvents: e.cfg.Retention.CutEvents,
	}
	if e.srv != nil {
		c.Heard = func(subject string) bool {
			a, err := e.srv.ns().LookupAccount(e.names().Account())
			return err != nil || a.SubscriptionInterest(subject)
		}
	}
	if c.Children, err = childReader(e.nc, e.names()); err != nil {
		return err
	}
	if e.srv != nil && e.lease == nil {
		c.Door = submap.New(e.srv.ns, e.names().Account())
	}
	if e.lease != nil {
		c.Lease, c.Registered = e.lease, e.mirror.workers.List
	}
	c.MaxClockJump, c.ClockSynced, c.Suspended = e.cfg.Server.MaxClockJump, synced(), suspended
	if e.dir != nil {
		c.KnownTime, c.NoteTime = e.dir.clock(e.log)
	}
	if e.spans != nil {
		c.Traceparent = e.spans.Traceparent
	}
	fileSettings(e.cfg, &c)
	e.dispatcher, err = dispatcher.New(c)
	return err
}

// takeOver has the engine own the log, or stand by.
func (e *Engine) takeOver(ctx context.Context) error {
	e.does("the store is brought up to the log, from position %s", wire.PositionOf(e.store.Applied()))
	if err := e.dispatcher.Start(ctx); err != nil {
		if errors.Is(err, events.ErrNewer) {
			err = events.WithCode(events.CodeNewerFormat, err)
		}
		return err
	}
	e.working.Store(e.dispatcher)
	return nil
}

// fileSettings adds what engine.toml sets for types.
func fileSettings(cfg config.Config, c *dispatcher.Config) {
	if len(cfg.Defaults) > 0 {
		c.FileDefaults = cfg.Defaults.Apply
	}
	for name, t := range cfg.Types {
		if len(t.Patch) == 0 {
			continue // just a command: the log owns the settings
		}
		c.FileTypes[name] = t.Patch.Apply
		c.MaxParams = max(c.MaxParams, cfg.Settings(name).MaxParams)
	}
}

// nodeName names this engine, for people.
func (e *Engine) nodeName() string {
	if name := e.cfg.Cluster.Node; name != "" {
		return name
	}
	host, _ := os.Hostname()
	return fmt.Sprintf("%s-%d", host, os.Getpid())
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
	return streamwright.Connect(ctx, "", streamwright.WithPrefix(e.cfg.Server.Prefix), streamwright.WithDomain(e.clientNames().Domain), streamwright.WithNATS(login...))
}

// URL returns where other processes connect to NATS; empty if nothing listens.
func (e *Engine) URL() string {
	if e.srv == nil {
		return e.cfg.Server.NATSURL
	}
	return e.srv.URL()
}

// HTTP returns the address of the HTTP API, the web page, health and metrics; empty
// if nothing listens.
func (e *Engine) HTTP() string {
	if e.http == nil {
		return ""
	}
	return e.http.Addr()
}

// HTTPURL returns the beginning of a URL of the HTTP server that can be opened on
// this machine, also if it listens on all addresses; empty if nothing listens.
func (e *Engine) HTTPURL() string {
	if e.http == nil {
		return ""
	}
	scheme := "http://"
	if e.cfg.HTTP.TLSCert != "" {
		scheme = "https://"
	}
	return scheme + reachable(e.http.Addr())
}

// reachable returns an address that reaches a listener on this machine, also one that
// listens on all addresses.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// Traffic returns how many messages the embedded server has received and sent.
func (e *Engine) Traffic() (in, out int64) {
	if e.srv == nil {
		return 0, 0
	}
	v, err := e.srv.ns().Varz(nil)
	if err != nil {
		return 0, 0
	}
	return v.InMsgs, v.OutMsgs
}

// Done is closed when the engine has ended by itself, because its log can't be
// served or followed: Stop then says why.
func (e *Engine) Done() <-chan struct{} { return e.dispatcher.Done() }

// Dir returns the data folder; empty in memory.
func (e *Engine) Dir() string {
	if e.dir == nil {
		return ""
	}
	return e.dir.path
}

// Durability returns when an acknowledged write is on disk.
func (e *Engine) Durability() config.Durability { return e.cfg.Server.Durability }

// dedupConfig returns whom the dispatcher asks about submissions: own, or the
// configured subject.
func dedupConfig(h config.DedupHook, own DedupHook, nc *nats.Conn) dispatcher.DedupConfig {
	c := dispatcher.DedupConfig{Hook: own, Candidates: h.Candidates, KeySeparator: h.KeySeparator, Timeout: h.Timeout, Fallback: h.Fallback}
	if c.Hook == nil && h.Subject != "" {
		c.Hook = &dispatcher.NATSDedupHook{Conn: nc, Subject: h.Subject}
	}
	for _, t := range h.Types {
		c.Types = append(c.Types, events.Type(t))
	}
	return c
}
