package bridge

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/standing"
	"github.com/streamwright/streamwright/wire"
)

// Report passes a worker's reports on, and frees the slots of the runs whose end the engine
// has answered. Each is answered on its own, in order; one whose answer is "unavailable" is
// to be sent again.
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
		if r.Worker != "" && r.Worker != s.id {
			p.replies[i].Error = &wire.Error{Code: events.CodeWrongWorker, Message: "the report is of worker " + r.Worker + ": leave the field out, it is that of the session"}
			continue
		}
		r.Worker, r.Session = s.id, s.reg.Session
		r.Start = r.Event != wire.ReportStart && r.Event != wire.ReportRelease // who reports on a run has started it
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
		case e != nil && standing.Transient(e.Code):
		case r == nil:
		case e == nil && !endsRun(rep.Event):
			r.started = true
		case e != nil && rep.Event == wire.ReportSpawn && e.Code == events.CodeNotFound:
			// What a child is to come after: the worker reports a failure in place of the spawn.
		case endsRun(rep.Event) && (e == nil || standing.Over(e.Code)):
			s.finish(r)
			if rep.Event == wire.ReportRelease {
				s.handedBack()
			}
		case e != nil && standing.Over(e.Code):
			r.cancelled = true // the worker is to stop it, and say so or leave it out of its heartbeats
		}
	}
}

// start reports the starts of those runs that need it, and returns the runs that the worker
// may run. It waits for the engine even when the client has gone, since what has started is
// handed back then.
func (s *session) start(taken []handed) (granted []handed, err error) {
	var reports []wire.Report
	for _, h := range taken {
		if h.start {
			reports = append(reports, wire.Report{ID: h.run.id, Token: h.run.token, Worker: s.id, Session: s.reg.Session, Event: wire.ReportStart})
		}
	}
	if len(reports) == 0 {
		return taken, nil
	}
	ctx, cancel := context.WithTimeout(s.b.ctx, callTimeout)
	defer cancel()
	replies, err := s.b.report(ctx, reports)
	s.b.mu.Lock()
	defer s.b.unlock()
	for _, h := range taken {
		if h.start {
			if err != nil {
				s.release(h.run, "no_answer") // whether it has started or not
				continue
			}
			reply := &replies[0]
			replies = replies[1:]
			if reply.Error != nil {
				s.startRefused(h.run, reply.Error)
				continue
			}
			h.item.Deadline = reply.Deadline
		}
		granted = append(granted, h)
	}
	return granted, err
}

// startRefused lets go of a run whose start was refused. REQUIRES: mu.
func (s *session) startRefused(r *run, e *wire.Error) {
	switch {
	case e.Code == events.CodeUnknownWorker, e.Code == events.CodeWorkerIDInUse:
		s.Registered = false // the answer to the next registration says what follows
		s.release(r, string(e.Code))
	case standing.Transient(e.Code):
		s.release(r, string(e.Code))
	default:
		s.finish(r)
	}
}

// endsRun reports whether a worker that says so has let go of the run.
func endsRun(event string) bool {
	switch event {
	case wire.ReportComplete, wire.ReportFail, wire.ReportRelease, wire.ReportSnooze, wire.ReportSpawn, wire.ReportWait:
		return true
	}
	return false
}
