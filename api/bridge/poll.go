package bridge

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/standing"
	"github.com/streamwright/streamwright/wire"
)

const (
	// gatherLimit bounds the wait of a poll with items for more.
	gatherLimit = 500 * time.Microsecond
	// leastWait is the shortest wait of a poll: the engine needs time to answer an offer.
	leastWait = 100 * time.Millisecond
)

// poll is one open poll. It runs in its client's goroutine.
type poll struct {
	// Immutable.
	*waiter
	s        *session
	max      int
	deadline time.Time
	id       string // as its client names it; empty: it can't be repeated

	// Guarded by Bridge.mu.
	firstAt time.Time // when something was first there
}

// verdict is the next step of a poll.
type verdict struct {
	reply    *wire.Polled // return this
	err      error        // return this
	taken    []handed     // hand these out
	drain    bool         // and say so
	register bool         // register again
	next     time.Time    // else wait, at most until then
}

// Poll waits for work for a worker, until there is some, or the time is over,
// or the worker is to drain, and returns what there is. Of two polls of one
// worker, the first ends with worker_id_in_use: what was not handed out goes to
// the second. When ctx ends, what would have been returned is handed back.
func (b *Bridge) Poll(ctx context.Context, worker string, req wire.Poll) (wire.Polled, error) {
	p, err := newPoll(&req, time.Now())
	if err != nil {
		return wire.Polled{}, err
	}
	if p.s, err = b.enter(ctx, worker, req.Session); err != nil {
		return wire.Polled{}, err
	}
	defer b.leave(p.s)
	if p.waiter, err = p.s.sit(&p.s.polling); err != nil {
		return wire.Polled{}, err
	}
	defer p.s.rise(&p.s.polling, p.waiter)
	p.begin()
	if err := p.s.listen(ctx); err != nil {
		return wire.Polled{}, err
	}
	failures := 0
	for {
		v := p.judge(time.Now())
		switch {
		case v.err != nil:
			return wire.Polled{}, v.err
		case v.reply != nil:
			return *v.reply, nil
		case v.register:
			if err := p.s.renew(ctx); err != nil {
				if events.CodeOf(err) != events.CodeInternal && !standing.Transient(events.CodeOf(err)) || ctx.Err() != nil || !time.Now().Before(p.deadline) {
					return wire.Polled{}, err
				}
				failures++
				p.wait(ctx, time.Now().Add(min(minBackoff<<min(failures, 10), maxBackoff)))
			}
		case len(v.taken) > 0:
			items, err := p.handOut(ctx, v.taken)
			if err != nil || len(items) > 0 {
				return wire.Polled{Items: items, ShouldDrain: v.drain}, err
			}
		default:
			p.wait(ctx, v.next)
		}
		if ctx.Err() != nil {
			return wire.Polled{}, ctx.Err()
		}
	}
}

func newPoll(req *wire.Poll, now time.Time) (*poll, error) {
	wait, err := waitOf(req.Wait)
	if err != nil {
		return nil, err
	}
	if req.Max < 0 {
		return nil, events.Refuse(events.CodeBadRequest, "max is %d: it must be 1 to %d, or left out", req.Max, MaxItems)
	}
	if len(req.PollID) > MaxPollID {
		return nil, events.Refuse(events.CodeBadRequest, "poll_id has %d bytes: at most %d; a count will do", len(req.PollID), MaxPollID)
	}
	p := &poll{id: req.PollID, max: min(req.Max, MaxItems), deadline: now.Add(max(wait, leastWait))}
	if p.max == 0 {
		p.max = MaxItems
	}
	return p, nil
}

// begin prepares the worker's open poll.
func (p *poll) begin() {
	p.s.b.mu.Lock()
	defer p.s.b.mu.Unlock()
	if !p.repeats() {
		p.s.acknowledge()
	}
}

