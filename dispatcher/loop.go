package dispatcher

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/intake"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/dispatcher/retention"
	"github.com/streamwright/streamwright/dispatcher/schedules"
	"github.com/streamwright/streamwright/dispatcher/seats"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/turns"
)

// maxDecision is the most events of one decision, except those that ask for more (see
// sizer) and must find room in the batch.
const maxDecision = 12

// Bounds of the loop's queues.
const (
	MaxRequests    = 1024 // requests waiting to be decided
	MaxUnprojected = 256  // batches appended and not yet projected
	maxReplies     = 64   // batches whose replies are not sent yet
)

// maxPendingJobs bounds the jobs that the loop has taken but not decided.
const maxPendingJobs = 64

// loop is the sequencer during one ownership of the partition: see the package
// comment. Everything in it is owned by run, except the channels. Its parts own
// their fields.
type loop struct {
	cfg     *Config
	out     effects
	signals *natsio.Signals
	newID   func() events.ID // for spawned items and ticks
	halt    *halt            // holds back new work
	turn    turns.Turn

	queues  queues // jobs to be decided
	decider        // takes them, into the batch being built

	table     *table.Table
	ready     *readyq.Queues
	seats     *seats.Seats
	dirty     dirty
	timers    timers
	recount   recount
	gates     gates
	pools     pools
	flight    flight
	leases    leases
	acks      ackRuns
	limits    limits
	assigner  assigner
	sender    sender
	workforce workforce
	follow    followUps
	schedules *schedules.Schedules
	retention *retention.Retention
	purge     *intake.Purge
	sweeper   sweeper

	closing bool
}

