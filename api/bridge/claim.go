package bridge

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/pull"
	"github.com/streamwright/streamwright/wire"
)

// claim claims and starts runs for their worker, and returns those that were
// granted. It waits for the engine even when the client has gone, since what is
// granted must be handed back then.
func (b *Bridge) claim(s *session, taken []*run) (granted []*run, err error) {
	reports := make([]wire.Report, len(taken))
	for i, r := range taken {
		reports[i] = wire.Report{ID: r.id, Token: r.token, Worker: s.id, Session: s.reg.Session, Event: wire.ReportClaim, Start: true, Attempt: r.item.Attempt}
	}
	ctx, cancel := context.WithTimeout(b.ctx, callTimeout)
	defer cancel()
	var replies []wire.Reported
	err = b.call(ctx, wire.APIReport, reports, &replies)
	b.mu.Lock()
	defer b.unlock()
	if err != nil || len(replies) != len(taken) {
		for _, r := range taken {
			b.release(s, r, "no_answer") // whether it was claimed or not
		}
		return nil, err
	}
	for i, r := range taken {
		reply := &replies[i]
		if reply.Error != nil {
			b.claimRefused(s, r, reply.Error)
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

// claimRefused lets go of a run whose claim was refused. REQUIRES: mu.
func (b *Bridge) claimRefused(s *session, r *run, e *wire.Error) {
	s.refused(e, time.Now())
	switch {
	case pull.Transient(e.Code), e.Code == events.CodeUnknownWorker, e.Code == events.CodeWorkerIDInUse:
		b.release(s, r, string(e.Code)) // not the item's fault
	default:
		b.finish(s, r)
	}
}

// refused notes what the refusal of a claim says of the worker. REQUIRES: mu.
func (s *session) refused(e *wire.Error, now time.Time) {
	switch e.Code {
	case events.CodeUnknownWorker, events.CodeWorkerIDInUse:
		s.registered = false // the answer to the next registration says what follows
	case events.CodeDraining:
		s.draining = true
	case events.CodeUnhealthy:
		s.status, s.reason = wire.WorkerUnhealthy, e.Message
	case events.CodeCircuitOpen:
		if e.RetryAfterMS > 0 {
			s.benched = later(s.benched, now.Add(min(time.Duration(e.RetryAfterMS)*time.Millisecond, pull.MaxBench)))
		}
	}
}
