package core

import (
	"bytes"
	"encoding/json"
	"maps"
	"time"

	"github.com/streamwright/streamwright/events"
)

func applyScheduleSet(a *applier, b *events.ScheduleSet) error {
	if cur := a.schedules.get(b.Schedule.Name); cur == nil && a.schedules.len() >= events.MaxSchedules {
		return a.corrupt("there are %d schedules already", events.MaxSchedules)
	} else if cur != nil && cur.LastTick.After(b.Schedule.LastTick) {
		return a.corrupt("schedule %s goes back to a tick that has been answered", b.Schedule.Name)
	}
	a.schedules.set(b.Schedule.Name, b.Schedule)
	return nil
}

func applyScheduleRemoved(a *applier, b *events.ScheduleRemoved) error {
	if a.schedules.get(b.Name) == nil {
		return a.corrupt("there is no schedule %s", b.Name)
	}
	a.schedules.remove(b.Name)
	return nil
}

// applyScheduleFired moves a schedule on. The tick lies at or behind the one
// that was due next, so none is ever answered twice.
func applyScheduleFired(a *applier, b *events.ScheduleFired) error {
	cur := a.schedules.get(b.Name)
	if cur == nil {
		return a.corrupt("there is no schedule %s", b.Name)
	}
	if cur.Next.IsZero() || b.Tick.Before(cur.Next) {
		return a.corrupt("the tick %s of schedule %s has been answered", b.Tick, b.Name)
	}
	next := *cur
	next.Next, next.LastTick, next.LastCode, next.LastError = b.Next, b.Tick, b.Code, b.Error
	if !b.Item.IsZero() {
		next.LastItem = b.Item
	}
	a.schedules.set(b.Name, next)
	return nil
}

// canonical is the schedule in the one form that its JSON gives back, so that
// the live state is that of a replay. REQUIRES: it is valid.
func canonicalSchedule(s events.Schedule) (events.Schedule, error) {
	s.Params = bytes.TrimSpace(s.Params)
	switch {
	case len(s.Params) == 0 || string(s.Params) == "null":
		s.Params = nil
	default:
		compact, err := json.Marshal(s.Params)
		if err != nil {
			return s, events.Refuse(events.CodeBadParams, "schedule %s: the params are no JSON document: %v", s.Name, err)
		}
		s.Params = compact
	}
	if s.Labels = maps.Clone(s.Labels); len(s.Labels) == 0 {
		s.Labels = nil
	}
	if s.Priority != nil {
		p := *s.Priority
		s.Priority = &p
	}
	for _, t := range []*time.Time{&s.Anchor, &s.Next, &s.LastTick} {
		*t = t.UTC().Round(0)
	}
	return s, nil
}

// equal compares by content. REQUIRES: both are canonical.
func equalSchedules(s *events.Schedule, o *events.Schedule) bool {
	a, errA := json.Marshal(s)
	b, errB := json.Marshal(o)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// Schedule returns a schedule, false if there is none of that name.
func (s *State) Schedule(name string) (events.Schedule, bool) {
	if v := s.schedules.get(name); v != nil {
		return *v, true
	}
	return events.Schedule{}, false
}

// ScheduleNames lists the schedules in order.
func (s *State) ScheduleNames() []string { return s.schedules.keys() }

// DueSchedules calls fn, in no order, with each schedule that is to tick: its
// name and next tick.
func (s *State) DueSchedules(fn func(name string, next time.Time)) {
	for name, v := range s.schedules.m {
		if !v.Paused && !v.Next.IsZero() {
			fn(name, v.Next)
		}
	}
}
