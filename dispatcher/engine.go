package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/conf"
	"github.com/streamwright/streamwright/dispatcher/dedup"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/registry"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// What an engine is configured with.
type (
	Config = conf.Config
	Hooks  = conf.Hooks
	Lease  = conf.Lease
)

// The reasons passed to Hooks.WorkerFailed.
const (
	WorkerSilent = conf.WorkerSilent
	WorkerProbe  = conf.WorkerProbe
)

// ErrPassed is [conf.ErrPassed].
var ErrPassed = conf.ErrPassed

// Outcome is the result of one command, reported only once its events are durable (for a
// repeat, once those of the repeated command are).
type Outcome struct {
	Decision core.Decision // without Events
	Item     *events.Item  // the item of Decision.ID after the decision; nil for none
	Position events.Seq    // a query at this position or later sees the outcome
	// WorkerTold is set if a registered worker is told at once to stop the run that was
	// cancelled; other workers learn of it with their next heartbeat or report.
	WorkerTold bool
	Err        error // an *events.Error when the command was refused
}

// Engine owns a partition and dispatches its work. Its methods may be called
// by any goroutine.
type Engine struct {
	cfg      Config
	registry *registry.Registry
	prober   *registry.Prober
	topology *natsio.Topology
	signals  atomic.Pointer[natsio.Signals] // of the present ownership
	requests inbox
	submits  inbox // jobs that begin with a Submit
	reach    reach
	answered atomic.Uint64 // intake position
	read     atomic.Uint64 // the last intake message read
	epoch    atomic.Uint64
	paused   atomic.Bool // reading of the intake is paused
	halt     halt        // holds back new work
	standby  standby
	clocks   *clock.Partition
	dedup    *dedup.Asker

	ids clock.IDs

	lifecycle sync.Mutex // guards what follows
	started   bool
	cancel    context.CancelFunc
	ended     chan struct{}
	err       error // why the engine has ended; set before ended is closed

	drain    context.Context // when it ends, the engine stops in good order
	drainNow context.CancelFunc
}

// New makes an Engine, which does nothing until Start.
func New(cfg Config) (*Engine, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	var opts []jetstream.JetStreamOpt
	if cfg.Several { // right after an election the servers drop requests without a word
		opts = append(opts, jetstream.WithDefaultTimeout(time.Second))
	}
	js, err := connect.JetStream(cfg.Conn, cfg.Names, opts...)
	if err != nil {
		return nil, fmt.Errorf("make engine: %w", err)
	}
	e := &Engine{cfg: cfg, requests: newInbox(), submits: newInbox(), ended: make(chan struct{})}
	e.clocks = newClocks(&e.cfg, time.Now)
	e.drain, e.drainNow = context.WithCancel(context.Background())
	e.standby = standby{cfg: &e.cfg, drain: e.drain, reach: &e.reach, forget: e.forgetOwned, refuse: e.refuseQueued, again: make(chan struct{}, 1)}
	e.dedup = dedup.New(e.drain, cfg.Dedup, cfg.Store, cfg.Logger, e.Position)
	e.topology = natsio.NewTopology(natsio.Config{
		Conn: cfg.Conn, JS: js, Names: cfg.Names, Logger: cfg.Logger, Partition: cfg.Partition, Replicas: cfg.Replicas, Placement: cfg.Placement, Several: cfg.Several,
		MemoryOnly: cfg.MemoryOnly, IntakeMaxBytes: cfg.IntakeMaxBytes, MaxRunning: cfg.MaxRunning, Door: hasDoor(&cfg),
		Answered: e.answered.Load, Read: e.read.Load, Epoch: e.epoch.Load, Traceparent: cfg.Traceparent,
		AcksLost: e.whenOwner((*natsio.Signals).AcksLost),
	})
	e.registry = registry.New(cfg.Gone, e.whenOwner((*natsio.Signals).RegistryChanged))
	if h := cfg.Hooks.WorkerFailed; h != nil {
		e.registry.Silent = func() { h(WorkerSilent) }
	}
	e.registry.Ask = func(w events.WorkerID) { e.tell(w, wire.Control{Register: true}) }
	e.clocks.Accepted = e.registry.SetBack
	e.prober = e.newProber()
	return e, nil
}

// whenOwner returns a function that leaves a signal for the loop, if there is one.
func (e *Engine) whenOwner(fn func(*natsio.Signals)) func() {
	return func() {
		if s := e.signals.Load(); s != nil {
			fn(s)
		}
	}
}

// Start takes over the partition and begins to work. It returns once the engine has read
// the log to its end and owns it, or the reason why it can't: for example, a log that is
// corrupt, or cut in front of the projection. If another engine has the lease, it returns at
// once, and the engine stands by. Later changes of ownership happen in the background. Start
// is idempotent; after Stop, or if Stop is called meanwhile, it fails.
func (e *Engine) Start(ctx context.Context) error {
	e.lifecycle.Lock()
	defer e.lifecycle.Unlock()
	if e.started {
		return nil
	}
	if e.drain.Err() != nil {
		return errClosed
	}
	ctx, ready := context.WithCancel(ctx)
	defer ready()
	defer context.AfterFunc(e.drain, ready)() // a Stop does not wait for the takeover
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var l *loop
	by, mine := e.standby.takeLease(ctx)
	if mine {
		var err error
		if l, err = e.own(ctx); err != nil && (e.cfg.Lease == nil || final(err) || ctx.Err() != nil) {
			cancel()
			return err
		}
		// What comes and goes on several servers, such as an election, is waited out.
		if err != nil {
			e.standby.failed(err, false)
		}
	} else {
		e.standby.beginStandby(by)
	}
	e.started, e.cancel = true, cancel
	go e.supervise(run, l)
	return nil
}

