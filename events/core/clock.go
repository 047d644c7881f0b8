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
// or a pause that began, for a minute ends after a minute. Items keep their times
// until the owner has them counted anew: see [Recount].
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
	a.meta.SetBackAt, a.meta.SetBackTo, a.meta.SetBackBy = a.ev.Seq, at, was.Sub(at)
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

// Recount counts an item's wait, or the limit of its run, by the clock as it is
// since it was set back, if it was counted from a time that is still to come. The
// owner asks for it for each item with a timer: [events.Meta.Ahead] says when.
type Recount struct{ ID events.ID }

func (c Recount) decide(d *decider) (Decision, error) {
	it, err := d.state.Item(c.ID)
	if err != nil {
		return Decision{}, err
	}
	if it == nil || it.TimerAt().IsZero() {
		return Decision{ID: c.ID, Repeat: true}, nil
	}
	late := d.tooLate(countedFrom(it))
	r := &events.Rescheduled{Priority: it.Priority, OrderAt: it.OrderAt, AvailableAt: it.AvailableAt}
	if at := d.remindsTooLate(it); late == 0 && !at.IsZero() {
		r.Limit = at
		return Decision{ID: it.ID, Events: []events.Event{d.event(it, r)}}, nil
	}
	if late == 0 {
		return Decision{ID: c.ID, Repeat: true}, nil
	}
	if it.State != events.StateQueued {
		r.Limit = it.TimerAt().Add(-late)
		ev := d.event(it, r)
		if running(it.State) {
			ev = d.runEvent(it, r)
		}
		return Decision{ID: it.ID, Events: []events.Event{ev}}, nil
	}
	r.AvailableAt, r.Delayed = it.AvailableAt.Add(-late), true
	if it.OrderAt.After(d.now) {
		r.OrderAt = it.OrderAt.Add(-late)
	}
	return Decision{ID: it.ID, Events: []events.Event{d.event(it, r)}}, nil
}

// countedFrom returns the moment from which an item's timer was counted, zero if
// somebody named the moment at which it is due.
func countedFrom(it *events.Item) time.Time {
	switch it.State {
	case events.StateQueued:
		return it.WaitsFrom
	case events.StateClaimed:
		return it.ClaimedAt
	case events.StateRunning:
		return it.StartedAt
	case events.StateWaiting:
		if w := it.Wait(); w != nil && w.Delayed {
			return w.Since
		}
	}
	return time.Time{}
}

// remindsTooLate returns when the next reminder of an item's question is to come, if it was counted
// from a time that is still to come; else zero.
func (d *decider) remindsTooLate(it *events.Item) time.Time {
	if w := it.Wait(); w != nil && w.Ask != nil && !w.Ask.RemindAt.IsZero() {
		if at := d.now.Add(w.Ask.RemindEvery.Duration); w.Ask.RemindAt.After(at) {
			return at
		}
	}
	return time.Time{}
}

// tooLate returns by how much what was counted from a moment is too late: that moment
// is still to come, so the clock was wrong then and was set back since.
func (d *decider) tooLate(from time.Time) time.Duration {
	if !from.After(d.now) {
		return 0
	}
	return max(d.state.meta.SetBackBy, from.Sub(d.now))
}

// moveRun moves a run, whose limit becomes at; or a wait; or, of one that was counted rightly as of
// now, the next reminder alone.
func moveRun(it *events.Item, at, now time.Time) {
	by := at.Sub(it.TimerAt())
	switch it.State {
	case events.StateClaimed:
		it.ClaimedAt, it.StartBy = it.ClaimedAt.Add(by), at
	case events.StateRunning:
		it.ClaimedAt, it.StartedAt, it.Deadline = it.ClaimedAt.Add(by), it.StartedAt.Add(by), at
	case events.StateWaiting:
		s := ownSignals(it)
		w := *s.Wait
		if s.Wait = &w; !w.Delayed || !w.Since.After(now) {
			ask := *w.Ask
			ask.RemindAt, w.Ask = at, &ask
			return
		}
		w.Since, w.Until = w.Since.Add(by), w.Until.Add(by)
		if w.Ask != nil && !w.Ask.RemindAt.IsZero() {
			ask := *w.Ask
			ask.RemindAt, w.Ask = ask.RemindAt.Add(by), &ask
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
