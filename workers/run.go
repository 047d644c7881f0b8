package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// runState is the stage of a run; see the package comment.
type runState uint8

const (
	held      runState = iota // waits for a slot that the run of another namespace has
	running                   // holds a slot
	settling                  // outcome reported, not answered
	returning                 // handed back before its start, not answered
	gone                      // not counted
	numRunStates
)

// run is one run of one item.
type run struct {
	// Immutable.
	msg      wire.Assigned
	id       events.ID // of the item
	reg      *registration
	received time.Time
	lease    time.Duration

	// Guarded by Worker.mu.
	state   runState
	cancel  context.CancelCauseFunc // set while running
	stop    error                   // why its context was, or is to be, ended
	letGo   bool                    // the engine no longer wants to hear of it
	refused bool                    // it said so in answer to a report from the middle of the run
	line    line                    // progress and checkpoints
	gaveUp  bool                    // Stop no longer waits for it
	attempt events.Attempt          // as its handler knows it; 0: none was begun
}

// newRun makes the run of an item. It finds the type's handler in types.
func newRun(a *wire.Assigned, types map[events.Type]*registration, now time.Time) (*run, error) {
	id, err := events.ParseID(a.ID)
	if err != nil {
		return nil, err
	}
	reg := types[events.Type(a.Type)]
	if reg == nil {
		return nil, fmt.Errorf("item %s is of type %q, which this worker has no handler for", id, a.Type)
	}
	r := &run{msg: *a, id: id, reg: reg, received: now, lease: events.DefaultLease}
	if a.Lease.Duration > 0 {
		r.lease = a.Lease.Duration
	}
	return r, nil
}

// lapsed reports whether the lease has run out if nothing has kept it.
func (r *run) lapsed(now time.Time) bool { return now.Sub(r.received) >= r.lease }

// runTable holds all runs, and counts them. Guarded by Worker.mu.
type runTable struct {
	concurrency int
	share       *share          // of the process's slots
	runs        map[string]*run // by token: everything received and not gone
	counts      [numRunStates]int
	line        []*run // that are held, oldest first, and some that are no more
}

// add takes in a fresh run. REQUIRES: Worker.mu.
func (t *runTable) add(r *run) {
	t.runs[r.msg.Token] = r
	t.count(r, 1)
}

// setState moves r and keeps the counts. REQUIRES: Worker.mu.
func (t *runTable) setState(r *run, s runState) {
	t.count(r, -1)
	left := r.state == running
	r.state = s
	if s == gone {
		delete(t.runs, r.msg.Token)
	} else {
		t.count(r, 1)
	}
	if left {
		t.share.give()
	}
}

func (t *runTable) count(r *run, by int) {
	t.counts[r.state] += by
	if r.state == held || r.state == running {
		r.reg.inSlots += by
	}
}

// busy returns the number of slots taken. REQUIRES: mu.
func (t *runTable) busy() int { return t.counts[running] }

// full reports whether more slots are taken, or waited for, than there are, of all or of a
// type. REQUIRES: mu.
func (t *runTable) full(reg *registration) bool {
	return t.busy()+t.counts[held] > t.concurrency || reg.limit > 0 && reg.inSlots > reg.limit
}

// refuses returns why the worker starts no run now; empty: it does. REQUIRES: mu.
func (w *Worker) refuses() string {
	switch {
	case w.phase == phaseDraining:
		return "draining"
	case w.phase != phaseActive:
		return "shutdown"
	case w.session.replaced:
		return "replaced"
	case w.health.unfit():
		return "unhealthy"
	}
	return ""
}

// handBack returns an item whose run does not begin. REQUIRES: mu.
func (w *Worker) handBack(r *run, reason string) {
	w.table.setState(r, returning)
	w.reports.add(w.reports.of(r, wire.Report{Event: wire.ReportRelease, Reason: reason}))
}

// of returns a report of a run. One that is not about the start says that the run has
// started, unless it hands the item back.
func (q *reporter) of(r *run, rep wire.Report) *report {
	rep.ID, rep.Token, rep.Worker = r.msg.ID, r.msg.Token, string(q.w.cfg.ID)
	rep.Start = rep.Event != wire.ReportStart && rep.Event != wire.ReportRelease
	return &report{Report: rep, run: r}
}

// settle notes what became of the outcome of a run, if its handler was begun. REQUIRES: mu.
func (w *Worker) settle(r *run, rep *wire.Report, state events.ItemState, err error) {
	if w.cfg.Settled == nil || r.attempt == 0 {
		return
	}
	w.settled = append(w.settled, Settled{ID: r.id, Namespace: w.cfg.Names.InNamespace(), Attempt: r.attempt, Event: rep.Event, Error: rep.Error, State: state, Err: err})
}