// Stop answers what is pending, makes it durable and projected, and ends. If ctx ends
// first, it gives up halfway, which the log survives. Stop is idempotent; it returns why
// the engine had ended before, if it had.
func (e *Engine) Stop(ctx context.Context) error {
	e.drainNow()
	e.lifecycle.Lock()
	defer e.lifecycle.Unlock()
	defer e.dedup.Stop()
	if !e.started {
		return nil
	}
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

// errClosed is the answer of an engine that has stopped.
var errClosed = events.Refuse(events.CodeUnavailable, "the engine is shutting down: ask another, or again later")

// Do decides commands, in order, each on its own. It calls done exactly once, from a
// goroutine that done must not block, with an outcome for each command. Do blocks while the
// engine's bounded queue is full, until ctx ends. If it returns an error (an *events.Error
// with CodeUnavailable), done is not called.
func (e *Engine) Do(ctx context.Context, cmds []core.Command, done func([]Outcome)) error {
	j := &commandJob{cmds: cmds, outcomes: make([]Outcome, 0, len(cmds)), done: done}
	if len(cmds) > 0 {
		if _, ok := cmds[0].(core.Submit); ok {
			if taken, err := e.askFirst(ctx, j); taken || err != nil {
				return err
			}
			return e.enqueue(ctx, e.submits, j, j.bytes())
		}
	}
	return e.enqueue(ctx, e.requests, j, j.bytes())
}

// Report decides workers' reports, in order, each on its own; done is called as in Do.
func (e *Engine) Report(ctx context.Context, reports []command.Report, done func([]wire.Reported)) error {
	j := &reportJob{reports: reports, answers: make([]wire.Reported, 0, len(reports)), done: done}
	if e.dedup.AsksSpawn(reports) {
		return e.reportAsked(ctx, j)
	}
	return e.enqueue(ctx, e.requests, j, j.bytes())
}

// one decides one command and waits for its outcome.
func (e *Engine) one(ctx context.Context, c core.Command) (Outcome, error) {
	out, err := e.all(ctx, []core.Command{c})
	if err != nil {
		return Outcome{}, err
	}
	return out[0], out[0].Err
}

// all decides commands and waits for their outcomes.
func (e *Engine) all(ctx context.Context, cmds []core.Command) ([]Outcome, error) {
	out := make(chan []Outcome, 1)
	if err := e.Do(ctx, cmds, func(o []Outcome) { out <- o }); err != nil {
		return nil, err
	}
	select {
	case o := <-out:
		return o, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// NewID returns an id with the time of the partition's clock. Each id is higher than the
// ones before.
func (e *Engine) NewID() events.ID { return e.ids.New(e.Now()) }

// Now returns the partition's time.
func (e *Engine) Now() time.Time {
	if c := e.clocks.Clock(); c != nil {
		return c.Now()
	}
	return time.Now().UTC()
}

// Position returns the position of the last durable event.
func (e *Engine) Position() events.Seq { return events.Seq(e.reach.position.Load()) }

// Events returns the number of durable events, up to about Position.
func (e *Engine) Events() uint64 { return e.reach.events.Load() }

// reach says how far the log goes, as far as is known. Any goroutine may read it.
type reach struct {
	position atomic.Uint64 // of the last durable event
	events   atomic.Uint64 // the durable events
}

// raise notes that the log reaches seq at least, with so many events.
func (r *reach) raise(seq events.Seq, n uint64) {
	raise(&r.position, uint64(seq))
	raise(&r.events, n)
}

func raise(v *atomic.Uint64, n uint64) {
	for {
		was := v.Load()
		if n <= was || v.CompareAndSwap(was, n) {
			return
		}
	}
}

// reached notes how far the owner has come.
func (e *Engine) reached(m events.Meta) {
	e.reach.position.Store(uint64(m.Applied))
	e.reach.events.Store(m.Events)
	e.answered.Store(m.IntakeSeq)
}

// forgetOwned drops what only an owner knows.
func (e *Engine) forgetOwned() {
	e.epoch.Store(0)
	e.registry.Clear()
}

// Epoch returns the epoch of the present ownership.
func (e *Engine) Epoch() events.Epoch { return events.Epoch(e.epoch.Load()) }

// Await returns once the projection has reached seq, or with ctx's error.
func (e *Engine) Await(ctx context.Context, seq events.Seq) error {
	return e.cfg.Store.Await(ctx, seq)
}

// Owner returns this engine's name in owned events.
func (e *Engine) Owner() string { return e.cfg.Owner }

// errReload ends an ownership when a reload was asked for.
var errReload = errors.New("asked to start again from the log")

// Reload makes the engine drop its memory and start again from the projection and the log,
// as after a failed append. It is called when the projection has been replaced.
func (e *Engine) Reload() {
	e.whenOwner(func(s *natsio.Signals) { s.Leave(func(t *natsio.Taken) { t.Reload = true }) })()
	nudge.Send(e.standby.again)
}
