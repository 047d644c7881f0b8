package events

import (
	"slices"
	"time"
)

// AcceptClock is part of an [Own]: an operator has confirmed the server's
// clock, so the ownership begins at At even if the log has later events.
type AcceptClock struct {
	At time.Time
	By string // who confirmed it; may be empty
}

// ClockAccepted is part of the payload of owned: an operator has confirmed the
// server's clock. From this event on, time is that of the event, which may lie
// before the times of earlier events. From is the log's last time before.
type ClockAccepted struct {
	From time.Time `json:"from"`
	By   string    `json:"by,omitempty"`
}

// setBack is an event that has set the clock back, and the times before it.
type setBack struct {
	seq  Seq
	from KeyTimes
}

// KeyTimes are the times by which keys expire: see [Meta.KeyTime].
type KeyTimes struct {
	Events time.Time // of all keys but these
	MsgIDs time.Time // of message ids
}

// expired reports whether a key had expired by these times.
func (t KeyTimes) expired(h HeldKey) bool {
	if h.Ref.Kind == KeyMsgID {
		return h.expired(t.MsgIDs)
	}
	return h.expired(t.Events)
}

// accept makes an ownership begin at the time that was confirmed.
func (d *decider) accept(c *AcceptClock) *ClockAccepted {
	if c == nil {
		return nil
	}
	d.now = c.At.UTC().Round(0)
	return &ClockAccepted{From: d.s.meta.LastAt, By: text(c.By, MaxNameLen)}
}

// SetDue says that times in commands and items are due by another time than
// that of the decision, an earlier one; zero: by that one. It is for an owner
// who can't trust the log's own times.
func (s *State) SetDue(at time.Time) { s.due = at }

// dueTime is the time by which something is due.
func (d *decider) dueTime() time.Time {
	if d.s.due.IsZero() {
		return d.now
	}
	return earlier(d.s.due, d.now)
}

// setBack has time go on from an event that lies before was, the latest time
// until then. What had expired by then stays expired, and what the partition
// itself was to do after a while is counted from here: a circuit that opened,
// or a pause that began, for a minute ends after a minute. Items keep their times.
func (s *State) setBack(ev Event, was time.Time) {
	at, from := ev.At, KeyTimes{Events: was, MsgIDs: s.meta.MsgIDAt}
	for _, k := range s.keys {
		if k.has && from.expired(k.held) {
			s.putKey(k.held, false)
		}
	}
	s.setBacks = append(s.setBacks, setBack{ev.Seq, from})
	s.tookBack = KeyTimes{laterTime(s.tookBack.Events, from.Events), laterTime(s.tookBack.MsgIDs, from.MsgIDs)}
	s.meta.LastAt, s.meta.Ahead, s.meta.MsgIDAt = at, laterTime(s.meta.Ahead, was), earlier(s.meta.MsgIDAt, at)
	s.meta.SetBackAt, s.meta.SetBackTo = ev.Seq, at
	for t, e := range s.types {
		if c, moved := e.info.Circuit.setBack(at); moved {
			s.typeOf(t).info.Circuit = c
		}
		if p := e.info.Paused; p != nil {
			if said := laterTime(p.At, p.UntilSet); said.After(at) {
				next := *p
				next.At, next.UntilSet = earlier(p.At, at), time.Time{}
				if !p.Until.IsZero() {
					next.Until = at.Add(p.Until.Sub(said))
				}
				s.typeOf(t).info.Paused = &next
			}
		}
	}
	for w, c := range s.workers.m {
		if c, moved := c.setBack(at); moved {
			s.workers.set(w, c)
		}
	}
	s.loadCircuits()
	s.loadPauses()
	for key, c := range s.causes.m {
		if c.Last.After(at) || c.WindowAt.After(at) {
			next := *c
			next.First, next.Last, next.WindowAt = earlier(c.First, at), earlier(c.Last, at), earlier(c.WindowAt, at)
			s.causes.set(key, next)
		}
	}
	for name, sch := range s.schedules.m {
		if sch.LastTick.After(at) {
			next := *sch
			next.LastTick = at
			s.schedules.set(name, next)
		}
	}
}

// setBack is the circuit when time goes on from before its last change.
func (c Circuit) setBack(at time.Time) (Circuit, bool) {
	if !c.At.After(at) && !c.WindowAt.After(at) && !c.LastAt.After(at) {
		return c, false
	}
	if c.At.After(at) {
		if !c.Until.IsZero() {
			c.Until = at.Add(max(c.Until.Sub(c.At), 0))
		}
		c.At = at
	}
	c.WindowAt, c.LastAt = earlier(c.WindowAt, at), earlier(c.LastAt, at)
	return c, true
}

// expired reports whether a held key does not exist any more at a time.
func (h HeldKey) expired(at time.Time) bool { return !h.Until.IsZero() && !h.Until.After(at) }

// goneBack reports whether a key that the base shows had expired when time was
// set back, which the base may not know yet.
func (s *State) goneBack(h HeldKey) bool {
	return slices.ContainsFunc(s.setBacks, func(b setBack) bool { return b.from.expired(h) })
}

// setBackProjected forgets when the clock was set back, as far as the base
// knows it.
func (s *State) setBackProjected() {
	s.setBacks = slices.DeleteFunc(s.setBacks, func(b setBack) bool { return b.seq <= s.projected })
}

func laterTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
