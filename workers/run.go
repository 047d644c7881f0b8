package workers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/pull"
	"github.com/streamwright/streamwright/wire"
)

// runState is the stage of a pulled message; see the package comment.
type runState uint8

const (
	held      runState = iota
	claiming           // holds a slot
	running            // holds a slot
	settling           // outcome reported, not answered
	returning          // handed back unclaimed, not answered
	gone               // not counted
	numRunStates
)

// slowRun is the mean run time to begin with, and after an item had to wait:
// long enough for nothing to be prefetched.
const slowRun = time.Second

// run is one dispatch of one item, from the pull to the ack.
type run struct {
	// Immutable.
	msg      pull.Message
	reg      *registration
	received time.Time
	assigned bool              // it came to the inbox: there is no message to ack or renew
	labels   map[string]string // of an assigned item

	// Guarded by Worker.mu.
	state   runState
	renewAt time.Time               // next renewal of the lease
	contact time.Time               // last renewal that may have arrived
	cancel  context.CancelCauseFunc // set while running
	stop    error                   // why its context was, or is to be, ended
	letGo   bool                    // the engine no longer wants to hear of it
	refused bool                    // it said so in answer to a report from the middle of the run
	line    line                    // progress and checkpoints
	gaveUp  bool                    // Stop no longer waits for it
	attempt events.Attempt          // as its handler knows it; 0: none was begun
}

// parseRun reads a dispatched message. It finds the type's handler in types.
func parseRun(m *nats.Msg, types map[events.Type]*registration, now time.Time) (*run, error) {
	msg, err := pull.Parse(m)
	if err != nil {
		return nil, err
	}
	reg := types[events.Type(msg.Type)]
	if reg == nil {
		return nil, fmt.Errorf("item %s is of type %q, which this worker has no handler for", msg.ID, msg.Type)
	}
	return &run{msg: msg, reg: reg, received: now, contact: now}, nil
}

// lapsed reports whether the lease has run out if it was never renewed.
func (r *run) lapsed(now time.Time) bool { return now.Sub(r.received) >= r.msg.Lease }

// timeout returns the attempt's time limit; 0: none is known.
func (r *run) timeout(reply *wire.Reported) time.Duration {
	if reply.TimeoutMS > 0 {
		return time.Duration(reply.TimeoutMS) * time.Millisecond
	}
	return r.msg.Timeout
}

// holdUntil returns the time at which a held item is handed back.
func (r *run) holdUntil() time.Time { return r.received.Add(min(HoldLimit, r.msg.Lease/4)) }

// runTable holds all runs, and counts them. Guarded by Worker.mu.
type runTable struct {
	concurrency int
	prefetch    int
	runs        map[string]*run // by token: everything pulled and not gone
	held        []*run          // waiting for a slot, oldest first
	counts      [numRunStates]int
	meanRun     time.Duration // moving average of handlers' run times
}

// setState moves r and keeps the counts. REQUIRES: Worker.mu.
func (t *runTable) setState(r *run, s runState) {
	t.count(r, -1)
	r.state = s
	if s == gone {
		delete(t.runs, r.msg.Token)
		return
	}
	t.count(r, 1)
}

func (t *runTable) count(r *run, by int) {
	t.counts[r.state] += by
	switch r.state {
	case held:
		r.reg.held += by
	case claiming, running:
		r.reg.inSlots += by
	}
}

// busy returns the number of slots taken. REQUIRES: mu.
func (t *runTable) busy() int { return t.counts[claiming] + t.counts[running] }

// room returns how many more items may be claimed. Outcomes under way do not hold a
// slot, but no more of them than slots may pile up. REQUIRES: mu.
func (t *runTable) room() int {
	n := t.concurrency
	return min(n-t.busy(), 2*n-t.busy()-t.counts[settling])
}

// allowance returns how many items may be held. REQUIRES: mu.
func (t *runTable) allowance() int {
	if t.meanRun >= PrefetchBelow {
		return 0
	}
	return t.prefetch
}

// arrive takes in a dispatched message. REQUIRES: mu.
func (w *Worker) arrive(msg *nats.Msg) {
	now := time.Now()
	r, err := parseRun(msg, w.types, now)
	if err != nil {
		w.log.Error("a dispatched message can't be run and is dropped", "subject", msg.Subject, "err", err)
		w.ack(msg.Reply)
		return
	}
	if w.table.runs[r.msg.Token] != nil {
		w.log.Warn("a dispatched message came twice; the second is ignored", "item", r.msg.RawID)
		return
	}
	r.line.w, r.line.run = w, r
	w.table.runs[r.msg.Token] = r
	w.table.count(r, 1)
	if w.phase != phaseActive {
		w.handBack(r, "shutdown")
		return
	}
	if w.health.unfit() {
		w.handBack(r, "unhealthy")
		return
	}
	if w.session.replaced {
		w.handBack(r, "replaced")
		return
	}
	w.table.held = append(w.table.held, r)
	w.admit()
	if r.state == held && len(w.table.held) > w.table.allowance() {
		w.table.held = w.table.held[:len(w.table.held)-1] // r is the last
		w.handBack(r, "no_slot")
		return
	}
	if r.state == held {
		w.clock.dueBy(r.holdUntil())
	}
}

// admit claims held items while there is room. REQUIRES: mu.
func (w *Worker) admit() {
	if len(w.table.held) == 0 {
		return
	}
	rest := w.table.held[:0]
	for i, r := range w.table.held {
		if w.table.room() <= 0 {
			rest = append(rest, w.table.held[i:]...)
			break
		}
		if r.reg.limit > 0 && r.reg.inSlots >= r.reg.limit {
			rest = append(rest, r)
			continue
		}
		w.table.setState(r, claiming)
		w.reports.add(w.reports.of(r, wire.Report{Event: wire.ReportClaim, Start: true, Attempt: r.msg.Attempt}))
	}
	clear(w.table.held[len(rest):])
	w.table.held = rest
}