// judge decides what the poll does next, and offers what it has room for.
func (p *poll) judge(now time.Time) (v verdict) {
	s, b := p.s, p.s.b
	b.mu.Lock()
	defer b.unlock()
	lapse := s.lapse(now)
	want := min(p.max, s.free())
	may := s.well() && !now.Before(s.benched) && !s.Draining && !b.stopping
	if may && !p.replaced {
		s.offer.room = max(want-len(s.inbox), 0)
	} else if !p.replaced {
		s.offer.room = 0
	}
	switch {
	case p.replaced:
		v.err = events.Refuse(events.CodeWorkerIDInUse, "another poll of worker %s has taken over: a worker has one poll open at a time; two processes need two worker ids", s.id)
	case s.closed:
		v.err = s.whyClosed()
	case p.repeats():
		v.taken, v.drain = s.batch.again(s), s.Draining
		if len(v.taken) == 0 {
			v.next = now
		}
	case s.Draining:
		v.reply = s.nothing()
	case b.stopping:
		v.err = errStopping
	case len(s.inbox) > 0 && want > 0 && p.gathered(want, now):
		v.taken = s.takeInbox(want)
	case !now.Before(p.deadline):
		v.reply = s.nothing()
	case !s.fresh(now):
		v.register = true
	default:
		v.next = sooner(sooner(p.deadline, lapse), s.Due())
		if !p.firstAt.IsZero() {
			v.next = sooner(v.next, p.firstAt.Add(gatherLimit))
		}
		if want <= 0 {
			v.next = sooner(v.next, s.expireHeld(now))
		}
		if now.Before(s.benched) {
			v.next = sooner(v.next, s.benched)
		}
		s.tell()
	}
	return v
}

// nothing returns the reply of a poll without items. REQUIRES: mu.
func (s *session) nothing() *wire.Polled {
	out := &wire.Polled{Items: []wire.PolledItem{}, ShouldDrain: s.Draining}
	if !s.well() {
		out.Status, out.Reason = s.Status, s.Reason
	}
	return out
}

// gathered reports whether a poll that has something should wait for no more.
// REQUIRES: mu.
func (p *poll) gathered(want int, now time.Time) bool {
	if p.firstAt.IsZero() {
		p.firstAt = now
	}
	return len(p.s.inbox) >= want || now.Sub(p.firstAt) >= gatherLimit
}

// takeInbox takes as much of what has arrived as is wanted and fits. REQUIRES: mu.
func (s *session) takeInbox(want int) (taken []handed) {
	bytes := 0
	for _, r := range s.inbox {
		bytes += len(r.item.Params) + r.item.Left.Size()
		if len(taken) == want || len(taken) > 0 && bytes > MaxPollBytes {
			break
		}
		s.runs[r.token] = r
		taken = append(taken, handed{r, *r.item, false})
	}
	if s.inbox = s.inbox[len(taken):]; len(s.inbox) == 0 {
		s.inbox = nil
	}
	return taken
}

// handed is a run that a poll hands out.
type handed struct {
	run   *run
	item  wire.PolledItem
	start bool // its start is reported first
}

// handOut gives the poll's runs to its worker. Runs whose start was refused are left out; if
// the client has gone, all go back.
func (p *poll) handOut(ctx context.Context, taken []handed) ([]wire.PolledItem, error) {
	s := p.s
	taken, err := s.start(taken)
	s.b.mu.Lock()
	defer s.b.unlock()
	p.firstAt = time.Time{}
	if ctx.Err() != nil || s.closed {
		for _, h := range taken {
			s.release(h.run, "client_gone")
		}
		return nil, err
	}
	items, now := make([]wire.PolledItem, len(taken)), time.Now()
	for i, h := range taken {
		items[i] = h.item
		s.b.unload(h.run)
		if h.run.started = h.run.started || h.start; !h.run.started {
			s.b.starts.add(s, h.run, now)
		}
	}
	if len(items) > 0 {
		err = nil
		p.hold(taken, items)
	}
	return items, err
}

// Undelivered hands back the items of a poll's reply that could not be written.
func (b *Bridge) Undelivered(worker string, items []wire.PolledItem) {
	b.mu.Lock()
	defer b.unlock()
	s := b.sessions[worker]
	if s == nil {
		return
	}
	for i := range items {
		if r := s.runs[items[i].Token]; r != nil {
			s.named(r) // there is nothing to repeat
			s.release(r, "client_gone")
		}
	}
}