// run is the loop. It returns nil when it was asked to stop and everything decided is
// durable and projected, else the reason why the ownership has ended.
func (l *loop) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer l.turn.End()
	stop := ctx.Done()
	for {
		var urgent, bulk, door, plain <-chan job
		if !l.closing {
			urgent, bulk, door = l.queues.urgent.open(), l.queues.bulk.open(), l.queues.door.open()
			if !l.queues.paused.Load() && !l.state.QueueFull() {
				plain = l.queues.intake.open()
			}
		}
		l.turn.End()
		select {
		case j := <-urgent:
			l.queues.urgent.take(j)
		case j := <-bulk:
			l.queues.bulk.take(j)
		case j := <-door:
			l.queues.door.take(j)
		case j := <-plain:
			l.queues.intake.take(j)
		case r := <-l.pipe.results:
			l.turn.Begin()
			if err := l.onAppended(r); err != nil {
				return err
			}
		case c := <-l.pipe.commits:
			if err := l.pipe.projected(c); err != nil {
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
		l.turn.Begin()
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
	l.state.SetDue(l.clock.BlindDue())
	if !l.closing && !l.halt.on() {
		// First, and few at a time: a flood of work must not delay the ticks.
		if err := l.schedules.Tick(); err != nil {
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
		if err := l.follow.decide(); err != nil { // in the same batch
			return err
		}
	}
	if l.closing || l.halt.on() {
		l.sender.stalled = false
		return l.pipe.flush()
	}
	// What can be assigned goes into the same batch.
	if err := l.assigner.gather(); err != nil {
		return err
	}
	if err := l.sender.dispatch(); err != nil {
		return err
	}
	if !l.sender.stalled {
		if err := l.assigner.assignFresh(); err != nil {
			return err
		}
	}
	return l.pipe.flush()
}

func (l *loop) idle() bool {
	q := &l.queues
	return l.pipe.idle() && len(q.urgent.jobs) == 0 && len(q.bulk.jobs) == 0 && len(q.door.jobs) == 0 && (len(q.intake.jobs) == 0 || l.state.QueueFull())
}

// decidePending decides the jobs that were taken, while the batch has room. Reports come
// first: they free the slots by which submissions get done, so a flood of submissions must
// not delay them. They leave a quarter of each batch to submissions, which therefore don't
// starve either.
func (l *loop) decidePending() error {
	if l.retention.Quiet() && !l.closing { // an ownership that ends makes no round
		return nil
	}
	q, most := &l.queues, eventlog.MaxEvents
	if len(q.bulk.jobs) > 0 || len(q.door.jobs) > 0 || len(q.intake.jobs) > 0 {
		most -= most / 4
	}
	if err := l.decideJobs(&q.urgent, most); err != nil {
		return err
	}
	if most = eventlog.MaxEvents; len(q.door.jobs) > 0 || len(q.intake.jobs) > 0 {
		most -= most / 8 // requests and the intake don't starve each other either
	}
	if err := l.decideJobs(&q.bulk, most); err != nil {
		return err
	}
	if err := l.decideJobs(&q.door, most); err != nil {
		return err
	}
	return l.decideJobs(&q.intake, eventlog.MaxEvents)
}

// decideJobs decides jobs, in order, until the batch has most events.
func (l *loop) decideJobs(q *backlog, most int) error {
	for len(q.jobs) > 0 {
		j := q.jobs[0]
		for q.next < j.len() {
			l.turn.Take()
			if !l.closing {
				if err := l.follow.decide(); err != nil {
					return err
				}
			}
			if !l.pipe.roomFor(needs(j, q.next), most) || (q.held != nil && q.held()) {
				return nil
			}
			switch err := j.decide(l, q.next); {
			case errors.Is(err, errNoRoom):
				return nil
			case err != nil:
				return err
			}
			q.next++
		}
		l.pipe.building.done = append(l.pipe.building.done, j)
		q.jobs[0] = nil
		q.jobs, q.next = q.jobs[1:], 0
	}
	return nil
}

// onAppended handles the end of an append. If the append failed, it leaves the batch's jobs
// to abandon.
func (l *loop) onAppended(r appendResult) error {
	p := l.pipe
	p.appending = false
	if r.err != nil {
		p.building.done = append(r.b.done, p.building.done...)
		return r.err
	}
	var err error
	if len(r.b.events) > 0 {
		p.durable(r)
		l.assigner.fresh.Durable(p.appended)
		if err = l.effects(r.b.changes); err == nil {
			err = l.assigner.send(r.b.granted)
		}
	}
	if len(r.b.done) > 0 {
		p.toReply <- r.b.done
	}
	return err
}

// effects carries out what follows from events that have become durable.
func (l *loop) effects(changes *core.Changes) error {
	l.purge.Note(changes.Meta.IntakeSeq)
	l.acks.noteAcks()
	l.typesChanged(changes.Types, changes.Forgotten)
	for _, c := range changes.Items {
		l.timers.changed(c.Old, c.New)
		if err := l.flight.itemChanged(c.Old, c.New); err != nil {
			return err
		}
	}
	l.acks.clean()
	return nil
}

// typesChanged tells the parts of changed and forgotten types.
func (l *loop) typesChanged(types []events.TypeInfo, forgotten []events.Type) {
	for i := range types {
		t := &types[i]
		l.dirty.mark(t.Type) // its capacity may have changed
		l.limits.typeChanged(t)
		l.leases.typeChanged(t)
	}
	l.typesForgotten(forgotten)
	for i := range types {
		l.acks.typeChanged(&types[i])
	}
	for i := range types {
		if t := types[i].Type; l.gates.changed(t) {
			l.acks.gateChanged(t)
		}
	}
	l.workforce.follow()
}

// abandon answers, after an error, every job that was taken and can't be finished.
func (l *loop) abandon(err error) {
	l.queues.intake.abandon()     // not answered: the next ownership reads them again
	defer l.queues.door.abandon() // the stream takes what is not decided
	if err == nil {
		return
	}
	l.pipe.abandon()
	abandonAll(l.queues.urgent.jobs)
	abandonAll(l.queues.bulk.jobs)
}

// nextWake returns how long the loop may sleep when nothing happens.
func (l *loop) nextWake() time.Duration {
	if l.closing {
		return l.cfg.Sweep // only the pipeline still has something to say
	}
	at := l.sweeper.next
	if l.sender.stalled || l.timers.WantsPage() || l.recount.on && l.pipe.room() {
		return 0
	}
	for _, t := range []time.Time{l.workforce.nextWorker, l.leases.next, l.purge.Next, l.acks.next(), l.ready.NextRelease(), l.ready.NextRoom(), l.retention.Wake()} {
		at = clock.Sooner(at, t)
	}
	if l.pipe.room() {
		at = clock.Sooner(at, l.assigner.nextGrace())
	}
	if due := l.nextDue(); !due.IsZero() {
		at = clock.Sooner(at, due.Add(l.clock.Lag()))
	}
	return l.clock.Until(at)
}

// nextDue returns when the next thing recorded in the log is due: see clock.Due. It returns
// the zero time for never, or if the batch first needs room.
func (l *loop) nextDue() (at time.Time) {
	if !l.halt.on() {
		at = l.schedules.Next()
	}
	if l.pipe.room() {
		at = clock.Sooner(at, l.gates.next())
		if k, ok := l.timers.Min(); ok {
			at = clock.Sooner(at, time.Unix(0, k.At))
		}
	}
	return at
}

// queues holds what waits to be decided: reports and other small jobs; submissions, of
// which there may be any number; plain publishes; and messages of the intake stream, which
// wait while the engine's queue is full.
type queues struct {
	urgent, bulk, door, intake backlog
	paused                     *atomic.Bool // reading of the intake is paused
}

// backlog holds the jobs that the loop has taken from a channel and not fully decided.
type backlog struct {
	in   chan job
	jobs []job
	next int // commands of jobs[0] that have been decided
	// held, if set, says that no further command may be decided for now.
	held func() bool
}

// open returns the channel to take from, nil if there is no room.
func (q *backlog) open() <-chan job {
	if len(q.jobs) >= maxPendingJobs {
		return nil
	}
	return q.in
}

// take takes a job, and those that wait behind it, while there is room.
func (q *backlog) take(j job) {
	for {
		q.jobs = append(q.jobs, j)
		select {
		case j = <-q.open():
		default:
			return
		}
	}
}

// abandon gives up all jobs, including those not taken yet.
func (q *backlog) abandon() {
	abandonAll(q.jobs)
	for len(q.in) > 0 {
		(<-q.in).abandon(errUnknown)
	}
}
