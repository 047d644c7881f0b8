package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/lograte"
	"github.com/streamwright/streamwright/wire"
)

// phase is where a worker is in its life; it only ever grows.
type phase uint8

const (
	phaseNew      phase = iota
	phaseActive         // pulling
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
	types        map[events.Type]*registration
	mistakes     []error
	middleware   []Middleware
	base         context.Context // values for handlers' contexts; never ends

	blobs    *blobs.Store // documents too large for an event
	checks   *checker
	meter    meter // used by the session loop
	outside  outside
	reports  *reporter
	kick     chan struct{}   // wakes the session loop; room for one
	wake     chan struct{}   // wakes the clock; room for one
	intake   context.Context // ends when Stop begins
	life     context.Context // ends when the loops must end
	noIntake context.CancelFunc
	endLife  context.CancelFunc
	drained  chan struct{} // closed when the engine has asked to drain and nothing is left
	closed   chan struct{} // closed when the connection is gone for good
	stopped  chan struct{} // closed when Stop is done
	stopErr  error         // valid once stopped is closed
	stopOnce sync.Once
	loops    sync.WaitGroup
	handlers sync.WaitGroup   // running handlers
	failures *lograte.Limiter // of what is logged of them

	registering sync.Mutex // held while consumers are opened and closed; taken before mu

	mu         sync.Mutex // guards everything below
	names      wire.Names // with the JetStream domain that the engine has told
	changed    *sync.Cond // signalled when counts or phase change, while somebody waits
	waiting    int        // those who wait on changed
	phase      phase
	connected  bool
	conn       context.Context // ends with the connection
	connLost   context.CancelCauseFunc
	connEpoch  int // counts connections
	registered bool
	session    string
	heartbeat  time.Duration
	drainDone  bool
	control    *nats.Subscription
	consumers  map[string]*consumer // by name
	runs       map[string]*run      // by token: everything pulled and not gone
	held       []*run               // waiting for a slot, oldest first
	counts     [numRunStates]int
	meanRun    time.Duration      // moving average of handlers' run times
	ailing     string             // why this worker takes itself for unhealthy; empty: it doesn't
	shunned    string             // why the engine does
	confirm    bool               // a heartbeat is to be sent at once
	replaced   bool               // another worker has registered under the id
	probe      *nats.Subscription // nil: none
	nextTick   time.Time          // when the clock is due; zero: not at all
	outbox     []outMsg           // to be published once mu is released
	stats      Stats
}

// outMsg is a message to be published without a lock.
type outMsg struct {
	subject, reply string
	data           []byte
}

// Stats counts what a worker has and has had.
type Stats struct {
	Registered bool
	Unhealthy  string // why it takes no new work; empty: it is well
	Held       int    // pulled, waiting for a slot
	Running    int    // claiming or running
	Settling   int    // outcome not yet answered

	Completed  uint64 // recorded by the engine
	Failed     uint64
	Released   uint64 // handed back
	Spawned    uint64 // ended in children
	Snoozed    uint64 // put off by their handlers
	Refused    uint64 // claims
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
	store, err := blobs.New(nc, cfg.Names, cfg.MaxDocument)
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	w := &Worker{
		cfg: cfg, nc: nc, blobs: store, log: cfg.Logger.With("worker", string(cfg.ID)),
		types: map[events.Type]*registration{},
		kick:  make(chan struct{}, 1), wake: make(chan struct{}, 1),
		drained: make(chan struct{}), closed: make(chan struct{}), stopped: make(chan struct{}),
		consumers: map[string]*consumer{}, runs: map[string]*run{},
		abandonAfter: AbandonAfter, meanRun: slowRun, heartbeat: 20 * time.Second,
	}
	w.intake, w.noIntake = context.WithCancel(context.Background())
	w.life, w.endLife = context.WithCancel(context.Background())
	w.conn, w.connLost = context.WithCancelCause(context.Background())
	w.changed = sync.NewCond(&w.mu)
	w.failures = newFailureLog(w.log)
	w.names = cfg.Names
	store.Locate(func(context.Context) wire.Names {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.names
	})
	w.reports = newReporter(w)
	w.meter.childrenOnly = cfg.ChildrenOnly
	w.checks = newChecker(cfg.Checks, cfg.CheckTimeout)
	return w, nil
}

