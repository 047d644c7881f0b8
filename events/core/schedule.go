package core

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/streamwright/streamwright/events"
)

// SetSchedule makes or replaces a schedule. Schedule.Next is the first tick, and
// its Last fields are not looked at. A schedule whose timing stays the same
// keeps its place among its ticks, unless Replan is set: then Schedule.Next
// counts, as after the clock was set back.
type SetSchedule struct {
	Schedule events.Schedule
	Replan   bool
}

// decide makes or replaces a schedule. Nothing that it says may bring back
// a tick that has been answered.
func (c SetSchedule) decide(d *decider) (Decision, error) {
	next := c.Schedule.WithDefaults()
	if err := next.Validate(); err != nil {
		return Decision{}, err
	}
	if next.Type == events.BatchType {
		return Decision{}, errBatchType
	}
	next.LastTick, next.LastItem, next.LastCode, next.LastError = time.Time{}, events.ID{}, "", ""
	next, err := canonicalSchedule(next)
	if err != nil {
		return Decision{}, err
	}
	cur := d.state.schedules.get(next.Name)
	switch {
	case cur == nil && d.state.schedules.len() >= events.MaxSchedules:
		return Decision{}, events.Refuse(events.CodeTooLarge, "schedule %s would be the %dth: an engine has at most %d; remove one that is no longer needed", next.Name, events.MaxSchedules+1, events.MaxSchedules)
	case cur != nil && next.Source == events.SourceAPI && cur.Source == events.SourceFile:
		return Decision{}, scheduleInFile(next.Name)
	case !next.Every.IsZero() && next.Anchor.IsZero():
		return Decision{}, events.Refuse(events.CodeBadRequest, "schedule %s: the interval has no anchor", next.Name)
	}
	keeps := cur != nil && !c.Replan && next.SameTiming(cur) && !cur.Next.IsZero()
	if keeps {
		next.Next = cur.Next
	}
	if cur != nil {
		next.LastTick, next.LastItem, next.LastCode, next.LastError = cur.LastTick, cur.LastItem, cur.LastCode, cur.LastError
		if sameJSON(&next, cur) {
			return Decision{Repeat: true}, nil
		}
	}
	if !keeps {
		if next.Next.IsZero() {
			return Decision{}, events.Refuse(events.CodeBadRequest, "schedule %s never comes: no moment in the next ten years matches %q", next.Name, next.Cron)
		}
		if !next.Next.After(next.LastTick) || !events.Writable(next.Next) {
			return Decision{}, events.Refuse(events.CodeBadTime, "schedule %s: its first tick, %s, lies before the last that was answered: set it again", next.Name, next.Next.Format(time.RFC3339Nano))
		}
	}
	return Decision{Events: []events.Event{d.typeEvent(next.Type, &events.ScheduleSet{Schedule: next})}}, nil
}

func scheduleInFile(name string) error {
	return events.Refuse(events.CodeSetInFile, "engine.toml sets the schedule %s: change it there and restart the engine", name)
}

// schedule returns one that must exist.
func (d *decider) schedule(name string) (*events.Schedule, error) {
	if s := d.state.schedules.get(name); s != nil {
		return s, nil
	}
	return nil, events.Refuse(events.CodeNotFound, "there is no schedule %q: check its name", events.Clip(name, 80))
}

// PauseSchedule stops a schedule's ticks, or lets them come again.
type PauseSchedule struct {
	Name   string
	Paused bool
}

func (c PauseSchedule) decide(d *decider) (Decision, error) {
	cur, err := d.schedule(c.Name)
	switch {
	case err != nil:
		return Decision{}, err
	case cur.Source == events.SourceFile:
		return Decision{}, scheduleInFile(c.Name)
	case cur.Paused == c.Paused:
		return Decision{Repeat: true}, nil
	}
	next := *cur
	next.Paused = c.Paused
	return Decision{Events: []events.Event{d.typeEvent(next.Type, &events.ScheduleSet{Schedule: next})}}, nil
}

// RemoveSchedule ends a schedule.
type RemoveSchedule struct {
	Name   string
	Source string // file, api
}

