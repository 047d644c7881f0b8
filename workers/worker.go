package workers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/standing"
	"github.com/streamwright/streamwright/wire"
)

// phase is the stage of a worker's life; it only ever grows.
type phase uint8

const (
	phaseNew      phase = iota
	phaseActive         // taking items
	phaseDraining       // the engine has asked it to take no more
	phaseStopping       // Stop was called
)

// Worker runs work items of the types that it has handlers for. Make one with
// [New], add handlers, then Start or Run it. All methods are safe for
// concurrent use.
type Worker struct {
	cfg Config
	nc  *nats.Conn
	log *slog.Logger

	// Written before Start only.
	abandonAfter time.Duration // AbandonAfter; shorter in a test
	others       []*Worker     // of the further namespaces; see Config.Namespaces
	slots        *slots        // of this process, shared with them
	goroutines   *goroutines   // likewise
	types        map[events.Type]*registration
	mistakes     []error
	middleware   []Middleware
	base         context.Context // values for handlers' contexts; never ends

	// The parts. Each says what Worker.mu guards.
	session  session
	link     link
	receiver receiver
	table    runTable
	reports  *reporter
	health   health
	clock    clock
	runner   runner

	intake   context.Context // ends soon after Stop begins
	life     context.Context // ends when the loops must end
	noIntake context.CancelFunc
	endLife  context.CancelFunc
	drained  chan struct{} // closed when the engine has asked to drain and nothing is left
	allDone  chan struct{} // closed when that is so in all namespaces; drained if there is one
	closed   chan struct{} // closed when the connection is gone for good
	begun    chan struct{} // closed when open has returned
	stopped  chan struct{} // closed when Stop is done
	stopErr  error         // valid once stopped is closed
	stopOnce sync.Once
	loops    sync.WaitGroup
	handlers sync.WaitGroup // running handlers

	telling   *sync.Mutex // around calls of cfg.Settled, in all namespaces; taken after mu
	mu        sync.Mutex  // guards everything below, and the parts' state
	changed   *sync.Cond  // signalled when counts or phase change, while somebody waits
	waiting   int         // goroutines that wait on changed
	phase     phase
	drainDone bool
	settled   []Settled // to be told once mu is released
	stats     Stats
}

// Stats counts what a worker has and has had.
type Stats struct {
	Registered bool
	Unhealthy  string // why it takes no new work; empty: it is well
	Running    int    // hold a slot
	Settling   int    // outcome not yet answered

	Completed  uint64 // recorded by the engine
	Failed     uint64
	Released   uint64 // handed back
	Spawned    uint64 // ended in children
	Snoozed    uint64 // put off by their handlers
	Waited     uint64 // ended in a wait
	LeasesLost uint64
}

// New makes a worker on a connection, which it does not close. Its error joins
// every field of cfg that is out of bounds.
func New(nc *nats.Conn, cfg Config) (*Worker, error) {
	cfg = cfg.WithDefaults()
	err := cfg.Validate()
	if nc == nil {
		err = errors.Join(err, errors.New("worker: the NATS connection is nil: connect first"))
	}
	if err != nil {
		return nil, err // each says that it is of the worker's config
	}
	return newWorkers(nc, cfg)
}

