package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Outcome is what became of one command, told only once its events are
// durable (or, for a repeat, once what it repeats is).
type Outcome struct {
	Decision events.Decision // Events is left out
	Item     *events.Item    // the item of Decision.ID after the decision; nil for none
	Position events.Seq      // what a query must have seen to see this
	Err      error           // an *events.Error when the command was refused
}

// Engine owns a partition and dispatches its work. Its methods may be called
// by any goroutine.
type Engine struct {
	cfg      Config
	js       jetstream.JetStream
	registry *registry
	topology *topology
	signals  atomic.Pointer[signals] // of the present ownership
	requests chan job
	position atomic.Uint64
	epoch    atomic.Uint64
	clock    atomic.Pointer[clock]

	idMu    sync.Mutex // guards entropy
	entropy *ulid.MonotonicEntropy

	lifecycle sync.Mutex // guards what follows
	started   bool
	cancel    context.CancelFunc
	drain     chan struct{} // closed to stop in good order
	stopping  sync.Once
	ended     chan struct{}
	err       error // why the engine has ended; set before ended is closed
}

// New makes an Engine, which does nothing until Start.
func New(cfg Config) (*Engine, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	js, err := jetstream.New(cfg.Conn)
	if err != nil {
		return nil, fmt.Errorf("make engine: %w", err)
	}
	e := &Engine{cfg: cfg, js: js, requests: make(chan job, MaxRequests), drain: make(chan struct{}), ended: make(chan struct{}), entropy: newEntropy()}
	e.topology = &topology{js: js, cfg: &e.cfg, lost: e.whenOwner((*signals).dispatchLost)}
	e.registry = newRegistry(cfg.Gone, e.whenOwner((*signals).registryChanged))
	return e, nil
}

// whenOwner makes a function that leaves word with the loop, if there is one.
func (e *Engine) whenOwner(fn func(*signals)) func() {
	return func() {
		if s := e.signals.Load(); s != nil {
			fn(s)
		}
	}
}

