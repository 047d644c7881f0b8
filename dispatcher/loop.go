package dispatcher

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/dispatcher/registry"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/events/eventlog"
	"github.com/streamwright/streamwright/projector"
)

// maxDecision is the most events that one decision makes, but for those that
// say that they need more (see sizer), which must find room in the batch.
const maxDecision = 12

// maxPendingJobs bounds the jobs that the loop has taken and not decided.
const maxPendingJobs = 64

// loop is the sequencer during one ownership of the partition: see the package
// comment. Everything in it is owned by run, except the channels.
type loop struct {
	cfg       *Config
	log       *slog.Logger
	clock     *clock.Clock
	durable   func(last events.Seq, intake uint64) // told of each durable batch
	state     *core.State
	registry  *registry.Registry
	out       effects
	table     *table
	ready     *readyq.Queues
	idleTypes idleTypes
	timers    *readyq.Window[projector.TimerKey]
	sender    sender
	flight    flight
	leases    leases
	workforce workforce
	dirty     map[events.Type]bool // whose ready items are to be looked at
	stopped   map[events.Type]bool // paused, or their circuit open
	circuits  uint64               // State.CircuitVersion that the registry has heard of

	newID   func() events.ID // for what is spawned
	follow  followUps
	errands *errands // nil: they are left to the next owner

	urgent      backlog // reports, and whatever else is small
	bulk        backlog // submissions, of which there may be any number
	inflow      backlog // those of the intake stream, which wait while the engine's queue is full
	building    *batch
	spare       []events.Event // room for the next batch's, used again
	appending   bool
	interrupted *appendResult // of an append whose events are not where they were to be; nil: none
	strangers   strangers
	appended    events.Seq // last durable event
	unprojected []*batch   // appended and not yet projected, oldest first
	behind      int        // bytes of those
	schedules   schedules
	acked       ackRuns

	drain    drain
	stalled  bool // dispatching has stopped at a bound, and goes on at once
	closing  bool
	paused   *atomic.Bool // the intake is not read
	halt     *halt        // of what begins new work; nil: there is none
	answered uint64       // intake position that is durable
	synced   uint64       // one that will be on disk at nextPurge
	purged   uint64

	nextPurge time.Time
	nextSweep time.Time
	retention retention

	requests chan job // shared by all ownerships, as is
	submits  chan job
	intake   chan job // of this one: a message must not be taken out of turn
	signals  *natsio.Signals
	toAppend chan *batch
	results  chan appendResult
	toCommit chan *batch
	commits  chan commitResult
	toReply  chan []job
	hurry    chan struct{} // what is durable is to be projected without delay
}

// batch is a run of decisions that is appended as one.
type batch struct {
	after   events.Seq
	events  []events.Event
	bytes   int // of the events, roughly
	changes *core.Changes
	done    []job // whose last command is in here
	confirm bool  // an answer depends on being the owner, and no event says so
}

type appendResult struct {
	b    *batch
	res  eventlog.Appended
	took time.Duration
	err  error
}

type commitResult struct {
	batches int // that were committed together
	seq     events.Seq
	err     error
}

// run is the loop. It returns nil when it was asked to stop and everything
// decided is durable and projected, else why the ownership has ended.
func (l *loop) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop := ctx.Done()
	for {
		var urgent, bulk, intake chan job
		if !l.closing && l.urgent.room() {
			urgent = l.requests
		}
		if !l.closing && l.bulk.room() {
			bulk = l.submits
		}
		if !l.closing && l.inflow.room() && !l.paused.Load() && !l.state.QueueFull() {
			intake = l.intake
		}
		select {
		case j := <-urgent:
			l.urgent.take(j, l.requests)
		case j := <-bulk:
			l.bulk.take(j, l.submits)
		case j := <-intake:
			l.inflow.take(j, l.intake)
		case r := <-l.results:
			if err := l.onAppended(r); err != nil {
				return err
			}
		case c := <-l.commits:
			if err := l.onCommitted(c); err != nil {
				return err
			}
		case <-l.signals.Wake:
			if err := l.onSignals(); err != nil {
				return err
			}
		case <-timer.C:
		case <-stop:
			l.closing, stop = true, nil
		}
		if err := l.step(); err != nil {
			return err
		}
		if l.closing && l.idle() {
			return nil
		}
		timer.Reset(l.nextWake())
	}
}

