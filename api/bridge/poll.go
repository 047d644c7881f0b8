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

// poll is one open poll. It runs in its client's goroutine. What is not
// marked is guarded by Bridge.mu.
type poll struct {
	// Immutable.
	wake     chan struct{} // room for one
	max      int
	deadline time.Time
	claim    bool
	id       string // as its client names it; empty: it can't be repeated

	replaced bool      // another poll of the worker has taken over
	asked    int       // consumers that were asked what they have
	sweep    *request  // the one that is being asked
	firstAt  time.Time // when something was first there
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
	s, err := b.enter(ctx, worker, req.Session)
	if err != nil {
		return wire.Polled{}, err
	}
	defer b.leave(s)
	if err := b.beginPoll(s, p); err != nil {
		return wire.Polled{}, err
	}
	defer b.endPoll(s, p)
	failures := 0
	for {
		v := b.judge(s, p, time.Now())
		switch {
		case v.err != nil:
			return wire.Polled{}, v.err
		case v.reply != nil:
			return *v.reply, nil
		case v.register:
			if err := b.renew(ctx, s); err != nil {
				if events.CodeOf(err) != events.CodeInternal && !pull.Transient(events.CodeOf(err)) || ctx.Err() != nil || !time.Now().Before(p.deadline) {
					return wire.Polled{}, err
				}
				failures++
				v.next = time.Now().Add(min(minBackoff<<min(failures, 10), maxBackoff))
				b.await(ctx, p, v.next)
			}
		case len(v.taken) > 0:
			items, err := b.handOut(ctx, s, p, v.taken)
			if err != nil || len(items) > 0 {
				return wire.Polled{Items: items}, err
			}
		default:
			b.await(ctx, p, v.next)
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
	if err := checkPollID(req.PollID); err != nil {
		return nil, err
	}
	p := &poll{id: req.PollID, wake: make(chan struct{}, 1), max: min(req.Max, MaxItems), deadline: now.Add(wait), claim: req.Claim}
	if p.max == 0 {
		p.max = MaxItems
	}
	return p, nil
}

// waitOf returns how long a request waits at most.
func waitOf(ms *int64) (time.Duration, error) {
	switch {
	case ms == nil:
		return DefaultWait, nil
	case *ms < 0 || *ms > MaxWait.Milliseconds():
		return 0, events.Refuse(events.CodeBadTime, "wait_ms is %d: it must be 0 to %d", *ms, MaxWait.Milliseconds())
	}
	return time.Duration(*ms) * time.Millisecond, nil
}

// await waits until the poll is woken, its client has gone or t has come.
func (b *Bridge) await(ctx context.Context, p *poll, t time.Time) {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-p.wake:
	case <-timer.C:
	}
}

// beginPoll makes a poll the open one of its worker.
func (b *Bridge) beginPoll(s *session, p *poll) error {
	b.mu.Lock()
	defer b.unlock()
	if b.stopping {
		return errStopping
	}
	if s.poll != nil {
		s.poll.replaced = true
		s.poke()
	}
	if !p.repeats(s) {
		b.acknowledge(s)
	}
	s.poll = p
	s.turn++
	b.polls.Add(1)
	return nil
}

// endPoll hands back what has arrived and was not taken, unless another poll
// has taken over.
func (b *Bridge) endPoll(s *session, p *poll) {
	b.mu.Lock()
	defer b.unlock()
	if s.poll == p {
		s.poll = nil
		b.giveBack(s, "poll_ended")
	}
	b.polls.Done()
}

// judge decides what a poll does next, and sends the pull requests that it
// needs.
func (b *Bridge) judge(s *session, p *poll, now time.Time) (v verdict) {
	b.mu.Lock()
	defer b.unlock()
	lapse := s.lapse(now)
	b.giveUpPulls(s, now)
	var again *wire.Polled
	if !p.replaced && !s.closed {
		again = b.again(s, p, now)
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
	case s.draining:
		v.reply = s.nothing()
	case b.stopping:
		v.err = errStopping
	case len(s.inbox) > 0 && p.gathered(s, want, now):
		v.taken = b.takeInbox(s, want)
	case !now.Before(p.deadline) && (p.swept(s) || !may):
		v.reply = s.nothing()
	case !s.fresh(now):
		v.register = true
	default:
		v.next = p.deadline
		if !now.Before(p.deadline) || p.sweep != nil {
			v.next = now.Add(sweepLimit)
		}
		v.next = sooner(sooner(v.next, lapse), s.renewAt())
		if len(s.inbox) > 0 {
			v.next = sooner(v.next, p.firstAt.Add(gatherLimit))
		}
		if now.Before(s.benched) {
			v.next = sooner(v.next, s.benched)
		}
		if may {
			v.next = sooner(v.next, b.pull(s, p, want, now))
		}
	}
	return v
}

// well reports whether the engine takes the worker for fit. REQUIRES: mu.
func (s *session) well() bool { return s.status == "" || s.status == wire.WorkerActive }

// nothing returns the reply of a poll without items. REQUIRES: mu.
func (s *session) nothing() *wire.Polled {
	out := &wire.Polled{Items: []wire.PolledItem{}, ShouldDrain: s.draining}
	if !s.well() {
		out.Status, out.Reason = s.status, s.reason
	}
	return out
}

// gathered reports whether a poll that has something should wait for no more.
// REQUIRES: mu.
func (p *poll) gathered(s *session, want int, now time.Time) bool {
	if p.firstAt.IsZero() {
		p.firstAt = now
	}
	if len(s.inbox) >= want || now.Sub(p.firstAt) >= gatherLimit {
		return true
	}
	for _, l := range s.lanes {
		if l.pull != nil && l.pull.got > 0 {
			return false // the server says when there is no more
		}
	}
	return p.sweep == nil || p.sweep.left == 0 && p.swept(s)
}

// swept reports whether all consumers were asked what they have, where that is
// needed: before a poll waits on several at once, since all but one of what they
// would bring might be too much; and when it does not wait. REQUIRES: mu.
func (p *poll) swept(s *session) bool {
	return p.asked >= len(s.consumers) && (p.sweep == nil || p.sweep.left == 0)
}

// takeInbox takes as much of what has arrived as is wanted and fits, and hands
// the rest back. REQUIRES: mu.
func (b *Bridge) takeInbox(s *session, want int) (taken []*run) {
	bytes := 0
	for i, r := range s.inbox {
		bytes += len(r.item.Params)
		if len(taken) == want || len(taken) > 0 && bytes > MaxPollBytes {
			s.inbox = s.inbox[i:]
			b.giveBack(s, "no_slot")
			break
		}
		s.runs[r.token] = r
		taken = append(taken, r)
	}
	s.inbox = nil
	return taken
}

// pull sends the pull requests that a poll needs now, and returns when to look
// again. REQUIRES: mu.
func (b *Bridge) pull(s *session, p *poll, want int, now time.Time) (next time.Time) {
	wait := min(p.deadline.Sub(now), pull.Expires)
	if len(s.consumers) == 1 && wait >= 10*time.Millisecond {
		p.asked = 1 // one request does both
	}
	for p.asked < len(s.consumers) && (p.sweep == nil || p.sweep.left == 0) {
		l := s.lanes[s.consumers[(s.turn+p.asked)%len(s.consumers)]]
		p.asked++
		if more := want - len(s.inbox); more > 0 && l.pull == nil {
			p.sweep = b.ask(l, more, 0, now)
		}
	}
	if p.sweep != nil && p.sweep.left > 0 || len(s.inbox) > 0 || wait < 10*time.Millisecond {
		return time.Time{}
	}
	n := want
	if len(s.consumers) > 1 {
		n = 1
	}
	for _, c := range s.consumers {
		l := s.lanes[c]
		if l.pull == nil {
			b.ask(l, n, wait, now)
		}
		next = sooner(next, l.pull.until)
	}
	return next
}

// handOut gives a poll's runs to its worker, claimed if it asks for that. What
// was refused is left out; if the client has gone, all goes back.
func (b *Bridge) handOut(ctx context.Context, s *session, p *poll, taken []*run) ([]wire.PolledItem, error) {
	var err error
	if p.claim {
		taken, err = b.claim(s, taken)
	}
	b.mu.Lock()
	defer b.unlock()
	p.firstAt, p.asked, p.sweep = time.Time{}, 0, nil // if none is left, from the beginning
	if ctx.Err() != nil || s.closed {
		for _, r := range taken {
			b.release(s, r, "client_gone")
		}
		return nil, err
	}
	items := make([]wire.PolledItem, len(taken))
	for i, r := range taken {
		items[i] = *r.item
		b.unload(r)
	}
	if len(items) > 0 {
		err = nil
		b.hold(s, p, taken, items)
	}
	return items, err
}
