package bridge

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/pull"
	"github.com/streamwright/streamwright/wire"
)

// Report passes a worker's reports on, and lets go of the messages of those runs
// whose end the engine has answered. Each is answered on its own, in order; one
// whose answer is "unavailable" is to be sent again.
func (b *Bridge) Report(ctx context.Context, worker, token string, reports []wire.Report) ([]wire.Reported, error) {
	if len(reports) > MaxReports {
		return nil, events.Refuse(events.CodeTooLarge, "the request has %d reports: send at most %d at once", len(reports), MaxReports)
	}
	s, err := b.enter(ctx, worker, token)
	if err != nil {
		return nil, err
	}
	defer b.leave(s)
	p := &passage{s: s, reports: reports, replies: make([]wire.Reported, len(reports))}
	p.check()
	p.storeLarge(ctx)
	for try := 0; len(p.todo) > 0; try++ {
		if err := p.pass(ctx); err != nil {
			return nil, err
		}
		if p.answered(try == 0); len(p.todo) > 0 {
			if err := s.renew(ctx); err != nil {
				return nil, err
			}
		}
	}
	return p.replies, nil
}

// passage is a request of reports on its way to the engine.
type passage struct {
	s       *session
	reports []wire.Report
	replies []wire.Reported
	todo    []int // the reports that are to be passed on
}

// check makes the reports the worker's own, and answers the reports that can't be.
func (p *passage) check() {
	s := p.s
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.lapse(time.Now())
	for i := range p.reports {
		r := &p.reports[i]
		run := s.runs[r.Token]
		s.named(run)
		switch {
		case r.Worker != "" && r.Worker != s.id:
			p.replies[i].Error = &wire.Error{Code: events.CodeWrongWorker, Message: "the report is of worker " + r.Worker + ": leave the field out, it is that of the session"}
			continue
		case r.Event == wire.ReportClaim && run == nil && !s.resumed:
			// Only the worker that pulled an item may claim it.
			p.replies[i].Error = &wire.Error{Code: events.CodeStaleToken, Message: "no poll of this worker has brought this token, or its lease is over: leave the item alone, and poll again"}
			continue
		}
		r.Worker, r.Session = s.id, s.reg.Session
		p.todo = append(p.todo, i)
	}
}

// pass asks the engine about the reports that are left.
func (p *passage) pass(ctx context.Context) error {
	some := make([]wire.Report, len(p.todo))
	for i, n := range p.todo {
		some[i] = p.reports[n]
	}
	answers, err := p.s.b.report(ctx, some)
	if err != nil {
		return err
	}
	for i, n := range p.todo {
		p.replies[n] = answers[i]
	}
	return nil
}

// answered acts on the engine's answers. It leaves the reports to be passed on once
// more, since the engine did not know the worker.
func (p *passage) answered(again bool) {
	s := p.s
	s.b.mu.Lock()
	defer s.b.unlock()
	asked := p.todo
	p.todo = nil
	for _, i := range asked {
		rep, e := &p.reports[i], p.replies[i].Error
		r := s.runs[rep.Token]
		if r != nil && r.id != rep.ID {
			r = nil
		}
		switch {
		case e != nil && e.Code == events.CodeUnknownWorker && again:
			s.Registered = false
			p.todo = append(p.todo, i)
		case e != nil && pull.Transient(e.Code):
		case rep.Event == wire.ReportClaim:
			s.claimAnswered(r, rep, e)
		case r == nil:
		case endsRun(rep.Event) && (e == nil || pull.Over(e.Code)):
			s.finish(r)
		case e != nil && pull.Over(e.Code):
			r.cancelled = true // the worker is to stop it, and say so or leave it out of its heartbeats
		}
	}
}

// claimAnswered acts on the answer to a claim. REQUIRES: mu.
func (s *session) claimAnswered(r *run, rep *wire.Report, e *wire.Error) {
	switch {
	case e != nil:
		s.claimRefused(r, e)
	case r != nil:
		r.claimed = true
	case !s.closed: // granted before the engine's restart, and asked again
		s.adopt(rep.ID, rep.Token, time.Now())
	}
}

// claimRefused notes what the refusal of a claim says of the worker, and lets go of
// the run; nil: it is not known here. REQUIRES: mu.
func (s *session) claimRefused(r *run, e *wire.Error) {
	if bench := s.Refused(e); bench > 0 {
		s.benched = later(s.benched, time.Now().Add(bench))
	}
	switch {
	case r == nil:
	case pull.Transient(e.Code), e.Code == events.CodeUnknownWorker, e.Code == events.CodeWorkerIDInUse:
		s.release(r, string(e.Code)) // not the item's fault
	default:
		s.finish(r)
	}
}

// claim claims and starts runs for their worker, and returns the granted ones. It
// waits for the engine even when the client has gone, since granted runs must be
// handed back then.
func (s *session) claim(taken []*run) (granted []*run, err error) {
	reports := make([]wire.Report, len(taken))
	for i, r := range taken {
		reports[i] = wire.Report{ID: r.id, Token: r.token, Worker: s.id, Session: s.reg.Session, Event: wire.ReportClaim, Start: true, Attempt: r.item.Attempt}
	}
	ctx, cancel := context.WithTimeout(s.b.ctx, callTimeout)
	defer cancel()
	replies, err := s.b.report(ctx, reports)
	s.b.mu.Lock()
	defer s.b.unlock()
	if err != nil {
		for _, r := range taken {
			s.release(r, "no_answer") // whether it was claimed or not
		}
		return nil, err
	}
	for i, r := range taken {
		reply := &replies[i]
		if reply.Error != nil {
			s.claimRefused(r, reply.Error)
			continue
		}
		r.claimed = true
		it := r.item
		it.Attempt, it.Deadline, it.Checkpoint, it.Continuation = max(reply.Attempt, it.Attempt), reply.Deadline, reply.Checkpoint, reply.Continuation
		if reply.TimeoutMS > 0 {
			it.TimeoutMS = reply.TimeoutMS
		}
		granted = append(granted, r)
	}
	return granted, nil
}

// endsRun reports whether a worker that says so has let go of the run.
func endsRun(event string) bool {
	switch event {
	case wire.ReportComplete, wire.ReportFail, wire.ReportRelease, wire.ReportSnooze, wire.ReportSpawn:
		return true
	}
	return false
}
