package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/turns"
	"github.com/streamwright/streamwright/tracing"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of what the service has under way.
const (
	// MaxQueries bounds the queries that run at once.
	MaxQueries = 256
	// MaxControl bounds the workers' own requests that run at once.
	MaxControl = 256
	// MaxActions bounds the operators' requests that run at once.
	MaxActions = 64
	// MaxArriving bounds the waits that wait at once for their min_position.
	MaxArriving = 256
	// MaxPendingRequests and MaxPendingBytes bound what waits for one endpoint
	// in this process; the NATS client drops what comes beyond, and the caller's
	// request times out.
	MaxPendingRequests = 65_536
	MaxPendingBytes    = 256 << 20
	// MaxReports bounds the reports that one request carries.
	MaxReports = 1000

	// enqueueTimeout bounds how long an endpoint waits for the engine's queue.
	enqueueTimeout = 5 * time.Second
	// awaitTimeout bounds how long a query waits for its min_position.
	awaitTimeout = 10 * time.Second
	// controlTimeout bounds a worker's own request.
	controlTimeout = 10 * time.Second
)

// Config holds what a Service needs. Conn, Core, Queries and Logs must be set.
type Config struct {
	Conn    *nats.Conn // the engine's own
	Names   wire.Names
	Core    Core
	Queries Queries
	Prover  Prover
	Logs    *Logs
	Metrics *Metrics // nil: its own, which nobody reads
	// Turns is the namespace's share of the processors; nil: it gives way to nobody in particular.
	Turns *turns.Share
	// OwnedByFile lists those settings of a type that engine.toml names and that
	// wanted would change.
	OwnedByFile func(t events.Type, wanted events.TypeSettings) []string
	// Output keeps what runs write; nil: there is none, as in a mirror.
	Output *Output
	// NamedByFile lists all settings of a type that engine.toml names; nil: none.
	NamedByFile func(t events.Type) []string
	// TypeDefaults are the settings of a type that has none of its own; nil: the
	// built-in ones.
	TypeDefaults *events.TypeSettings
	// MaxQueued is the engine's own limit of queued items, 0 for none.
	MaxQueued int
	// MaxRunning is the engine's own limit of items dispatched or running; 0: only
	// the types' limits apply.
	MaxRunning int
	// Quotas bound what users may ask; nil: there are none. Accounts reports
	// whether each NATS user, and this process's clients, are in accounts of their
	// own, so that the server tells who asks; nil, or false: they bound requests
	// over HTTP alone.
	// KnownUser finds a NATS user by what its account is called, false if no account
	// is called so; nil: by its name. UserRoles are the roles of a NATS user; nil:
	// all.
	Quotas    *quota.Book
	Accounts  func() bool
	KnownUser func(named string) (user string, known bool)
	UserRoles func(name string) access.Roles
	// Node, if set, adds what this process knows of its node, and Cluster says what it
	// knows of the servers that hold the log; nil: nothing. Both may be called at any time.
	Node    func(*wire.Node)
	Cluster func(context.Context) Cluster
	// RemoveNode takes a dead node out of the cluster; nil: there is none.
	RemoveNode func(ctx context.Context, node string) error
	// Replicas says which replicas on its own disk this process has read, when it was through,
	// and which are damaged; nil: it has none.
	Replicas func() ReplicasRead
	// RefuseStale has a node that is cut off from the log refuse queries; else it
	// answers them as of the last event that it knows.
	RefuseStale bool
	// Reached returns an error if this process, which owns the log, does not reach most of the
	// servers that hold it; nil: no other process can own it.
	Reached func(context.Context) error
	// Mirror, if set, says that this process follows a mirror of the log, and which
	// endpoints of an owner it answers all the same. Written is the end of that mirror, and
	// Core.Position that of the log.
	Mirror  func(endpoint string) bool
	Written func() events.Seq
	// Full says why submissions must be refused for want of room; nil: they
	// need not.
	Full func() *RoomAlarm
	// Hand has another namespace decide submissions of this one, an array of them; nil: there
	// is no other. What it does not accept it refuses with [NotAccepted].
	Hand func(ctx context.Context, from, to events.Namespace, body []byte) ([]byte, error)
	// Blobs keeps the children of spawns that are made in parts; nil: there can be
	// none.
	Blobs Blobs
	// Storage says how much room there is; nil: nothing is known.
	Storage func() StorageUse
	// Sites says how the sites at the edge are; nil: there are none.
	Sites func() []wire.SiteState
	// Spans says what has become of this process's spans; nil: there are none.
	Spans func() tracing.SpanCounts
	// Namespaces knows the other namespaces that this process holds, if it serves the
	// default one; nil: it holds none.
	Namespaces Namespaces
	// Info holds the part of the info reply that never changes.
	Info   wire.InfoReply
	Logger *slog.Logger
}