// newWorker makes the worker of one namespace, that of cfg.Names.
func newWorker(nc *nats.Conn, cfg Config, shared common) (*Worker, error) {
	store, err := blobs.New(nc, cfg.Names, cfg.MaxDocument)
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	w := &Worker{
		cfg: cfg, nc: nc, log: shared.log(cfg), types: map[events.Type]*registration{}, slots: shared.slots, goroutines: shared.goroutines, telling: shared.telling,
		drained: make(chan struct{}), closed: make(chan struct{}), begun: make(chan struct{}), stopped: make(chan struct{}),
		abandonAfter: AbandonAfter,
	}
	w.intake, w.noIntake = context.WithCancel(context.Background())
	w.life, w.endLife = context.WithCancel(context.Background())
	w.changed = sync.NewCond(&w.mu)
	w.session = session{w: w, id: rand.Text(), kick: make(chan struct{}, 1), called: make(chan struct{}, 1), Standing: standing.Standing{Every: standing.DefaultHeartbeat}}
	w.link, w.receiver = link{w: w}, receiver{w: w}
	w.link.asking, w.link.unheard = context.WithCancelCause(context.Background())
	w.table = runTable{concurrency: cfg.Concurrency, share: w.slots.add(w.clock.look, w.offerAnew), runs: map[string]*run{}}
	w.reports = newReporter(w)
	w.health = health{w: w, checks: shared.checks, meter: meter{childrenOnly: cfg.ChildrenOnly}}
	w.clock = clock{w: w, wake: make(chan struct{}, 1)}
	w.allDone = w.drained
	w.runner = runner{w: w, blobs: store, failures: newFailureLog(w.log)}
	store.Locate(connect.NewFinder(nc, cfg.Names).Names)
	return w, nil
}

// ID returns the worker's id.
func (w *Worker) ID() events.WorkerID { return w.cfg.ID }

// Types returns the types that have a handler, in order of name.
func (w *Worker) Types() []events.Type {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.types))
}

// Use wraps the handlers in middleware; the first added is the outermost. After
// Start it adds nothing and returns [ErrNotNew].
func (w *Worker) Use(m ...Middleware) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase != phaseNew {
		return fmt.Errorf("add middleware: %w", ErrNotNew)
	}
	w.middleware = append(w.middleware, m...)
	for _, o := range w.others {
		_ = o.Use(m...) // it is as new
	}
	return nil
}

// register adds a handler, or returns why it can't, and notes it for Start.
func (w *Worker) register(r *registration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase != phaseNew {
		return fmt.Errorf("handle type %q: %w", r.typ, ErrNotNew)
	}
	_, err := events.ParseType(string(r.typ))
	switch {
	case err != nil:
	case r.handler == nil:
		err = fmt.Errorf("type %q has a nil handler", r.typ)
	case w.types[r.typ] != nil:
		err = fmt.Errorf("type %q has two handlers", r.typ)
	case r.limit < 0:
		err = fmt.Errorf("type %q has a limit of %d: it must be 1 or more", r.typ, r.limit)
	}
	if err != nil {
		w.mistakes = append(w.mistakes, err)
		return fmt.Errorf("handle: %w", err)
	}
	for _, o := range w.others {
		other := *r
		_ = o.register(&other) // it is as good
	}
	r.handler = ending(r.handler)
	w.types[r.typ] = r
	return nil
}

// Start registers the worker, which then gets items. It returns an error for
// mistakes in the set-up, and if the engine refuses the worker (an
// *events.Error, such as worker_id_in_use); if no engine answers it returns nil
// and keeps trying. ctx bounds Start itself; the handlers' contexts have its
// values but not its end. A worker is started once. If Stop is called meanwhile,
// Start returns ErrStopped once the worker has ended.
func (w *Worker) Start(ctx context.Context) error {
	if err := w.start(ctx); err != nil {
		return err // no other has started
	}
	err := each(w.others, func(w *Worker) error { return w.start(ctx) })
	if err != nil {
		_ = w.Stop(context.WithoutCancel(ctx))
	}
	return err
}

// start starts the worker of one namespace.
func (w *Worker) start(ctx context.Context) error {
	w.mu.Lock()
	if w.phase != phaseNew {
		w.mu.Unlock()
		return ErrNotNew
	}
	err := errors.Join(w.mistakes...)
	if len(w.types) == 0 && err == nil {
		err = errors.New("there is no handler: call Handle for at least one type")
	}
	if err != nil {
		w.mu.Unlock()
		return fmt.Errorf("start worker: %w", err)
	}
	w.phase = phaseActive
	w.base = context.WithoutCancel(ctx)
	for _, r := range w.types {
		for i := len(w.middleware) - 1; i >= 0; i-- {
			r.handler = w.middleware[i](r.handler)
		}
	}
	w.mu.Unlock()

	err = w.open(ctx)
	close(w.begun)
	if err != nil {
		_ = w.stop(context.WithoutCancel(ctx))
		return fmt.Errorf("start worker %s: %w", w.cfg.ID, err)
	}
	return nil
}

