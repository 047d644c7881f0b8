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
	replies := make([]wire.Reported, len(reports))
	todo := b.store(ctx, reports, replies, b.check(s, reports, replies))
	for try := 0; len(todo) > 0; try++ {
		if err := b.pass(ctx, s, reports, replies, todo); err != nil {
			return nil, err
		}
		if todo = b.answered(s, reports, replies, todo, try == 0); len(todo) > 0 {
			if err := b.renew(ctx, s); err != nil {
				return nil, err
			}
		}
	}
	return replies, nil
}

// check makes reports the worker's own, answers those that can't be, and returns
// which are to be passed on.
func (b *Bridge) check(s *session, reports []wire.Report, replies []wire.Reported) (todo []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.lapse(time.Now())
	for i := range reports {
		r := &reports[i]
		run := s.runs[r.Token]
		b.named(s, run)
		switch {
		case r.Worker != "" && r.Worker != s.id:
			replies[i].Error = &wire.Error{Code: events.CodeWrongWorker, Message: "the report is of worker " + r.Worker + ": leave the field out, it is that of the session"}
			continue
		case r.Event == wire.ReportClaim && run == nil && !s.resumed:
			// What another worker pulled is that one's to claim.
			replies[i].Error = &wire.Error{Code: events.CodeStaleToken, Message: "no poll of this worker has brought this token, or its lease is over: leave the item alone, and poll again"}
			continue
		}
		r.Worker, r.Session = s.id, s.reg.Session
		todo = append(todo, i)
	}
	return todo
}

// pass asks the engine about some of the reports.
func (b *Bridge) pass(ctx context.Context, s *session, reports []wire.Report, replies []wire.Reported, todo []int) error {
	some := make([]wire.Report, len(todo))
	for i, n := range todo {
		some[i] = reports[n]
	}
	var answers []wire.Reported
	if err := b.call(ctx, wire.APIReport, some, &answers); err != nil {
		return err
	}
	if len(answers) != len(some) {
		return events.Refuse(events.CodeUnavailable, "the engine answered %d of %d reports: send them again", len(answers), len(some))
	}
	for i, n := range todo {
		replies[n] = answers[i]
	}
	return nil
}

// answered acts on the engine's answers, and returns the claims to be passed on
// once more, since the engine did not know the worker.
func (b *Bridge) answered(s *session, reports []wire.Report, replies []wire.Reported, todo []int, again bool) (rest []int) {
	b.mu.Lock()
	defer b.unlock()
	for _, i := range todo {
		rep, e := &reports[i], replies[i].Error
		r := s.runs[rep.Token]
		if r != nil && r.id != rep.ID {
			r = nil
		}
		switch {
		case e != nil && e.Code == events.CodeUnknownWorker && again:
			s.registered = false
			rest = append(rest, i)
		case e != nil && pull.Transient(e.Code):
		case rep.Event == wire.ReportClaim:
			b.claimAnswered(s, r, rep, e)
		case r == nil:
		case endsRun(rep.Event) && (e == nil || pull.Over(e.Code)):
			b.finish(s, r)
		case e != nil && pull.Over(e.Code):
			r.cancelled = true // the worker is to stop it, and say so or be silent of it
		}
	}
	return rest
}

// claimAnswered acts on the answer to a claim. REQUIRES: mu.
func (b *Bridge) claimAnswered(s *session, r *run, rep *wire.Report, e *wire.Error) {
	switch {
	case e != nil && r != nil:
		b.claimRefused(s, r, e)
	case e != nil:
		s.refused(e, time.Now())
	case r != nil:
		r.claimed = true
	case !s.closed: // granted before the engine's restart, and asked again
		s.runs[rep.Token] = &run{id: rep.ID, token: rep.Token, lease: s.longest, renewed: time.Now(), claimed: true}
	}
}

// endsRun reports whether a worker that says so has let go of the run.
func endsRun(event string) bool {
	switch event {
	case wire.ReportComplete, wire.ReportFail, wire.ReportRelease, wire.ReportSnooze, wire.ReportSpawn:
		return true
	}
	return false
}
