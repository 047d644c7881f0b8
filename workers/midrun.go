package workers

import (
	"context"
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// line is what a run has to tell before its end.
type line struct {
	saving chan struct{} // holds a token while a checkpoint is on its way

	// Guarded by Worker.mu.
	latest  *progress // not told yet
	told    progress  // last told
	telling bool      // one is on its way
	tellAt  time.Time // the earliest time for the next
}

type progress struct {
	percent int
	message string
}

// midRun reports whether a report comes from the middle of a run, whose end it
// is not.
func (r *report) midRun() bool {
	return r.Event == wire.ReportProgress || r.Event == wire.ReportCheckpoint
}

// connectLine lets the handler report from its run. ctx is the run's.
func (w *Worker) connectLine(ctx context.Context, r *run, item *RawItem) {
	r.line.saving = make(chan struct{}, 1)
	item.OnProgress = func(percent int, message string) {
		w.mu.Lock()
		defer w.unlock()
		if r.state != running || r.letGo {
			return
		}
		r.line.latest = &progress{percent, message}
		w.tellProgress(r, time.Now())
	}
	item.OnCheckpoint = func(call context.Context, doc json.RawMessage) error {
		return w.saveCheckpoint(ctx, call, r, doc)
	}
}

// tellProgress reports the latest progress if it is time. REQUIRES: mu.
func (w *Worker) tellProgress(r *run, now time.Time) {
	l := &r.line
	switch {
	case l.latest == nil || l.telling || r.state != running:
		return
	case *l.latest == l.told:
		l.latest = nil
		return
	case now.Before(l.tellAt) && (l.latest.percent < 100 || l.told.percent == 100):
		w.dueBy(l.tellAt)
		return
	}
	l.telling, l.tellAt = true, now.Add(ProgressEvery)
	w.reports.add(w.progressReport(r))
}

// progressReport is a report of the latest progress, which is then told.
// REQUIRES: mu; there is some.
func (w *Worker) progressReport(r *run) *report {
	p := *r.line.latest
	r.line.latest, r.line.told = nil, p
	return w.newReport(r, wire.Report{Event: wire.ReportProgress, ReportFlow: wire.ReportFlow{Percent: p.percent, Message: p.message}})
}

// lastWords is what to report at a run's end: its outcome, and before it the
// progress that was held back, unless the outcome says it all. REQUIRES: mu.
func (w *Worker) lastWords(r *run, outcome *report) []*report {
	if l := r.line.latest; l == nil || *l == r.line.told || outcome.Event == wire.ReportComplete {
		return []*report{outcome}
	}
	p := w.progressReport(r)
	p.last = true
	return []*report{p, outcome}
}

// saveCheckpoint reports a checkpoint and waits for the answer, until the run's
// context or the call's ends. One at a time: a later one must not be overtaken
// by an earlier one that is asked again.
func (w *Worker) saveCheckpoint(run, call context.Context, r *run, doc json.RawMessage) error {
	select {
	case r.line.saving <- struct{}{}:
	case <-run.Done():
		return context.Cause(run)
	case <-call.Done():
		return context.Cause(call)
	}
	rep := w.newReport(r, wire.Report{Event: wire.ReportCheckpoint, ReportFlow: wire.ReportFlow{Checkpoint: doc}})
	rep.saved = make(chan error, 1)
	w.reports.add(rep)
	var cause error
	select {
	case err := <-rep.saved:
		return err
	case <-run.Done():
		cause = context.Cause(run)
	case <-call.Done():
		cause = context.Cause(call)
	}
	w.mu.Lock()
	rep.given = true
	w.mu.Unlock()
	return cause
}

// dropMidRun forgets a report from the middle of a run that has come to its
// end, and a checkpoint that nobody waits for any more. REQUIRES: mu.
func (w *Worker) dropMidRun(rep *report) bool {
	r := rep.run
	if !rep.midRun() || !rep.given && (r.state == running || rep.last && r.state == settling) {
		return false
	}
	w.settleMidRun(rep, ErrLeaseLost)
	return true
}

// settleMidRun notes the end of a report from the middle of a run. REQUIRES:
// mu.
func (w *Worker) settleMidRun(rep *report, err error) {
	l := &rep.run.line
	if rep.saved != nil {
		rep.saved <- err
		<-l.saving
		return
	}
	if !rep.last {
		l.telling = false
		w.tellProgress(rep.run, time.Now())
	}
}

// midRunAnswered acts on the definitive answer to progress or a checkpoint.
// REQUIRES: mu.
func (w *Worker) midRunAnswered(rep *report, reply *wire.Reported, code events.Code) {
	r := rep.run
	var err error
	switch code {
	case "":
	case events.CodeStaleToken, events.CodeWrongState, events.CodeWrongAttempt, events.CodeWrongWorker, events.CodeNotFound:
		// The run does not count any more: it was cancelled, has timed out, or
		// another has its item. The engine may still count its slot.
		err = ErrLeaseLost
		if r.state == running && r.stop == nil {
			r.refused = true
			w.endRun(r, ErrLeaseLost, true)
		}
	default:
		err = reply.Error.Err()
		w.log.Warn("the engine refused a report from the middle of a run", "item", r.rawID, "type", string(r.reg.typ), "event", rep.Event, "err", reply.Error)
	}
	w.settleMidRun(rep, err)
}

// failInstead fails an item whose outcome was refused for what it says, not
// for what has become of the item; it reports whether it does. REQUIRES: mu.
func (w *Worker) failInstead(rep *report, reply *wire.Reported, code events.Code) bool {
	fail := FailBadSpawn
	switch code {
	case events.CodeStaleToken, events.CodeWrongState, events.CodeWrongAttempt, events.CodeWrongWorker:
		return false
	}
	switch rep.Event {
	case wire.ReportSpawn, wire.ReportSnooze:
	case wire.ReportComplete:
		if fail = FailBadResult; code == events.CodeNotFound {
			return false
		}
	default:
		return false
	}
	r := rep.run
	w.log.Warn("the engine refused an outcome; the item fails", "item", r.rawID, "type", string(r.reg.typ), "event", rep.Event, "err", reply.Error)
	w.reports.add(w.newReport(r, wire.Report{Event: wire.ReportFail, Error: reply.Error.Error(), Code: fail, Retryable: new(bool)}))
	return true
}