// step does all that can be done without waiting.
func (l *loop) step() error {
	if l.interrupted != nil {
		if done, err := l.stepOver(); !done || err != nil {
			return err
		}
	}
	l.state.SetDue(l.clock.BlindDue())
	if !l.closing {
		// First, and few at a time: a flood of work must not delay the ticks.
		if err := l.schedules.tick(); err != nil {
			return err
		}
	}
	if err := l.decidePending(); err != nil {
		return err
	}
	if !l.closing {
		if err := l.onTime(); err != nil {
			return err
		}
		if err := l.moreFollowUps(); err != nil {
			return err
		}
	}
	l.flush()
	if l.closing || l.halt.on() {
		l.stalled = false
		return nil
	}
	return l.sender.dispatch()
}

// moreFollowUps decides what follows from what is due, in the same batch.
func (l *loop) moreFollowUps() error {
	if l.follow.waits() {
		return l.follow.decideFollowUps()
	}
	return nil
}

func (l *loop) idle() bool {
	return !l.appending && len(l.unprojected) == 0 && len(l.building.events) == 0 && len(l.building.done) == 0 &&
		len(l.urgent.jobs) == 0 && len(l.bulk.jobs) == 0 && (len(l.inflow.jobs) == 0 || l.state.QueueFull())
}

// room reports whether another decision fits into the batch being built.
func (l *loop) room() bool { return l.roomBelow(eventlog.MaxAppend) }

func (l *loop) roomBelow(most int) bool { return l.roomFor(maxDecision, most) }

// roomFor reports whether a decision of so many events fits into the batch. One
// that needs more than most gets a batch of its own.
func (l *loop) roomFor(need, most int) bool {
	have := len(l.building.events)
	return (have+need <= most || have == 0) && l.building.bytes < maxBatchBytes
}

// decidePending decides what was taken, as far as the batch has room. Reports
// come first: they free the slots by which submissions get done, so a flood of
// submissions must not delay them. They leave a quarter of each batch to the
// submissions, so neither do they starve those.
func (l *loop) decidePending() error {
	if l.retention.quiet {
		return nil
	}
	most := eventlog.MaxAppend
	if len(l.bulk.jobs) > 0 || len(l.inflow.jobs) > 0 {
		most -= most / 4
	}
	if err := l.decideJobs(&l.urgent, most); err != nil {
		return err
	}
	if most = eventlog.MaxAppend; len(l.inflow.jobs) > 0 {
		most -= most / 8 // requests and the intake don't starve each other either
	}
	if err := l.decideJobs(&l.bulk, most); err != nil {
		return err
	}
	return l.decideJobs(&l.inflow, eventlog.MaxAppend)
}

// decideJobs decides jobs, in order, until the batch has most events.
func (l *loop) decideJobs(q *backlog, most int) error {
	for len(q.jobs) > 0 {
		j := q.jobs[0]
		for q.next < j.len() {
			if l.follow.waits() {
				if err := l.follow.decideFollowUps(); err != nil {
					return err
				}
			}
			if !l.roomFor(need(j, q.next), most) || (q.held != nil && q.held()) {
				return nil
			}
			if err := j.decide(l, q.next); err != nil {
				return err
			}
			q.next++
		}
		l.building.done = append(l.building.done, j)
		q.jobs[0] = nil
		q.jobs, q.next = q.jobs[1:], 0
	}
	return nil
}

// decide decides one command against everything decided before it, and adds
// its events to the batch. A refusal is an *events.Error; any other error
// stops the partition. The item is that of the decision, nil for none.
func (l *loop) decide(c core.Command) (core.Decision, *events.Item, error) {
	dec, err := core.Decide(l.state, c, l.clock.Now())
	if err != nil {
		l.building.confirm = true
		l.drain.retryAfter(err, l.clock.Now())
		return dec, nil, err
	}
	if len(dec.Events) == 0 {
		l.building.confirm = true
	}
	if err := l.apply(&dec); err != nil || dec.ID.IsZero() {
		return dec, nil, err
	}
	it, err := l.state.Item(dec.ID)
	return dec, it, err
}

// apply adds what was decided to the batch, and notes what is to follow.
func (l *loop) apply(dec *core.Decision) error {
	if err := l.add(dec.Events); err != nil {
		return err
	}
	dec.Events = nil
	l.follow.add(l.state.TakeFollowUps(), l.state.Meta().Applied)
	return nil
}

// add applies what was just decided, and adds it to the batch.
func (l *loop) add(evs []events.Event) error {
	for i := range evs {
		ev := &evs[i]
		ev.Seq = l.state.Meta().Applied + 1
		if err := l.state.Apply(*ev); err != nil {
			return fmt.Errorf("apply what was just decided: %w", err)
		}
		l.building.bytes += eventBytes(ev)
		if ev.Kind == events.KindClaimed {
			l.drain.left(1, ev.At)
		}
		if ev.Kind.Scope() == events.ScopeSchedule {
			l.schedules.stale = true
		}
	}
	l.building.events = append(l.building.events, evs...)
	return nil
}

