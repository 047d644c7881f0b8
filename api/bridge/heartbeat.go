package bridge

import (
	"context"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Heartbeat passes on that a worker lives, and which runs it names: the engine renews the
// leases of these, and of no others.
func (b *Bridge) Heartbeat(ctx context.Context, worker string, req wire.WorkerHeartbeat) (wire.WorkerOrders, error) {
	if len(req.InFlight) > MaxInFlight {
		return wire.WorkerOrders{}, events.Refuse(events.CodeTooLarge, "the heartbeat names %d runs: at most %d", len(req.InFlight), MaxInFlight)
	}
	s, err := b.enter(ctx, worker, req.Session)
	if err != nil {
		return wire.WorkerOrders{}, err
	}
	defer b.leave(s)
	named, lost, unknown := s.renewRuns(req.InFlight)
	asked := time.Now()
	var reply wire.HeartbeatReply
	if err := b.call(ctx, wire.APIHeartbeat, wire.Heartbeat{Register: s.reg, InFlight: named, Health: req.Health}, &reply); err != nil {
		return wire.WorkerOrders{}, s.idTaken(err)
	}
	b.mu.Lock()
	defer b.unlock()
	s.Beaten(&reply, asked)
	s.fence = max(s.fence, reply.Fence)
	out := wire.WorkerOrders{ShouldDrain: s.Draining, Heartbeat: events.DurationOf(s.Every), Lost: lost}
	if !s.well() {
		out.Status, out.Reason = s.Status, s.Reason
	}
	for _, ref := range named {
		r := s.runs[ref.Token]
		over := slices.Contains(reply.Cancel, ref)
		switch {
		case r == nil && over:
			out.Lost = append(out.Lost, ref)
		case r == nil && unknown[ref.Token] && !s.closed && s.free() > 0:
			s.adopt(ref.ID, ref.Token, asked)
		case r != nil && (over || r.cancelled):
			r.cancelled = true
			out.Cancel = append(out.Cancel, ref)
		}
	}
	s.polling.poke()
	return out, nil
}

// renewRuns notes that the named runs go on. It returns the runs that may be the worker's,
// the runs that it has lost, and which of the former this bridge does not know.
func (s *session) renewRuns(refs []wire.RunRef) (named, lost []wire.RunRef, unknown map[string]bool) {
	now := time.Now()
	s.b.mu.Lock()
	defer s.b.unlock()
	s.lapse(now)
	said := make(map[string]bool, len(refs))
	unknown = map[string]bool{}
	for _, ref := range refs {
		r := s.runs[ref.Token]
		switch {
		case said[ref.Token]:
			continue
		case r != nil && r.id == ref.ID:
			s.named(r)
			r.renewed = now
		case r != nil, !s.resumed:
			lost = append(lost, ref)
			continue
		default:
			unknown[ref.Token] = true
		}
		said[ref.Token] = true
		named = append(named, ref)
	}
	for token, r := range s.runs {
		if r.cancelled && !said[token] {
			s.finish(r) // the worker has stopped it
		}
	}
	return named, lost, unknown
}