// ReplicasRead says what a node has found when it read its own replicas.
type ReplicasRead struct {
	At      time.Time // when it was through; zero: it is not yet
	Streams []string
	Damaged []wire.DamagedReplica
	Copying []string // streams not yet copied in full
	Alone   bool     // there are no other replicas
}

// RoomAlarm says what stands in the way of new work.
type RoomAlarm struct {
	Status string        // in the health reply, and the alarm's code
	Fact   string        // what is full
	Do     string        // what to do
	Why    *events.Error // both, to who submits
	Hold   bool          // nothing new is begun either
}

// Service answers the engine's requests. Its parts answer those about one thing
// each; what they share is the engine.
type Service struct {
	*engine
	guard  *guard
	waits  *waits
	tails  *tails
	health health
	seen   seenNodes
	reach  reach
	direct map[string]handler // the endpoints, by name

	items     *itemAPI
	submits   *submitAPI
	types     *typeAPI
	workers   *workerAPI
	schedules *scheduleAPI
	spaces    *namespaceAPI
	dead      *deadAPI
	rejected  *rejectedAPI
	proofs    *proofAPI
	stats     *statsAPI

	// A token for each request of its kind under way. They are apart so that no
	// kind takes another's.
	queries  chan struct{}
	control  chan struct{} // of workers
	actions  chan struct{} // of operators
	arriving chan struct{} // waits for their min_position
	outputs  chan struct{} // chunks of outputs

	cancel context.CancelFunc // of ctx

	mu      sync.Mutex
	micro   micro.Service // guarded by mu
	closed  bool          // guarded by mu
	pending sync.WaitGroup

	serves   bool               // guarded by mu; the owner's endpoints are answered
	owned    micro.Service      // guarded by mu; of those
	forwards *nats.Subscription // guarded by mu; to what other nodes forward
	asked    *nats.Subscription // guarded by mu; to who asks how this node is
}