// flush sends the batch to the appender, unless it is busy or the projection
// is too far behind.
func (l *loop) flush() {
	b := l.building
	if l.appending || len(l.unprojected) >= MaxUnprojected || l.behind >= maxUnprojectedBytes || (len(b.events) == 0 && len(b.done) == 0) {
		return
	}
	if len(b.events) == 0 && (l.cfg.Alone || !b.confirm) {
		l.toReply <- b.done
		b.done, b.confirm = nil, false
		return
	}
	b.changes = l.state.TakeChanges()
	b.after = l.appended
	l.appending = true
	l.building = &batch{events: l.spare}
	l.spare = nil
	l.toAppend <- b
}

// onAppended is what follows from the end of an append. When it fails the
// batch's jobs are left to abandon, or they have been answered.
func (l *loop) onAppended(r appendResult) error {
	if len(r.res.Places) > 0 {
		l.interrupt(r)
		return nil
	}
	l.appending = false
	b := r.b
	if r.err != nil {
		l.building.done = append(b.done, l.building.done...)
		return r.err
	}
	var err error
	if len(b.events) > 0 {
		err = l.effects(r)
	}
	if len(b.done) > 0 {
		l.toReply <- b.done
	}
	return err
}

// onCommitted notes that the projection has come further.
func (l *loop) onCommitted(c commitResult) error {
	if c.err != nil {
		return fmt.Errorf("project: %w", c.err)
	}
	for i := range c.batches {
		l.behind -= l.unprojected[i].bytes
		l.unprojected[i] = nil
	}
	l.unprojected = l.unprojected[c.batches:]
	l.state.Projected(c.seq)
	return nil
}

// effects is what follows from events that have become durable.
func (l *loop) effects(r appendResult) error {
	b := r.b
	l.appended = r.res.Last
	l.durable(l.appended, b.changes.Meta.IntakeSeq)
	b.changes.Checksum = r.res.Checksum
	l.unprojected = append(l.unprojected, b)
	l.behind += b.bytes
	l.toCommit <- b
	if h := l.cfg.Hooks.Appended; h != nil {
		h(len(b.events), r.res.Bytes, r.took)
	}
	clear(b.events) // what they refer to must not outlive them here
	b.events, l.spare = nil, b.events[:0]
	l.noteIntake(b.changes.Meta.IntakeSeq)
	l.flight.noteAcks()
	if err := l.leases.typesChanged(b.changes.Types); err != nil {
		return err
	}
	l.typesForgotten(b.changes.Forgotten)
	if err := l.acked.nativesChanged(b.changes.Types); err != nil {
		return err
	}
	if err := l.followGates(b.changes.Types); err != nil {
		return err
	}
	for _, c := range b.changes.Items {
		if err := l.flight.itemChanged(c.Old, c.New); err != nil {
			return err
		}
	}
	l.acked.cleanNatives()
	return nil
}

// nextWake is how long the loop may sleep when nothing happens.
func (l *loop) nextWake() time.Duration {
	at := l.nextSweep
	if l.closing || l.interrupted != nil {
		return l.clock.Until(at) // only the stages still have something to say
	}
	if l.stalled || l.timers.WantsPage() {
		return 0
	}
	for _, t := range []time.Time{l.workforce.nextWorker, l.leases.nextOrphan, l.flight.nextAck, l.nextPurge, l.acked.nextNak(), l.acked.settling.until, l.ready.NextRelease(), l.ready.NextRoom(), l.retention.wake(l)} {
		at = clock.Sooner(at, t)
	}
	if len(l.dirty) > 0 {
		at = clock.Sooner(at, l.flight.hold)
	}
	if due := l.nextDue(); !due.IsZero() {
		at = clock.Sooner(at, due.Add(l.clock.Lag()))
	}
	return l.clock.Until(at)
}

// nextDue is when the next of what the log says is due, the zero time for
// never: see clock.due.
func (l *loop) nextDue() time.Time {
	at := clock.Sooner(l.nextCircuit(), l.nextPauseEnd())
	if !l.schedules.held && l.schedules.tickRoom() && !l.halt.on() {
		at = clock.Sooner(at, l.schedules.nextTick())
	}
	if k, ok := l.timers.Min(); ok && l.room() {
		at = clock.Sooner(at, time.Unix(0, k.At))
	}
	return at
}

// eachUnprojected calls fn for the item changes that the projection may not
// show yet, in order. What is paged in from its indexes is brought up to date
// by them: to wait for the projection instead would starve the workers, since
// under load it is always a batch behind.
func (l *loop) eachUnprojected(fn func(before, after *events.Item)) {
	for _, b := range l.unprojected {
		for _, c := range b.changes.Items {
			fn(c.Old, c.New)
		}
	}
}
