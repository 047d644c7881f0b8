package bridge

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/nudge"
)

// waiter is a request of a worker that waits: for work, or for a probe. Of either
// a worker has one open at a time.
type waiter struct {
	wake     chan struct{}
	replaced bool // another request has taken over; guarded by Bridge.mu
}

// poke has the waiter look again; a nil waiter does nothing. REQUIRES: mu.
func (w *waiter) poke() {
	if w != nil {
		nudge.Send(w.wake)
	}
}

// wait returns true when the waiter is woken, and false when its client has gone or
// the time has come.
func (w *waiter) wait(ctx context.Context, until time.Time) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-w.wake:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

// sit makes a new waiter the open one of its kind. The caller ends it with rise.
func (s *session) sit(at **waiter) (*waiter, error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.b.stopping {
		return nil, errStopping
	}
	if *at != nil {
		(*at).replaced = true
		(*at).poke()
	}
	*at = &waiter{wake: make(chan struct{}, 1)}
	s.b.polls.Add(1)
	return *at, nil
}

// rise ends a waiter. With the open poll the offer ends: what arrives for it waits for the
// next poll for a while.
func (s *session) rise(at **waiter, w *waiter) {
	s.b.mu.Lock()
	defer s.b.unlock()
	if *at == w {
		*at = nil
	}
	if s.polling == nil {
		s.offer.room = 0
		s.tell()
		if s.b.stopping {
			s.giveBack(s.inbox, "poll_ended")
		} else if len(s.inbox) > 0 {
			nudge.Send(s.b.kick)
		}
	}
	s.b.polls.Done()
}

// waitOf returns how long a request waits at most.
func waitOf(d *events.Duration) (time.Duration, error) {
	switch {
	case d == nil:
		return DefaultWait, nil
	case d.Duration < 0 || d.Duration > MaxWait:
		return 0, events.Refuse(events.CodeBadTime, "wait_ms is %d: it must be 0 to %d", d.Milliseconds(), MaxWait.Milliseconds())
	}
	return d.Duration, nil
}