func (c RemoveSchedule) decide(d *decider) (Decision, error) {
	if c.Source != events.SourceFile && c.Source != events.SourceAPI {
		return Decision{}, events.Refuse(events.CodeBadRequest, "%q is no source: use %s or %s", events.Clip(c.Source, 64), events.SourceFile, events.SourceAPI)
	}
	cur, err := d.schedule(c.Name)
	switch {
	case err != nil:
		return Decision{}, err
	case cur.Source == events.SourceFile && c.Source == events.SourceAPI:
		return Decision{}, scheduleInFile(c.Name)
	case cur.Source == events.SourceAPI && c.Source == events.SourceFile:
		return Decision{Repeat: true}, nil // the file never had it
	}
	return Decision{Events: []events.Event{d.typeEvent(cur.Type, &events.ScheduleRemoved{Name: c.Name, Source: c.Source})}}, nil
}

// Fire answers a schedule's tick, and all before it. One that has been answered
// already is answered by a Repeat.
type Fire struct {
	Name    string
	Tick    time.Time // the tick that makes an item; Schedule.Next, or a later missed one; zero: none, but an item beside the ticks
	Next    time.Time // the one after; zero: none
	Skip    bool      // make no item
	Skipped int       // ticks that are passed over
	NewID   events.ID // fresh
	ID      events.ID // with the zero Tick: chosen by the caller, so that it may ask again
}

// decide answers a tick: in one decision with the item that it makes, so that
// neither is ever without the other. Whatever the submission meets, the tick is
// answered, or a full queue would stop the schedule.
func (c Fire) decide(d *decider) (Decision, error) {
	cur, err := d.schedule(c.Name)
	if err != nil {
		return Decision{}, err
	}
	if c.Tick.IsZero() {
		item := scheduledItem(cur, time.Time{}, c.NewID)
		item.ID = c.ID
		return d.submit(item)
	}
	switch {
	case cur.Paused:
		return Decision{}, events.Refuse(events.CodeWrongState, "schedule %s is paused: resume it first", c.Name)
	case cur.Next.IsZero() || c.Tick.Before(cur.Next):
		return Decision{Repeat: true, ID: cur.LastItem}, nil
	case c.Tick.After(d.now):
		return Decision{}, events.Refuse(events.CodeBadTime, "the tick %s of schedule %s has not come", c.Tick.Format(time.RFC3339Nano), c.Name)
	case !c.Next.IsZero() && !c.Next.After(c.Tick) || !events.Writable(c.Next) || c.Skipped < 0:
		return Decision{}, events.Refuse(events.CodeBadTime, "after the tick %s of schedule %s, %s can't be the next", c.Tick.Format(time.RFC3339Nano), c.Name, c.Next.Format(time.RFC3339Nano))
	}
	fired := &events.ScheduleFired{Name: c.Name, Tick: c.Tick.UTC().Round(0), Next: c.Next.UTC().Round(0), Skipped: c.Skipped}
	dec := Decision{}
	if !c.Skip {
		dec, err = d.submit(scheduledItem(cur, fired.Tick, c.NewID))
		var refused *events.Error
		if errors.As(err, &refused) && refused.Code != events.CodeInternal {
			fired.Code, fired.Error = refused.Code, events.Shorten(refused.Message, events.MaxErrorText)
		} else if err != nil {
			return Decision{}, err
		}
		fired.Item = dec.ID
	}
	dec.Events = append([]events.Event{d.typeEvent(cur.Type, fired)}, dec.Events...)
	return dec, nil
}

// scheduledItem returns the submission that a tick makes; the zero tick is one by hand.
func scheduledItem(s *events.Schedule, tick time.Time, id events.ID) *Submit {
	c := &Submit{
		Type: s.Type, Params: s.Params, NewID: id, Priority: s.Priority, MaxAttempts: s.MaxAttempts,
		Timeout: s.Timeout.Duration, Tenant: s.Tenant, Labels: s.Labels,
		Provenance: events.Provenance{Source: events.SourceSchedule, Trigger: s.Name},
	}
	if s.Overlap != events.DedupDistinct {
		c.DedupKey, c.DedupPolicy = events.SchedulesKey(s.Name), s.Overlap
	}
	if !tick.IsZero() {
		c.Labels = map[string]string{events.LabelTick: tick.Format(time.RFC3339Nano)}
		maps.Copy(c.Labels, s.Labels)
	}
	return c
}

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

// canonicalSchedule returns the schedule as it comes back from its JSON, so that the
// live state equals the state read from the log. REQUIRES: it is valid.
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

// Schedule returns the schedule of that name, or false if there is none.
func (s *State) Schedule(name string) (events.Schedule, bool) { return s.schedules.value(name) }

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