// letGo ends a run whose outcome the engine does not want. The engine holds the
// slot of a cancelled run until it hears that the handler is done, so the end
// is reported, and the report is expected to be refused. REQUIRES: mu.
func (w *Worker) letGo(r *run) {
	if r.stop != ErrCancelled && !r.refused {
		w.table.setState(r, gone)
		return
	}
	w.table.setState(r, settling)
	w.reports.add(w.reports.of(r, wire.Report{Event: wire.ReportRelease, Reason: "cancelled"}))
}

// begin starts the handler of a run that has been given a slot. REQUIRES: mu.
func (w *Worker) begin(r *run, now time.Time) {
	item := &RawItem{
		ID: r.id, Namespace: w.cfg.Names.InNamespace(), Type: r.reg.typ, Attempt: events.Attempt(r.msg.Attempt),
		Raw: r.msg.Params, Labels: r.msg.Labels, Trace: r.msg.Trace, MaxResult: int(w.cfg.MaxDocument),
	}
	if err := takeLeft(item, &r.msg.Left); err != nil {
		w.log.Error("what earlier runs left can't be read in full", "item", r.msg.ID, "type", string(r.reg.typ), "err", err)
	}
	if timeout := r.msg.Timeout.Duration; timeout > 0 {
		// Counted from before the engine has heard of the start, so that this worker's own
		// report of a timeout comes before the engine's timer.
		item.Deadline = now.Add(timeout)
	}
	ctx, cancel := context.WithCancelCause(w.base)
	r.cancel, r.attempt = cancel, item.Attempt
	if r.stop != nil {
		cancel(r.stop)
	}
	w.table.setState(r, running)
	w.handlers.Add(1)
	w.goroutines.run(execution{w, ctx, r, item})
	w.receiver.begun(r)
}

// exited is the outcome of a handler that does not return.
var exited = Outcome{Err: errors.New("the handler ended its goroutine (runtime.Goexit)"), Code: events.FailPanic, Retryable: true}

// execute runs the handler and reports what came of it.
func (w *Worker) execute(ctx context.Context, r *run, item *RawItem) {
	defer w.handlers.Done()
	item.Sink, item.OnOutput, item.OnMeasure = w.runner.logSink(item), w.runner.outputSink(r), w.health.outside.measure
	began := time.Now()
	if !item.Deadline.IsZero() {
		var done context.CancelFunc
		ctx, done = context.WithDeadlineCause(ctx, item.Deadline, ErrTimeout)
		defer done()
	}
	r.line.connect(ctx, item)
	out := exited
	defer func() {
		rep := outcomeReport(out, context.Cause(ctx))
		w.runner.logFailure(r, item, &rep, context.Cause(ctx), time.Since(began))
		w.ended(r, rep)
	}()
	out = w.runner.traced(ctx, r, item)
}

// ended reports the outcome of a handler, or lets go of its run.
func (w *Worker) ended(r *run, rep wire.Report) {
	w.mu.Lock()
	defer w.unlock()
	r.cancel(nil)
	switch {
	case r.gaveUp:
		w.settle(r, &rep, events.StateNone, ErrAbandoned)
		w.table.setState(r, gone) // the lease decides
	case r.letGo:
		w.settle(r, &rep, events.StateNone, cmp.Or(r.stop, ErrLeaseLost))
		r.attempt = 0 // that was it
		w.letGo(r)
	default:
		w.table.setState(r, settling)
		outcome := w.reports.of(r, rep)
		if p := r.line.last(outcome); p != nil {
			w.reports.add(p, outcome)
		} else {
			w.reports.add(outcome)
		}
	}
	w.noteDrained()
}

// outcomeReport returns the report of an outcome under the cause, if any, with
// which the handler's context ended.
func outcomeReport(out Outcome, cause error) wire.Report {
	switch {
	case out.Err == nil && out.report != nil:
		return *out.report
	case out.Err == nil:
		return wire.Report{Event: wire.ReportComplete, Result: out.Result}
	case cause == ErrShutdown:
		return wire.Report{Event: wire.ReportRelease, Reason: "shutdown"}
	case cause == ErrLeaseLost:
		return wire.Report{Event: wire.ReportRelease, Reason: "lease_lost"}
	}
	rep := wire.Report{
		Event: wire.ReportFail, Error: events.CutText(out.Err.Error(), events.MaxErrorText),
		Code: events.CutText(out.Code, events.MaxNameLen), RetryAfter: events.DurationOf(min(out.RetryAfter, events.MaxDelay)),
	}
	if !out.Retryable {
		rep.Retryable = new(bool)
	}
	return rep
}

// endRun ends a run's context, now or as soon as it has one. letGo: the engine
// does not want to hear of it again. REQUIRES: mu.
func (w *Worker) endRun(r *run, cause error, letGo bool) {
	r.letGo = r.letGo || letGo
	if r.stop != nil {
		return
	}
	r.stop = cause
	if cause == ErrLeaseLost {
		w.stats.LeasesLost++
	}
	if r.cancel != nil {
		r.cancel(cause)
	}
	if r.state == held && r.letGo {
		w.letGoHeld(r)
	}
}