// New makes a Service, which does nothing until Start.
func New(cfg Config) (*Service, error) {
	if cfg.Conn == nil || cfg.Core == nil || cfg.Queries == nil || cfg.Logs == nil {
		return nil, errors.New("make api service: Conn, Core, Queries and Logs must be set")
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics()
	}
	if cfg.Written == nil {
		cfg.Written = cfg.Core.Position
	}
	if cfg.Full == nil {
		cfg.Full = func() *RoomAlarm { return nil }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	js, err := connect.JetStream(cfg.Conn, cfg.Names)
	if err != nil {
		return nil, fmt.Errorf("make api service: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &engine{Config: cfg, js: js, ctx: ctx, ahead: make(chan struct{}, MaxAhead), aheadWithin: aheadWithin}
	s := &Service{
		engine: e, cancel: cancel, guard: newGuard(cfg.Conn, cfg.Names),
		items:   &itemAPI{engine: e, undecided: make(chan struct{}, MaxUndecided)},
		submits: &submitAPI{engine: e, spawns: make(chan struct{}, MaxLargeSpawns), handing: make(chan struct{}, maxHanded)},
		types:   &typeAPI{engine: e}, workers: &workerAPI{engine: e}, schedules: &scheduleAPI{engine: e}, spaces: &namespaceAPI{engine: e},
		dead: &deadAPI{engine: e, bulks: make(chan struct{}, MaxBulks)}, rejected: &rejectedAPI{engine: e},
		proofs:  &proofAPI{engine: e, proving: make(chan struct{}, 1)},
		queries: make(chan struct{}, MaxQueries), control: make(chan struct{}, MaxControl), actions: make(chan struct{}, MaxActions), arriving: make(chan struct{}, MaxArriving), outputs: make(chan struct{}, maxOutputWrites),
	}
	s.stats = &statsAPI{engine: e, workers: s.workers, alarms: func(ctx context.Context, types []events.TypeInfo) []wire.Alarm {
		return s.lookFurther(ctx, types).alarms()
	}}
	if err := cfg.Metrics.registry.Register(s.collector()); err != nil {
		cancel()
		return nil, fmt.Errorf("make api service: its Metrics are another's already: %w", err)
	}
	s.waits = newWaits(s)
	s.tails = newTails(s)
	s.items.pages = s.tails.pages
	s.direct = s.endpoints()
	return s, nil
}

// endpoints collects what answers each endpoint of the table (wire.Endpoints).
func (s *Service) endpoints() map[string]handler {
	h := &handlers{s: s, by: map[string]handler{}}
	s.items.handle(h)
	s.submits.handle(h)
	(&approvalAPI{s.engine}).handle(h)
	s.types.handle(h)
	s.workers.handle(h)
	s.schedules.handle(h)
	s.spaces.handle(h)
	s.dead.handle(h)
	s.rejected.handle(h)
	s.proofs.handle(h)
	s.stats.handle(h)
	raw[wire.Wait](h, wire.APIWait, s.wait)
	raw[wire.ReadEvents](h, wire.APIEvents, s.readEvents)
	on(h, wire.APIAudit, s.tails.audit)
	on(h, wire.APIInfo, s.info)
	on(h, wire.APINodes, s.nodes)
	on(h, wire.APINodeRemove, s.removeNode)
	on(h, wire.APICut, s.cut)
	on(h, wire.APIClock, s.clock)
	on(h, wire.APIClockAccept, s.acceptClock)
	return h.by
}

// Start begins to answer, and returns once requests reach it. The engine must
// be ready. Calling it again does nothing.
func (s *Service) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("start api service: it has been stopped")
	}
	if s.micro != nil {
		return nil
	}
	svc, err := s.addService(false)
	if err != nil {
		return err
	}
	_, standsBy := s.Core.StandsBy()
	s.serves = !standsBy
	if s.asked, err = s.Conn.Subscribe(s.Names.Nodes(), s.answerNodes); err != nil {
		return errors.Join(fmt.Errorf("start api service: %w", err), svc.Stop())
	}
	// The server has the subscriptions once it has answered this.
	if err = s.Conn.FlushTimeout(controlTimeout); err == nil {
		err = s.serveOwner()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start api service: %w", err), svc.Stop())
	}
	s.micro = svc
	s.pending.Go(s.stats.countWaits)
	if s.Cluster != nil {
		s.pending.Go(s.watchNodes)
	}
	if s.Reached != nil {
		s.pending.Go(s.watchReach)
	}
	return nil
}

// Stop refuses what comes, answers what is under way and returns when that is
// done, or with ctx's error. It may be called again, and without Start.
func (s *Service) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	svc := s.micro
	s.micro, s.serves = nil, false
	err := s.serveOwner()
	s.mu.Unlock()
	if svc != nil {
		_ = s.asked.Unsubscribe() // fails when the connection is closed, as all do here
		err = errors.Join(err, svc.Stop())
	}
	s.cancel()
	s.waits.close()
	done := make(chan struct{})
	go func() {
		s.pending.Wait()
		close(done)
	}()
	select {
	case <-done:
		return err
	case <-ctx.Done():
		return errors.Join(err, fmt.Errorf("stop api service: requests are still under way: %w", ctx.Err()))
	}
}

// begin counts a request in; false once the service is stopping.
func (s *Service) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.pending.Add(1)
	return true
}

var errBusy = &events.Error{Code: events.CodeUnavailable, Message: "the engine has as many requests of this kind under way as it takes: ask again", RetryAfter: 50 * time.Millisecond}

// async runs fn on a goroutine of its own, if there is room.
func (s *Service) async(room chan struct{}, timeout time.Duration, fn func(context.Context, *call) (any, error)) func(*call) {
	return func(c *call) {
		select {
		case room <- struct{}{}:
		default:
			c.reply(nil, errBusy)
			return
		}
		go func() {
			defer func() { <-room }()
			ctx, cancel := context.WithTimeout(withActor(s.ctx, c.actor), timeout)
			defer cancel()
			if c.ctx != nil {
				defer context.AfterFunc(c.ctx, cancel)()
			}
			v, err := fn(ctx, c)
			if events.CodeOf(err) == events.CodeNotFound {
				v, err = s.sure(ctx, c, err, fn)
			}
			c.reply(v, err)
		}()
	}
}

// semver returns v if it can be the version of a micro service.
func semver(v string) string {
	var a, b, c int
	if n, _ := fmt.Sscanf(v, "%d.%d.%d", &a, &b, &c); n == 3 {
		return fmt.Sprintf("%d.%d.%d", a, b, c)
	}
	return "0.0.0"
}
