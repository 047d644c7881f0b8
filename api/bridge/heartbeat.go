package bridge

import (
	"context"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/pull"
	"github.com/streamwright/streamwright/wire"
)

// Heartbeat passes on that a worker lives, and renews the leases of the runs that it
// names, and of no others.
func (b *Bridge) Heartbeat(ctx context.Context, worker string, req wire.WorkerHeartbeat) (wire.WorkerOrders, error) {
	if len(req.InFlight) > MaxInFlight {
		return wire.WorkerOrders{}, events.Refuse(events.CodeTooLarge, "the heartbeat names %d runs: at most %d", len(req.InFlight), MaxInFlight)
	}
	s, err := b.enter(ctx, worker, req.Session)
	if err != nil {
		return wire.WorkerOrders{}, err
	}
	defer b.leave(s)
	named, lost, unknown := b.renewRuns(s, req.InFlight)
	asked := time.Now()
	var reply wire.HeartbeatReply
	if err := b.call(ctx, wire.APIHeartbeat, wire.Heartbeat{Register: s.reg, InFlight: named, Health: req.Health}, &reply); err != nil {
		return wire.WorkerOrders{}, b.idTaken(s, err) // else the leases are renewed all the same
	}
	b.mu.Lock()
	defer b.unlock()
	s.told = asked
	s.draining = s.draining || reply.ShouldDrain
	s.status, s.reason = reply.Status, reply.Reason
	out := wire.WorkerOrders{ShouldDrain: s.draining, HeartbeatMS: s.heartbeat.Milliseconds(), Lost: lost}
	if !s.well() {
		out.Status, out.Reason = s.status, s.reason
	}
	for _, ref := range named {
		r := s.runs[ref.Token]
		over := slices.Contains(reply.Cancel, ref)
		switch {
		case r == nil && (over || slices.Contains(s.gone, ref.Token)):
			out.Lost = append(out.Lost, ref)
		case r == nil && unknown[ref.Token] && !s.closed && s.free() > 0:
			// It was claimed before the engine's restart; this keeps it.
			s.runs[ref.Token] = &run{id: ref.ID, token: ref.Token, lease: s.longest, renewed: asked, claimed: true}
		case r != nil && (over || r.cancelled):
			r.cancelled = true
			out.Cancel = append(out.Cancel, ref)
		}
	}
	s.poke()
	return out, nil
}

// renewRuns renews the leases of the runs that are named. It returns those that
// may be the worker's, those that are lost to it, and which of the first this
// bridge has never seen.
func (b *Bridge) renewRuns(s *session, refs []wire.RunRef) (named, lost []wire.RunRef, unknown map[string]bool) {
	now := time.Now()
	b.mu.Lock()
	defer b.unlock()
	s.lapse(now)
	said := make(map[string]bool, len(refs))
	for _, ref := range refs {
		r := s.runs[ref.Token]
		switch {
		case said[ref.Token]:
			continue
		case r != nil && r.id == ref.ID:
			b.named(s, r)
			r.renewed = now
			if r.reply != "" {
				b.publish(r.reply, "", pull.Renew)
			}
		case r != nil, !s.resumed, slices.Contains(s.gone, ref.Token):
			lost = append(lost, ref)
			continue
		default:
			if unknown == nil {
				unknown = map[string]bool{}
			}
			unknown[ref.Token] = true
		}
		said[ref.Token] = true
		named = append(named, ref)
	}
	for token, r := range s.runs {
		if r.cancelled && !said[token] {
			b.finish(s, r) // the worker has stopped it
		}
	}
	return named, lost, unknown
}