// handBack returns a message that was never claimed. REQUIRES: mu; r is in no
// list any more.
func (w *Worker) handBack(r *run, reason string) {
	w.table.setState(r, returning)
	w.reports.add(w.reports.of(r, wire.Report{Event: wire.ReportRelease, Reason: reason}))
}

// handBackHeld returns everything that waits for a slot. REQUIRES: mu.
func (w *Worker) handBackHeld(reason string) {
	for _, r := range w.table.held {
		w.handBack(r, reason)
	}
	w.table.held = nil
}

func (q *reporter) of(r *run, rep wire.Report) *report {
	rep.ID, rep.Token, rep.Worker = r.msg.RawID, r.msg.Token, string(q.w.cfg.ID)
	rep.Start = rep.Start || r.assigned && rep.Event != wire.ReportStart && rep.Event != wire.ReportRelease
	return &report{Report: rep, run: r}
}

// ack lets the message with that reply subject go. REQUIRES: mu.
func (w *Worker) ack(reply string) {
	if reply != "" {
		w.publish(reply, "", pull.Ack)
	}
}

// settle notes what became of the outcome of a run, if its handler was begun. REQUIRES: mu.
func (w *Worker) settle(r *run, rep *wire.Report, state events.ItemState, err error) {
	if w.cfg.Settled == nil || r.attempt == 0 {
		return
	}
	w.settled = append(w.settled, Settled{ID: r.msg.ID, Attempt: r.attempt, Event: rep.Event, Error: rep.Error, State: state, Err: err})
}

// finishRun drops a run and its message. REQUIRES: mu.
func (w *Worker) finishRun(r *run) {
	w.table.setState(r, gone)
	w.ack(r.msg.Reply)
}

// letGo ends a run whose outcome the engine does not want. The engine holds the
// slot of a cancelled run until it hears that the handler is done, so the end
// is reported, and the report is expected to be refused. REQUIRES: mu.
func (w *Worker) letGo(r *run) {
	if r.stop != ErrCancelled && !r.refused {
		w.finishRun(r)
		return
	}
	w.table.setState(r, settling)
	w.reports.add(w.reports.of(r, wire.Report{Event: wire.ReportRelease, Reason: "cancelled"}))
}

// granted starts a run whose claim was granted. REQUIRES: mu.
func (w *Worker) granted(r *run, reply *wire.Reported, asked time.Time) {
	switch {
	case r.letGo:
		w.letGo(r)
		return
	case w.phase != phaseActive, w.session.replaced:
		reason := "shutdown"
		if w.session.replaced {
			reason = "replaced"
		}
		w.table.setState(r, settling)
		w.reports.add(w.reports.of(r, wire.Report{Event: wire.ReportRelease, Reason: reason}))
		return
	}
	item := &RawItem{
		ID: r.msg.ID, Type: r.reg.typ, Attempt: events.Attempt(max(reply.Attempt, r.msg.Attempt)),
		Raw: json.RawMessage(r.msg.Params), Trace: r.msg.Trace, MaxResult: int(w.cfg.MaxDocument),
	}
	if err := takeFlow(item, reply); err != nil {
		w.log.Error("a grant can't be read in full", "item", r.msg.RawID, "type", string(r.reg.typ), "err", err)
	}
	if timeout := r.timeout(reply); timeout > 0 {
		// Counted from when the claim was sent, so that this worker's own
		// report of a timeout comes before the engine's timer.
		item.Deadline = asked.Add(timeout)
	}
	ctx, cancel := context.WithCancelCause(w.base)
	r.cancel, r.attempt = cancel, item.Attempt
	if r.stop != nil {
		cancel(r.stop)
	}
	w.table.setState(r, running)
	r.renewAt = r.received.Add(r.msg.Lease / 3)
	w.clock.dueBy(r.renewAt)
	w.handlers.Add(1)
	go w.execute(ctx, r, item)
}

// execute runs the handler and reports what came of it.
func (w *Worker) execute(ctx context.Context, r *run, item *RawItem) {
	defer w.handlers.Done()
	if item.Labels = r.labels; !r.assigned {
		item.Labels = r.msg.Labels()
	}
	item.Sink, item.OnMeasure = w.runner.logSink(item), w.health.outside.measure
	began := time.Now()
	if !item.Deadline.IsZero() {
		var done context.CancelFunc
		ctx, done = context.WithDeadlineCause(ctx, item.Deadline, ErrTimeout)
		defer done()
	}
	r.line.connect(ctx, item)
	out := w.runner.traced(ctx, r, item)
	rep := outcomeReport(out, context.Cause(ctx))
	w.runner.logFailure(r, item, &rep, context.Cause(ctx), time.Since(began))

	w.mu.Lock()
	defer w.unlock()
	r.cancel(nil)
	w.table.meanRun += (time.Since(began) - w.table.meanRun) / 8
	switch {
	case r.gaveUp:
		w.settle(r, &rep, events.StateNone, ErrAbandoned)
		w.table.setState(r, gone) // no ack: the lease decides
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
	w.moreWork()
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
		Code: events.CutText(out.Code, events.MaxNameLen), RetryAfterMS: wire.Millis(min(out.RetryAfter, events.MaxDelay)),
	}
	if !out.Retryable {
		rep.Retryable = new(bool)
	}
	return rep
}

// moreWork uses what a run has left. REQUIRES: mu.
func (w *Worker) moreWork() {
	w.admit()
	w.pulls.refillAll()
	w.noteDrained()
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
}
