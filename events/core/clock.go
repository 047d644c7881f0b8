package core

import (
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/policy"
)

// AcceptClock is part of an [Own]: an operator has confirmed the server's
// clock, so the ownership begins at At even if the log has later events.
type AcceptClock struct {
	At time.Time
	By string // who confirmed it; may be empty
}

// setBack is an event that has set the clock back, and the times before it.
type setBack struct {
	seq  events.Seq
	from KeyTimes
}

// KeyTimes are the times by which keys expire: see [events.Meta.KeyTime].
type KeyTimes struct {
	Events time.Time // of all keys but these
	MsgIDs time.Time // of message ids
}

// expired reports whether a key had expired by these times.
func (t KeyTimes) expired(h events.HeldKey) bool {
	if h.Ref.Kind == events.KeyMsgID {
		return keyExpired(h, t.MsgIDs)
	}
	return keyExpired(h, t.Events)
}

// accept makes an ownership begin at the time that was confirmed.
func (d *decider) accept(c *AcceptClock) *events.ClockAccepted {
	if c == nil {
		return nil
	}
	d.now = c.At.UTC().Round(0)
	return &events.ClockAccepted{From: d.state.meta.LastAt, By: events.Shorten(c.By, events.MaxNameLen)}
}

// SetDue sets the time, earlier than the decision's, at which times in commands and
// items fall due; zero: the decision's own. It is for an owner that can't trust the
// log's own times.
func (s *State) SetDue(at time.Time) { s.due = at }

// setBack has time go on from an event that lies before was, the latest time
// until then. What had expired by then stays expired, and what the partition
// itself was to do after a while is counted from here: a circuit that opened,
// or a pause that began, for a minute ends after a minute. Items keep their times.
func (a *applier) setBack() {
	was := a.lastAt
	at, from := a.ev.At, KeyTimes{Events: was, MsgIDs: a.meta.MsgIDAt}
	for _, k := range a.keys.m {
		if k.v.has && from.expired(k.v.held) {
			a.putKey(k.v.held, false)
		}
	}
	a.setBacks = append(a.setBacks, setBack{a.ev.Seq, from})
	a.tookBack = KeyTimes{laterTime(a.tookBack.Events, from.Events), laterTime(a.tookBack.MsgIDs, from.MsgIDs)}
	a.meta.LastAt, a.meta.Ahead, a.meta.MsgIDAt = at, laterTime(a.meta.Ahead, was), earlier(a.meta.MsgIDAt, at)
	a.meta.SetBackAt, a.meta.SetBackTo = a.ev.Seq, at
	for t, e := range a.types {
		if c, moved := policy.SetBack(e.info.Circuit, at); moved {
			a.typeOf(t).info.Circuit = c
		}
		if p := e.info.Paused; p != nil {
			if said := laterTime(p.At, p.UntilSet); said.After(at) {
				next := *p
				next.At, next.UntilSet = earlier(p.At, at), time.Time{}
				if !p.Until.IsZero() {
					next.Until = at.Add(p.Until.Sub(said))
				}
				a.typeOf(t).info.Paused = &next
			}
		}
	}
	for w, c := range a.workers.m {
		if c, moved := policy.SetBack(*c, at); moved {
			a.workers.set(w, c)
		}
	}
	a.loadCircuits()
	a.loadPauses()
	for key, c := range a.causes.m {
		if c.Last.After(at) || c.WindowAt.After(at) {
			next := *c
			next.First, next.Last, next.WindowAt = earlier(c.First, at), earlier(c.Last, at), earlier(c.WindowAt, at)
			a.causes.set(key, next)
		}
	}
	for name, sch := range a.schedules.m {
		if sch.LastTick.After(at) {
			next := *sch
			next.LastTick = at
			a.schedules.set(name, next)
		}
	}
}

// keyExpired reports whether a held key does not exist any more at a time.
func keyExpired(h events.HeldKey, at time.Time) bool { return !h.Until.IsZero() && !h.Until.After(at) }

// goneBack reports whether a key that the base shows had expired when time was
// set back, which the base may not know yet.
func (s *State) goneBack(h events.HeldKey) bool {
	return slices.ContainsFunc(s.setBacks, func(b setBack) bool { return b.from.expired(h) })
}

// setBackProjected forgets the set-backs of the clock that the base knows.
func (s *State) setBackProjected() {
	s.setBacks = slices.DeleteFunc(s.setBacks, func(b setBack) bool { return b.seq <= s.projected })
}

func laterTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
