package embedded

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
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
	// RestoreNamespaces are backups of that kind for namespaces beside the default one, of any
	// namespace each. One is looked at when its namespace starts: it is to be added behind that.
	RestoreNamespaces map[events.Namespace]string

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
	*space   // the default namespace's
	spaces   *spaces
	profiler *profiler
	life     lifecycle
}

// Start starts an engine and returns once it answers: it owns its log, or, where another
// engine does, stands by for that one. A standby follows the log, answers queries from
// its own projection, passes on over HTTP what only the owner can answer, and takes
// over when the owner is gone. Several engines can run in one process, each with a
// folder of its own or in memory. A failure undoes what has been started, and its error
// says what to do.
func Start(ctx context.Context, o Options) (*Engine, error) {
	e := newEngine(o)
	for _, step := range []func() error{e.cfg.Validate, e.checkCluster, e.resolve, e.guard.open} {
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

func newEngine(o Options) *Engine {
	b := newBase(o)
	home := newSpace(b, &guard{base: b, given: b.cfg})
	others := newSpaces(home)
	home.faces.replicas = &replicaWatch{base: b, lease: home.ledger.lease, others: others.leases}
	return &Engine{space: home, spaces: others, profiler: &profiler{base: b, guard: home.guard}, life: lifecycle{log: b.log}}
}

// parts returns the parts of an engine in the order of their starts.
func (e *Engine) parts() []part {
	b, f, x := e.base, e.faces, &execs{base: e.base}
	folder := []part{{"the data folder", b.openDir, b.closeDir}, {"what answers at the start", f.openStarting, f.closeStarting}}
	if b.restoresFolder() { // which locks it by itself
		slices.Reverse(folder)
		folder = slices.Insert(folder, 1, part{"the restore", b.restoreFolder, nil})
	}
	return slices.Concat(folder, []part{
		{"the profiler", e.profiler.start, e.profiler.stop},
		{"children that are slow to end", nil, x.wait},
		{"the NATS server", b.startServer, func(context.Context) error { return b.srv.Stop() }},
		{"the look at the replicas", just(f.replicas.start), just(f.replicas.stop)},
		{"the connection", b.openConnection, just(func() { b.nc.Close() })},
		{"the answers over NATS at the start", f.startsToAnswer, just(func() { b.starting.Stop() })},
		{"the look at the NATS servers", b.findServer, nil},
		{"the watch on room", just(b.watchRoom), just(func() { b.room.Stop() })},
	}, e.logParts(), []part{
		{"the check of JetStream", b.checkStrict, nil},
	}, e.workParts(), []part{
		{"the sites", just(func() { f.sites.start(f.service) }), just(f.sites.stop)},
		{"what is done first", e.decider.settle, nil},
		{"the names of the namespaces", e.spaces.open, nil},
		{"HTTP", f.serveHTTP, f.stopHTTP},
		{"the answers", f.answer, nil},
		{"the other namespaces", just(e.spaces.start), e.spaces.stop},
		{"the heir", nil, e.ledger.lease.choose},
		{"the ends of children", nil, x.end},
		{"the commands", nil, x.finish},
		{"the types' commands", x.start, nil},
		{"the repair of replicas", nil, just(f.replicas.stop)},
	})
}

// Connect opens an in-process connection (or one to the NATS that the engine
// uses), with a client's rights. The caller closes it.
func (e *Engine) Connect(opts ...nats.Option) (*nats.Conn, error) { return e.connect(false, opts...) }

// Client opens a client on a connection of its own, which Close closes. The options say more,
// such as which namespace it speaks to.
func (e *Engine) Client(ctx context.Context, opts ...streamwright.Option) (*streamwright.Client, error) {
	opts = append([]streamwright.Option{streamwright.WithPrefix(e.cfg.Server.Prefix)}, opts...)
	if e.srv == nil {
		return streamwright.Connect(ctx, e.cfg.Server.NATSURL, append(opts, streamwright.WithConnection(e.cfg.Connect), streamwright.WithNATS(e.o.NATSOptions...))...)
	}
	login, err := e.srv.inProcess(e.srv.client)
	if err != nil {
		return nil, err
	}
	return streamwright.Connect(ctx, "", append(opts, streamwright.WithDomain(e.clientNames().Domain), streamwright.WithNATS(login...))...)
}

// URL returns where other processes connect to NATS; empty if nothing listens.
func (e *Engine) URL() string { return e.url() }

// HTTP returns the address of the HTTP API, the web page, health and metrics; empty
// if nothing listens.
func (e *Engine) HTTP() string { return e.faces.addr() }

// HTTPURL returns the beginning of a URL of the HTTP server that can be opened on
// this machine, also if it listens on all addresses; empty if nothing listens.
func (e *Engine) HTTPURL() string { return e.faces.url() }

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
func (e *Engine) Done() <-chan struct{} { return e.decider.dispatcher.Done() }

// Dir returns the data folder; empty in memory.
func (e *Engine) Dir() string { return e.dir.root() }

// Durability returns when an acknowledged write is on disk.
func (e *Engine) Durability() config.Durability { return e.cfg.Server.Durability }

// LeafURL returns where sites at the edge connect; empty if they can't.
func (e *Engine) LeafURL() string {
	addr := e.srv.leafAddr()
	if addr == "" {
		return ""
	}
	return "nats-leaf://" + reachable(addr)
}

// PProf returns the profiler's address, or "" if there is none.
func (e *Engine) PProf() string { return e.profiler.addr }
