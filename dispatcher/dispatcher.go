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

// Dispatcher owns a partition and dispatches its work. Its methods may be called
// by any goroutine.
type Dispatcher struct {
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

// New makes a Dispatcher, which does nothing until Start.
func New(cfg Config) (*Dispatcher, error) {
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
	d := &Dispatcher{cfg: cfg, requests: newInbox(), submits: newInbox(), ended: make(chan struct{})}
	d.clocks = newClocks(&d.cfg, time.Now)
	d.drain, d.drainNow = context.WithCancel(context.Background())
	d.standby = standby{cfg: &d.cfg, drain: d.drain, reach: &d.reach, forget: d.forgetOwned, refuse: d.refuseQueued, again: make(chan struct{}, 1)}
	d.dedup = dedup.New(d.drain, cfg.Dedup, cfg.Store, cfg.Logger, d.Position)
	d.topology = natsio.NewTopology(natsio.Config{
		Conn: cfg.Conn, JS: js, Names: cfg.Names, Logger: cfg.Logger, Partition: cfg.Partition, Replicas: cfg.Replicas, Placement: cfg.Placement, Several: cfg.Several,
		MemoryOnly: cfg.MemoryOnly, IntakeMaxBytes: cfg.IntakeMaxBytes, MaxRunning: cfg.MaxRunning, Door: hasDoor(&cfg),
		Answered: d.answered.Load, Read: d.read.Load, Epoch: d.epoch.Load, Traceparent: cfg.Traceparent,
		AcksLost: d.whenOwner((*natsio.Signals).AcksLost),
	})
	d.registry = registry.New(cfg.Gone, d.whenOwner((*natsio.Signals).RegistryChanged))
	if h := cfg.Hooks.WorkerFailed; h != nil {
		d.registry.Silent = func() { h(WorkerSilent) }
	}
	d.registry.Ask = func(w events.WorkerID) { d.tell(w, wire.Control{Register: true}) }
	d.clocks.Accepted = d.registry.SetBack
	d.prober = d.newProber()
	return d, nil
}

// whenOwner returns a function that leaves a signal for the loop, if there is one.
func (d *Dispatcher) whenOwner(fn func(*natsio.Signals)) func() {
	return func() {
		if s := d.signals.Load(); s != nil {
			fn(s)
		}
	}
}

// Start takes over the partition and begins to work. It returns once the engine has read
// the log to its end and owns it, or the reason why it can't: for example, a log that is
// corrupt, or cut in front of the projection. If another engine has the lease, it returns at
// once, and the engine stands by. Later changes of ownership happen in the background. Start
// is idempotent; after Stop, or if Stop is called meanwhile, it fails.
func (d *Dispatcher) Start(ctx context.Context) error {
	d.lifecycle.Lock()
	defer d.lifecycle.Unlock()
	if d.started {
		return nil
	}
	if d.drain.Err() != nil {
		return errClosed
	}
	ctx, ready := context.WithCancel(ctx)
	defer ready()
	defer context.AfterFunc(d.drain, ready)() // a Stop does not wait for the takeover
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var l *loop
	by, mine := d.standby.takeLease(ctx)
	if mine {
		var err error
		if l, err = d.own(ctx); err != nil && (d.cfg.Lease == nil || final(err) || ctx.Err() != nil) {
			cancel()
			return err
		}
		// What comes and goes on several servers, such as an election, is waited out.
		if err != nil {
			d.standby.failed(err, false)
		}
	} else {
		d.standby.beginStandby(by)
	}
	d.started, d.cancel = true, cancel
	go d.supervise(run, l)
	return nil
}

// Stop answers what is pending, makes it durable and projected, and ends. If ctx ends
// first, it gives up halfway, which the log survives. Stop is idempotent; it returns why
// the engine had ended before, if it had.
func (d *Dispatcher) Stop(ctx context.Context) error {
	d.drainNow()
	d.lifecycle.Lock()
	defer d.lifecycle.Unlock()
	defer d.dedup.Stop()
	if !d.started {
		return nil
	}
	select {
	case <-d.ended:
	case <-ctx.Done():
		d.cancel()
		<-d.ended
	}
	d.cancel()
	return d.err
}

// Done is closed when the engine has ended, by Stop or for good.
func (d *Dispatcher) Done() <-chan struct{} { return d.ended }

// errClosed is the answer of an engine that has stopped.
var errClosed = events.Refuse(events.CodeUnavailable, "the engine is shutting down: ask another, or again later")

// Do decides commands, in order, each on its own. It calls done exactly once, from a
// goroutine that done must not block, with an outcome for each command. Do blocks while the
// engine's bounded queue is full, until ctx ends. If it returns an error (an *events.Error
// with CodeUnavailable), done is not called.
func (d *Dispatcher) Do(ctx context.Context, cmds []core.Command, done func([]Outcome)) error {
	j := &commandJob{cmds: cmds, outcomes: make([]Outcome, 0, len(cmds)), done: done}
	if len(cmds) > 0 {
		if _, ok := cmds[0].(core.Submit); ok {
			if taken, err := d.askFirst(ctx, j); taken || err != nil {
				return err
			}
			return d.enqueue(ctx, d.submits, j, j.bytes())
		}
	}
	return d.enqueue(ctx, d.requests, j, j.bytes())
}

// Report decides workers' reports, in order, each on its own; done is called as in Do.
func (d *Dispatcher) Report(ctx context.Context, reports []command.Report, done func([]wire.Reported)) error {
	j := &reportJob{reports: reports, answers: make([]wire.Reported, 0, len(reports)), done: done}
	if d.dedup.AsksSpawn(reports) {
		return d.reportAsked(ctx, j)
	}
	return d.enqueue(ctx, d.requests, j, j.bytes())
}

// one decides one command and waits for its outcome.
func (d *Dispatcher) one(ctx context.Context, c core.Command) (Outcome, error) {
	out, err := d.all(ctx, []core.Command{c})
	if err != nil {
		return Outcome{}, err
	}
	return out[0], out[0].Err
}

// all decides commands and waits for their outcomes.
func (d *Dispatcher) all(ctx context.Context, cmds []core.Command) ([]Outcome, error) {
	out := make(chan []Outcome, 1)
	if err := d.Do(ctx, cmds, func(o []Outcome) { out <- o }); err != nil {
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
func (d *Dispatcher) NewID() events.ID { return d.ids.New(d.Now()) }

// Now returns the partition's time.
func (d *Dispatcher) Now() time.Time {
	if c := d.clocks.Clock(); c != nil {
		return c.Now()
	}
	return time.Now().UTC()
}

// Position returns the position of the last durable event.
func (d *Dispatcher) Position() events.Seq { return events.Seq(d.reach.position.Load()) }

// Events returns the number of durable events, up to about Position.
func (d *Dispatcher) Events() uint64 { return d.reach.events.Load() }

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
func (d *Dispatcher) reached(m events.Meta) {
	d.reach.position.Store(uint64(m.Applied))
	d.reach.events.Store(m.Events)
	d.answered.Store(m.IntakeSeq)
}

// forgetOwned drops what only an owner knows.
func (d *Dispatcher) forgetOwned() {
	d.epoch.Store(0)
	d.registry.Clear()
}

// Epoch returns the epoch of the present ownership.
func (d *Dispatcher) Epoch() events.Epoch { return events.Epoch(d.epoch.Load()) }

// Await returns once the projection has reached seq, or with ctx's error.
func (d *Dispatcher) Await(ctx context.Context, seq events.Seq) error {
	return d.cfg.Store.Await(ctx, seq)
}

// Owner returns this engine's name in owned events.
func (d *Dispatcher) Owner() string { return d.cfg.Owner }

// errReload ends an ownership when a reload was asked for.
var errReload = errors.New("asked to start again from the log")

// Reload makes the engine drop its memory and start again from the projection and the log,
// as after a failed append. It is called when the projection has been replaced.
func (d *Dispatcher) Reload() {
	d.whenOwner(func(s *natsio.Signals) { s.Leave(func(t *natsio.Taken) { t.Reload = true }) })()
	nudge.Send(d.standby.again)
}