// open starts the loops and tries to register once, unless Stop is called meanwhile.
func (w *Worker) open(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.intake, cancel)()
	if err := w.session.listen(); err != nil {
		return err
	}
	if err := w.health.offerProbe(); err != nil {
		return err
	}
	status := w.nc.StatusChanged()
	w.link.set(w.nc.IsConnected())
	w.health.checkUp(ctx)
	w.loops.Add(2 + reportSenders)
	if len(w.others) > 0 {
		w.loops.Add(1)
		go w.awaitDrained()
	}
	go w.link.watch(status)
	go w.clock.run()
	for range reportSenders {
		go w.reports.run()
	}
	err := w.session.tryRegister(ctx)
	w.mu.Lock()
	stopping := w.phase == phaseStopping
	w.mu.Unlock()
	switch {
	case stopping:
		return ErrStopped
	case err != nil && !transient(err):
		return err
	case err != nil:
		w.log.Warn("no engine answers yet: the worker goes on trying to register", "err", err)
	}
	w.loops.Add(1)
	go w.session.run()
	return nil
}

// Run starts the worker and stops it when ctx ends, when the engine has
// drained it, or when the connection is closed for good. It returns what Start
// or Stop returned, or ErrConnectionClosed.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.Start(ctx); err != nil {
		return err
	}
	var cause error
	select {
	case <-ctx.Done():
	case <-w.Drained():
		w.log.Info("drained: the worker ends")
	case <-w.closed:
		cause = ErrConnectionClosed
	case <-w.stopped:
	}
	return errors.Join(cause, w.Stop(context.WithoutCancel(ctx)))
}

// Stats returns the worker's counts, of all its namespaces together.
func (w *Worker) Stats() Stats {
	s := w.ownStats()
	for _, o := range w.others {
		s.add(o.ownStats())
	}
	return s
}

func (w *Worker) ownStats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Registered, s.Unhealthy = w.session.Registered, w.health.why()
	s.Running, s.Settling = w.table.busy(), w.table.counts[settling]
	return s
}

// Drained is closed once the engine has asked the worker to drain, in all its namespaces,
// and it holds nothing any more. Run then returns.
func (w *Worker) Drained() <-chan struct{} { return w.allDone }

// unlock releases mu and then calls cfg.Settled.
func (w *Worker) unlock() {
	settled := w.settled
	w.settled = nil
	if w.waiting > 0 {
		w.changed.Broadcast()
	}
	if len(settled) > 0 {
		w.telling.Lock() // before mu is released: calls keep their order
		defer w.telling.Unlock()
	}
	w.mu.Unlock()
	for _, s := range settled {
		w.cfg.Settled(s)
	}
}

// request returns the worker's registration. REQUIRES: mu.
func (s *session) request() wire.Register {
	offer := s.w.table.share.offer()
	r := wire.Register{
		Worker: string(s.w.cfg.ID), Capabilities: s.w.cfg.Capabilities, Slots: max(offer, 1),
		Host: s.w.cfg.Host, Version: s.w.cfg.Version, Session: s.id, Probe: s.w.health.probe != nil,
		Offers: s.w.phase != phaseActive || offer == 0, // it ends, or has no slot: it makes no offer
	}
	for t, reg := range s.w.types {
		r.Types = append(r.Types, string(t))
		if reg.limit > 0 {
			if r.Most == nil {
				r.Most = map[string]int{}
			}
			r.Most[string(t)] = reg.limit
		}
	}
	return r
}
