package events

import "time"

func (s *State) applyCause(ev Event, b *CauseNoted) error {
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
func (s *State) Cause(key string) (Cause, bool) {
	if c := s.causes.get(key); c != nil {
		return *c, true
	}
	return Cause{}, false
}

// died counts a death. One of before causes were recorded has none.
func (s *State) died(it *Item, b *Dead, at time.Time) {
	it.Cause = b.Cause
	if b.Cause == "" {
		return
	}
	c := s.causes.get(b.Cause)
	if c == nil {
		s.roomForCause(at)
		c = &Cause{}
	}
	s.setCause(b.Cause, c.died(it, b, at))
}

// leftDead counts a dead item out: it is replayed, or pruned. The caller calls
// it for each item that was dead.
func (s *State) leftDead(it *Item, at time.Time) {
	key := it.Cause
	it.Cause = ""
	c := s.causes.get(key)
	if key == "" || c == nil {
		return
	}
	left := *c
	left.Dead = max(left.Dead-1, 0)
	if left.forgettable(at) {
		s.removeCause(key)
		return
	}
	s.setCause(key, left)
}

// forgettable reports whether a cause is of no use any more.
func (c *Cause) forgettable(at time.Time) bool {
	return c.Dead == 0 && !at.Before(c.Last.Add(CauseKeep))
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
		case c.forgettable(at):
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
func (s *State) setCause(key string, c Cause) {
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

func idle(c *Cause) int {
	if c != nil && c.Dead == 0 {
		return 1
	}
	return 0
}
