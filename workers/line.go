package workers

import (
	"context"
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/standing"
	"github.com/streamwright/streamwright/wire"
)

// line carries what a run has to tell before its end.
type line struct {
	w      *Worker
	run    *run
	saving chan struct{} // holds one while something that the handler waits for is on its way

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
	return r.Event == wire.ReportProgress || r.Event == wire.ReportCheckpoint || r.Event == wire.ReportToken || r.Event == wire.ReportStart
}

// connect lets the handler report from its run. ctx is the run's.
func (l *line) connect(ctx context.Context, item *RawItem) {
	l.saving = make(chan struct{}, 1)
	item.OnProgress = func(percent int, message string) {
		l.w.mu.Lock()
		defer l.w.unlock()
		if l.run.state != running || l.run.letGo {
			return
		}
		l.latest = &progress{percent, message}
		l.tell(time.Now())
	}
	item.OnCheckpoint = func(call context.Context, doc json.RawMessage) error {
		return l.record(ctx, call, wire.Report{Event: wire.ReportCheckpoint, ReportFlow: wire.ReportFlow{Checkpoint: doc}})
	}
	item.OnToken = func(call context.Context, t wire.WaitToken) error {
		return l.record(ctx, call, wire.Report{Event: wire.ReportToken, ReportFlow: wire.ReportFlow{WaitToken: &t}})
	}
}

// tell reports the latest progress if it is time. REQUIRES: mu.
func (l *line) tell(now time.Time) {
	switch {
	case l.latest == nil || l.telling || l.run.state != running:
		return
	case *l.latest == l.told:
		l.latest = nil
		return
	case now.Before(l.tellAt) && (l.latest.percent < 100 || l.told.percent == 100):
		l.w.clock.dueBy(l.tellAt)
		return
	}
	l.telling, l.tellAt = true, now.Add(ProgressEvery)
	l.w.reports.add(l.progress())
}

// progress returns a report of the latest progress, which is then told.
// REQUIRES: mu; there is some.
func (l *line) progress() *report {
	p := *l.latest
	l.latest, l.told = nil, p
	return l.w.reports.of(l.run, wire.Report{Event: wire.ReportProgress, ReportFlow: wire.ReportFlow{Percent: p.percent, Message: p.message}})
}

// last returns the progress to report before the run's outcome, if it was held back and
// the outcome doesn't say it all; else nil. REQUIRES: mu.
func (l *line) last(outcome *report) *report {
	if l.latest == nil || *l.latest == l.told || outcome.Event == wire.ReportComplete {
		return nil
	}
	p := l.progress()
	p.last = true
	return p
}

// record reports a checkpoint or a token and waits for the answer, until the run's context or
// the call's ends. One at a time: a later one must not be overtaken by an earlier
// one that is asked again.
func (l *line) record(run, call context.Context, what wire.Report) error {
	select {
	case l.saving <- struct{}{}:
	case <-run.Done():
		return context.Cause(run)
	case <-call.Done():
		return context.Cause(call)
	}
	rep := l.w.reports.of(l.run, what)
	rep.saved = make(chan error, 1)
	l.w.reports.add(rep)
	var cause error
	select {
	case err := <-rep.saved:
		return err
	case <-run.Done():
		cause = context.Cause(run)
	case <-call.Done():
		cause = context.Cause(call)
	}
	l.w.mu.Lock()
	rep.given = true
	l.w.mu.Unlock()
	return cause
}

// drop forgets a mid-run report of a run that has ended, and a checkpoint or a token that
// nobody waits for any more. It reports whether it dropped rep. REQUIRES: mu.
func (l *line) drop(rep *report) bool {
	if !rep.midRun() || !rep.given && (l.run.state == running || rep.last && l.run.state == settling) {
		return false
	}
	l.settle(rep, ErrLeaseLost)
	return true
}

// settle notes the end of a report from the middle of the run. REQUIRES: mu.
func (l *line) settle(rep *report, err error) {
	if rep.saved != nil {
		rep.saved <- err
		<-l.saving
		return
	}
	if !rep.last && rep.Event == wire.ReportProgress {
		l.telling = false
		l.tell(time.Now())
	}
}

// answered acts on the definitive answer to progress, a checkpoint or a token. REQUIRES: mu.
func (l *line) answered(rep *report, reply *wire.Reported, code events.Code) {
	r := l.run
	var err error
	switch {
	case code == "":
	case standing.Over(code):
		// The run does not count any more: it was cancelled, has timed out, or
		// another has its item. The engine may still count its slot.
		if err = ErrLeaseLost; reply.State == events.StateCancelled {
			err = ErrCancelled
		}
		if r.state == running && r.stop == nil {
			r.refused = true
			l.w.endRun(r, err, true)
		}
	default:
		err = reply.Error.Err()
		l.w.log.Warn("the engine refused a report from the middle of a run", "item", r.msg.ID, "type", string(r.reg.typ), "event", rep.Event, "err", reply.Error)
	}
	l.settle(rep, err)
}