// ID is the worker's name.
func (w *Worker) ID() events.WorkerID { return w.cfg.ID }

// Types returns the types that have a handler, in order of name.
func (w *Worker) Types() []events.Type {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.types))
}

// Use wraps the handlers in middleware; the first added is the outermost. It
// must be called before Start.
func (w *Worker) Use(m ...Middleware) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase != phaseNew {
		w.log.Error("middleware added after Start is ignored: call Use before Start")
		return
	}
	w.middleware = append(w.middleware, m...)
}

// register adds a handler, or notes why it can't.
func (w *Worker) register(r *registration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase != phaseNew {
		w.log.Error("a handler added after Start is ignored: call Handle before Start", "type", string(r.typ))
		return
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
		return
	}
	w.types[r.typ] = r
}

// Start registers the worker and begins to pull. It returns an error for
// mistakes in the set-up and when the engine refuses the worker (an
// *events.Error, such as worker_id_in_use); when no engine answers it returns
// nil and goes on trying. ctx bounds Start itself, and its values (not its
// end) are those of the handlers' contexts. A worker is started once.
func (w *Worker) Start(ctx context.Context) error {
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

	if err := w.begin(ctx); err != nil {
		_ = w.Stop(context.WithoutCancel(ctx))
		return fmt.Errorf("start worker %s: %w", w.cfg.ID, err)
	}
	return nil
}

// begin starts the loops and tries to register once.
func (w *Worker) begin(ctx context.Context) error {
	sub, err := w.nc.Subscribe(w.cfg.Names.Control(w.cfg.ID), w.onControl)
	if err != nil {
		return fmt.Errorf("subscribe to the control subject: %w", err)
	}
	w.mu.Lock()
	w.control = sub
	w.mu.Unlock()
	if err := w.offerProbe(); err != nil {
		return err
	}
	status := w.nc.StatusChanged()
	w.setConnected(w.nc.IsConnected())
	w.checkUp(ctx)
	w.loops.Add(2 + reportSenders)
	go w.watchConnection(status)
	go w.runClock()
	for range reportSenders {
		go w.reports.run()
	}
	err = w.tryRegister(ctx)
	if err != nil && !transient(err) {
		return err
	}
	if err != nil {
		w.log.Warn("no engine answers yet: the worker goes on trying to register", "err", err)
	}
	w.loops.Add(1)
	go w.runSession()
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
	case <-w.drained:
		w.log.Info("drained: the worker ends")
	case <-w.closed:
		cause = ErrConnectionClosed
	case <-w.stopped:
	}
	return errors.Join(cause, w.Stop(context.WithoutCancel(ctx)))
}

// Stats returns the worker's counts.
func (w *Worker) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Registered, s.Unhealthy = w.registered, w.whyUnfit()
	s.Held, s.Running, s.Settling = w.counts[held], w.busy(), w.counts[settling]
	return s
}

// Drained is closed once the engine has asked the worker to drain and it has
// let go of everything. Run ends by itself then.
func (w *Worker) Drained() <-chan struct{} { return w.drained }

// unlock releases mu and then publishes what was put in the outbox: a publish
// may wait for the network, and nobody should wait for that with the lock.
func (w *Worker) unlock() {
	out := w.outbox
	w.outbox = nil
	if w.waiting > 0 {
		w.changed.Broadcast()
	}
	w.mu.Unlock()
	for _, m := range out {
		var err error
		if m.reply == "" {
			err = w.nc.Publish(m.subject, m.data)
		} else {
			err = w.nc.PublishRequest(m.subject, m.reply, m.data)
		}
		if err != nil {
			w.log.Debug("publish failed", "subject", m.subject, "err", err)
		}
	}
}

// publish puts a message in the outbox. REQUIRES: mu, released by unlock.
func (w *Worker) publish(subject, reply string, data []byte) {
	w.outbox = append(w.outbox, outMsg{subject, reply, data})
}

// registerRequest is the worker's registration. REQUIRES: mu.
func (w *Worker) registerRequest() wire.Register {
	r := wire.Register{
		Worker: string(w.cfg.ID), Capabilities: w.cfg.Capabilities, Slots: w.cfg.Concurrency,
		Host: w.cfg.Host, Version: w.cfg.Version, Session: w.session, Probe: w.probe != nil,
	}
	for t := range w.types {
		r.Types = append(r.Types, string(t))
	}
	return r
}
