package core

import (
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/policy"
)

func (s *State) applyCause(ev events.Event, b *events.CauseNoted) error {
	c := s.causes.get(b.Cause)
	if c == nil {
		return s.corrupt(ev, "nothing has died of cause %q", b.Cause)
	}
	noted := *c
	noted.Noted = b.Window
	s.setCause(b.Cause, noted)
	s.noted = append(s.noted, ev)
	return nil
}

// Cause returns what is known of a cause, false if nothing is.
func (s *State) Cause(key string) (events.Cause, bool) {
	if c := s.causes.get(key); c != nil {
		return *c, true
	}
	return events.Cause{}, false
}

// died counts a death. One of before causes were recorded has none.
func (s *State) died(it *events.Item, b *events.Dead, at time.Time) {
	it.Cause = b.Cause
	if b.Cause == "" {
		return
	}
	c := s.causes.get(b.Cause)
	if c == nil {
		s.roomForCause(at)
		c = &events.Cause{}
	}
	s.setCause(b.Cause, policy.CountDeath(*c, it, b, at))
}

// leftDead counts a dead item out: it is replayed, or pruned. The caller calls
// it for each item that was dead.
func (s *State) leftDead(it *events.Item, at time.Time) {
	key := it.Cause
	it.Cause = ""
	c := s.causes.get(key)
	if key == "" || c == nil {
		return
	}
	left := *c
	left.Dead = max(left.Dead-1, 0)
	if policy.Forgettable(&left, at) {
		s.removeCause(key)
		return
	}
	s.setCause(key, left)
}

// roomForCause lets go of the causes that are of no use any more before a new
// one comes, and, at the bound, of the one that nobody has died of for longest
// of those that nothing is dead of.
func (s *State) roomForCause(at time.Time) {
	if s.idleCauses == 0 {
		return
	}
	oldest := ""
	for _, key := range s.causes.keys() {
		c := s.causes.get(key)
		switch {
		case policy.Forgettable(c, at):
			s.removeCause(key)
		case c.Dead == 0 && (oldest == "" || c.Last.Before(s.causes.get(oldest).Last)):
			oldest = key
		}
	}
	if oldest != "" && s.causes.len() >= s.maxCauses {
		s.removeCause(oldest)
	}
}

// setCause and removeCause keep idleCauses, the number of those with none dead.
func (s *State) setCause(key string, c events.Cause) {
	s.idleCauses += idle(&c) - idle(s.causes.get(key))
	s.causes.set(key, c)
}

func (s *State) removeCause(key string) {
	s.idleCauses -= idle(s.causes.get(key))
	s.causes.remove(key)
}

func (s *State) countIdleCauses() {
	s.idleCauses = 0
	for _, c := range s.causes.m {
		s.idleCauses += idle(c)
	}
}

func idle(c *events.Cause) int {
	if c != nil && c.Dead == 0 {
		return 1
	}
	return 0
}
