package bridge

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/pull"
	"github.com/streamwright/streamwright/wire"
)

// gatherLimit bounds how long a poll that has something waits for the server to end
// the request that brought it.
const gatherLimit = 50 * time.Millisecond

// poll is one open poll. It runs in its client's goroutine.
type poll struct {
	// Immutable.
	*waiter
	s        *session
	max      int
	deadline time.Time
	claim    bool
	id       string // as its client names it; empty: it can't be repeated

	// Guarded by Bridge.mu.
	asked   int       // consumers that were asked what they have
	sweep   *request  // the one that is being asked
	firstAt time.Time // when something was first there
}

// verdict is the next step of a poll.
type verdict struct {
	reply    *wire.Polled // return this
	err      error        // return this
	taken    []*run       // hand these out
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
				if events.CodeOf(err) != events.CodeInternal && !pull.Transient(events.CodeOf(err)) || ctx.Err() != nil || !time.Now().Before(p.deadline) {
					return wire.Polled{}, err
				}
				failures++
				p.wait(ctx, time.Now().Add(min(minBackoff<<min(failures, 10), maxBackoff)))
			}
		case len(v.taken) > 0:
			items, err := p.handOut(ctx, v.taken)
			if err != nil || len(items) > 0 {
				return wire.Polled{Items: items}, err
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
	wait, err := waitOf(req.WaitMS)
	if err != nil {
		return nil, err
	}
	if req.Max < 0 {
		return nil, events.Refuse(events.CodeBadRequest, "max is %d: it must be 1 to %d, or left out", req.Max, MaxItems)
	}
	if len(req.PollID) > MaxPollID {
		return nil, events.Refuse(events.CodeBadRequest, "poll_id has %d bytes: at most %d; a count will do", len(req.PollID), MaxPollID)
	}
	p := &poll{id: req.PollID, max: min(req.Max, MaxItems), deadline: now.Add(wait), claim: req.Claim}
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
	p.s.turn++
}

// judge decides what the poll does next, and sends the pull requests that it
// needs.
func (p *poll) judge(now time.Time) (v verdict) {
	s, b := p.s, p.s.b
	b.mu.Lock()
	defer b.unlock()
	lapse := s.lapse(now)
	s.giveUpPulls(now)
	var again *wire.Polled
	if !p.replaced && !s.closed {
		again = p.again(now)
	}
	want := min(p.max, s.free())
	may := want > 0 && s.well() && !now.Before(s.benched)
	switch {
	case p.replaced:
		v.err = events.Refuse(events.CodeWorkerIDInUse, "another poll of worker %s has taken over: a worker has one poll open at a time; two processes need two worker ids", s.id)
	case s.closed:
		v.err = s.whyClosed()
	case again != nil:
		v.reply = again
	case s.Draining:
		v.reply = s.nothing()
	case b.stopping:
		v.err = errStopping
	case len(s.inbox) > 0 && p.gathered(want, now):
		v.taken = s.takeInbox(want)
	case !now.Before(p.deadline) && (p.swept() || !may):
		v.reply = s.nothing()
	case !s.fresh(now):
		v.register = true
	default:
		v.next = p.deadline
		if !now.Before(p.deadline) || p.sweep != nil {
			v.next = now.Add(sweepLimit)
		}
		v.next = sooner(sooner(v.next, lapse), s.Due())
		if len(s.inbox) > 0 {
			v.next = sooner(v.next, p.firstAt.Add(gatherLimit))
		}
		if now.Before(s.benched) {
			v.next = sooner(v.next, s.benched)
		}
		if may {
			v.next = sooner(v.next, p.pull(want, now))
		}
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
	if len(p.s.inbox) >= want || now.Sub(p.firstAt) >= gatherLimit {
		return true
	}
	for _, l := range p.s.lanes {
		if l.pull != nil && l.pull.got > 0 {
			return false // the server says when there is no more
		}
	}
	return p.sweep == nil || p.swept()
}

// asking reports whether a consumer is being asked for messages. REQUIRES: mu.
func (p *poll) asking() bool { return p.sweep != nil && p.sweep.left > 0 }

// swept reports whether all consumers were asked what they have. A poll that does
// not wait asks them all; so does one that then waits on several at once, since all
// but one of what they bring might be too much. REQUIRES: mu.
func (p *poll) swept() bool { return p.asked >= len(p.s.consumers) && !p.asking() }

// takeInbox takes as much of what has arrived as is wanted and fits, and hands
// the rest back. REQUIRES: mu.
func (s *session) takeInbox(want int) (taken []*run) {
	bytes := 0
	for i, r := range s.inbox {
		bytes += len(r.item.Params)
		if len(taken) == want || len(taken) > 0 && bytes > MaxPollBytes {
			s.inbox = s.inbox[i:]
			s.giveBack("no_slot")
			break
		}
		s.runs[r.token] = r
		taken = append(taken, r)
	}
	s.inbox = nil
	return taken
}

// pull sends the pull requests that the poll needs now, and returns when to look
// again. REQUIRES: mu.
func (p *poll) pull(want int, now time.Time) (next time.Time) {
	s := p.s
	wait := min(p.deadline.Sub(now), pull.Expires)
	if len(s.consumers) == 1 && wait >= 10*time.Millisecond {
		p.asked = 1 // one request does both
	}
	for p.asked < len(s.consumers) && !p.asking() {
		l := s.lanes[s.consumers[(s.turn+p.asked)%len(s.consumers)]]
		p.asked++
		if more := want - len(s.inbox); more > 0 && l.pull == nil {
			p.sweep = l.ask(more, 0, now)
		}
	}
	if p.asking() || len(s.inbox) > 0 || wait < 10*time.Millisecond {
		return time.Time{}
	}
	n := want
	if len(s.consumers) > 1 {
		n = 1
	}
	for _, c := range s.consumers {
		l := s.lanes[c]
		if l.pull == nil {
			l.ask(n, wait, now)
		}
		next = sooner(next, l.pull.until)
	}
	return next
}

// handOut gives the poll's runs to its worker, claimed if it asks for that. Runs
// that were refused are left out; if the client has gone, all go back.
func (p *poll) handOut(ctx context.Context, taken []*run) ([]wire.PolledItem, error) {
	var err error
	s := p.s
	if p.claim {
		taken, err = s.claim(taken)
	}
	s.b.mu.Lock()
	defer s.b.unlock()
	p.firstAt, p.asked, p.sweep = time.Time{}, 0, nil // if none is left, from the beginning
	if ctx.Err() != nil || s.closed {
		for _, r := range taken {
			s.release(r, "client_gone")
		}
		return nil, err
	}
	items := make([]wire.PolledItem, len(taken))
	for i, r := range taken {
		items[i] = *r.item
		s.b.unload(r)
	}
	if len(items) > 0 {
		err = nil
		p.hold(taken, items)
	}
	return items, err
}