// Start becomes the partition's owner and begins to work. It returns once the
// engine is at the end of the log and owns it, or with the reason why it can't;
// a log that is corrupt, or cut before the projection's position, is such a
// reason. Later losses of ownership are repaired in the background. Idempotent.
func (e *Engine) Start(ctx context.Context) error {
	e.lifecycle.Lock()
	defer e.lifecycle.Unlock()
	if e.started {
		return nil
	}
	if err := e.topology.ensureStreams(ctx); err != nil {
		return err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l, err := e.own(ctx)
	if err != nil {
		cancel()
		return err
	}
	e.started, e.cancel = true, cancel
	go e.supervise(run, l)
	return nil
}

// Stop answers what is pending, makes it durable and projected, and ends. When
// ctx ends first it gives up in the midst, which the log survives. Idempotent;
// it returns why the engine had ended before, if it had.
func (e *Engine) Stop(ctx context.Context) error {
	e.lifecycle.Lock()
	defer e.lifecycle.Unlock()
	if !e.started {
		return nil
	}
	e.stopping.Do(func() { close(e.drain) })
	select {
	case <-e.ended:
	case <-ctx.Done():
		e.cancel()
		<-e.ended
	}
	e.cancel()
	return e.err
}

// Done is closed when the engine has ended, by Stop or for good.
func (e *Engine) Done() <-chan struct{} { return e.ended }

// errClosed is what an engine answers that has stopped.
var errClosed = events.Refuse(events.CodeUnavailable, "the engine is shutting down: ask another, or again later")

// Do decides commands, in order, each on its own. done is called exactly once,
// from a goroutine that it must not hold up, with an outcome for each. Do
// blocks while the engine's bounded queue is full, until ctx ends; when it
// returns an error (an *events.Error with CodeUnavailable) done is not called.
func (e *Engine) Do(ctx context.Context, cmds []events.Command, done func([]Outcome)) error {
	return e.enqueue(ctx, &commandJob{cmds: cmds, outcomes: make([]Outcome, 0, len(cmds)), done: done})
}

// Report decides workers' reports, in order, each on its own; done as in Do.
func (e *Engine) Report(ctx context.Context, reports []wire.Report, done func([]wire.Reported)) error {
	return e.enqueue(ctx, &reportJob{reports: reports, answers: make([]wire.Reported, 0, len(reports)), done: done})
}

func (e *Engine) enqueue(ctx context.Context, j job) error {
	select {
	case <-e.drain:
		return errClosed
	case <-e.ended:
		return errClosed
	default:
	}
	select {
	case e.requests <- j:
		select {
		case <-e.ended: // nobody may be left to take it
			e.refuseAll()
		default:
		}
		return nil
	case <-e.ended:
		return errClosed
	case <-ctx.Done():
		return events.Refuse(events.CodeUnavailable, "the engine has more requests than it can take: ask again later")
	}
}

// one decides one command and waits for its outcome.
func (e *Engine) one(ctx context.Context, c events.Command) (Outcome, error) {
	out := make(chan Outcome, 1)
	if err := e.Do(ctx, []events.Command{c}, func(o []Outcome) { out <- o[0] }); err != nil {
		return Outcome{}, err
	}
	select {
	case o := <-out:
		return o, o.Err
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
}

// NewID makes an id with the time of the partition's clock. Ids made later are
// higher.
func (e *Engine) NewID() events.ID {
	now := e.Now()
	e.idMu.Lock()
	defer e.idMu.Unlock()
	id, err := ulid.New(ulid.Timestamp(now), e.entropy)
	if err != nil { // the entropy of this millisecond has run over
		e.entropy = newEntropy()
		id = ulid.MustNew(ulid.Timestamp(now), e.entropy)
	}
	return events.ID(id)
}

// Now is the partition's time.
func (e *Engine) Now() time.Time {
	if c := e.clock.Load(); c != nil {
		return c.now()
	}
	return time.Now().UTC()
}

// Position is the last durable event.
func (e *Engine) Position() events.Seq { return events.Seq(e.position.Load()) }

// Epoch is that of the present ownership.
func (e *Engine) Epoch() events.Epoch { return events.Epoch(e.epoch.Load()) }

// Await returns once the projection has reached seq, or with ctx's error.
func (e *Engine) Await(ctx context.Context, seq events.Seq) error {
	return e.cfg.Store.Await(ctx, seq)
}

// Load is what the engine holds in memory for a type.
type Load struct {
	InFlight int // dispatched or running
	Capacity int
	Workers  int
}

// Loads returns the load of each type that has any.
func (e *Engine) Loads(ctx context.Context) (map[events.Type]Load, error) {
	j := &loadsJob{out: make(chan loadsReply, 1)}
	if err := e.enqueue(ctx, j); err != nil {
		return nil, err
	}
	select {
	case r := <-j.out:
		return r.loads, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// loadsJob asks the loop for its loads.
type loadsJob struct {
	out   chan loadsReply
	loads map[events.Type]Load
}

type loadsReply struct {
	loads map[events.Type]Load
	err   error
}

func (j *loadsJob) len() int { return 1 }

func (j *loadsJob) decide(l *loop, _ int) error {
	j.loads = map[events.Type]Load{}
	for _, t := range l.state.TypeNames() {
		set, _ := l.state.Settings(t)
		_, workers := l.registry.slots(t, "")
		j.loads[t] = Load{InFlight: l.table.byType[t], Capacity: set.Capacity, Workers: workers}
	}
	return nil
}

func (j *loadsJob) finish()                   { j.out <- loadsReply{loads: j.loads} }
func (j *loadsJob) abandon(err *events.Error) { j.out <- loadsReply{err: err} }

// supervise runs one ownership after the other.
func (e *Engine) supervise(ctx context.Context, l *loop) {
	defer e.refuseAll()
	defer close(e.ended)
	for {
		err := e.serve(ctx, l)
		if err == nil || ctx.Err() != nil {
			return
		}
		if e.cfg.Hooks.Lost != nil {
			e.cfg.Hooks.Lost(err)
		}
		if errors.Is(err, errReload) {
			e.cfg.Logger.Info("the store was rebuilt: starting again from it")
		} else {
			e.cfg.Logger.Error("the ownership of the partition has ended: starting again from the log", "error", err)
		}
		if l = e.ownAgain(ctx); l == nil {
			return
		}
	}
}

// ownAgain tries to become the owner until it succeeds, is stopped (nil), or
// finds that it can't (nil, with e.err set).
func (e *Engine) ownAgain(ctx context.Context) *loop {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		c, cancel := context.WithTimeout(ctx, time.Minute)
		l, err := e.own(c)
		cancel()
		if err == nil {
			return l
		}
		if errors.Is(err, events.ErrCorrupt) {
			e.err = err
			e.cfg.Logger.Error("the partition can't be served", "error", err)
			e.refuseAll()
			return nil
		}
		e.cfg.Logger.Warn("the partition could not be taken over: trying again", "error", err, "in", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		case <-e.drain:
			e.refuseAll()
			return nil
		}
	}
}

// refuseAll answers what still waits.
func (e *Engine) refuseAll() {
	for {
		select {
		case j := <-e.requests:
			j.abandon(errClosed)
		default:
			return
		}
	}
}

// Owner is this engine's name in owned events.
func (e *Engine) Owner() string { return e.cfg.Owner }

// errReload ends an ownership that is asked to.
var errReload = errors.New("asked to start again from the log")

// Reload has the engine drop what it holds in memory and start again from the
// projection and the log, as after a failed append: for when the projection has
// been replaced.
func (e *Engine) Reload() {
	if s := e.signals.Load(); s != nil {
		s.leave(func(s *signals) { s.reload = true })
	}
}
