package events

import (
	"errors"
	"maps"
	"time"
)

// setSchedule makes or replaces a schedule. Nothing that it says may bring back
// a tick that has been answered.
func (d *decider) setSchedule(c SetSchedule) (Decision, error) {
	next := c.Schedule.WithDefaults()
	if err := next.Validate(); err != nil {
		return Decision{}, err
	}
	if next.Type == BatchType {
		return Decision{}, errBatchType
	}
	next.LastTick, next.LastItem, next.LastCode, next.LastError = time.Time{}, ID{}, "", ""
	next, err := next.canonical()
	if err != nil {
		return Decision{}, err
	}
	cur := d.s.schedules.get(next.Name)
	switch {
	case cur == nil && d.s.schedules.len() >= MaxSchedules:
		return Decision{}, Refuse(CodeTooLarge, "schedule %s would be the %dth: an engine has at most %d; remove one that is no longer needed", next.Name, MaxSchedules+1, MaxSchedules)
	case cur != nil && next.Source == SourceAPI && cur.Source == SourceFile:
		return Decision{}, scheduleInFile(next.Name)
	case next.EveryMS != 0 && next.Anchor.IsZero():
		return Decision{}, Refuse(CodeBadRequest, "schedule %s: the interval has no anchor", next.Name)
	}
	keeps := cur != nil && !c.Replan && next.SameTiming(cur) && !cur.Next.IsZero()
	if keeps {
		next.Next = cur.Next
	}
	if cur != nil {
		next.LastTick, next.LastItem, next.LastCode, next.LastError = cur.LastTick, cur.LastItem, cur.LastCode, cur.LastError
		if next.equal(cur) {
			return Decision{Repeat: true}, nil
		}
	}
	if !keeps {
		if next.Next.IsZero() {
			return Decision{}, Refuse(CodeBadRequest, "schedule %s never comes: no moment in the next ten years matches %q", next.Name, next.Cron)
		}
		if !next.Next.After(next.LastTick) || !writable(next.Next) {
			return Decision{}, Refuse(CodeBadTime, "schedule %s: its first tick, %s, lies before the last that was answered: set it again", next.Name, next.Next.Format(time.RFC3339Nano))
		}
	}
	return Decision{Events: []Event{d.scheduleEvent(next.Type, &ScheduleSet{Schedule: next})}}, nil
}

func (d *decider) scheduleEvent(t Type, b Body) Event {
	return Event{Kind: b.kind(), Type: t, At: d.now, Body: b}
}

func scheduleInFile(name string) error {
	return Refuse(CodeSetInFile, "engine.toml sets the schedule %s: change it there and restart the engine", name)
}

// schedule returns one that must exist.
func (d *decider) schedule(name string) (*Schedule, error) {
	if s := d.s.schedules.get(name); s != nil {
		return s, nil
	}
	return nil, Refuse(CodeNotFound, "there is no schedule %q: check its name", clip(name, 80))
}

func (d *decider) pauseSchedule(c PauseSchedule) (Decision, error) {
	cur, err := d.schedule(c.Name)
	switch {
	case err != nil:
		return Decision{}, err
	case cur.Source == SourceFile:
		return Decision{}, scheduleInFile(c.Name)
	case cur.Paused == c.Paused:
		return Decision{Repeat: true}, nil
	}
	next := *cur
	next.Paused = c.Paused
	return Decision{Events: []Event{d.scheduleEvent(next.Type, &ScheduleSet{Schedule: next})}}, nil
}

func (d *decider) removeSchedule(c RemoveSchedule) (Decision, error) {
	if c.Source != SourceFile && c.Source != SourceAPI {
		return Decision{}, Refuse(CodeBadRequest, "%q is no source: use %s or %s", clip(c.Source, 64), SourceFile, SourceAPI)
	}
	cur, err := d.schedule(c.Name)
	switch {
	case err != nil:
		return Decision{}, err
	case cur.Source == SourceFile && c.Source == SourceAPI:
		return Decision{}, scheduleInFile(c.Name)
	case cur.Source == SourceAPI && c.Source == SourceFile:
		return Decision{Repeat: true}, nil // the file never had it
	}
	return Decision{Events: []Event{d.scheduleEvent(cur.Type, &ScheduleRemoved{Name: c.Name, Source: c.Source})}}, nil
}

// fire answers a tick: in one decision with the item that it makes, so that
// neither is ever without the other. Whatever the submission meets, the tick is
// answered, or a full queue would stop the schedule.
func (d *decider) fire(c Fire) (Decision, error) {
	cur, err := d.schedule(c.Name)
	if err != nil {
		return Decision{}, err
	}
	if c.Tick.IsZero() {
		item := cur.item(time.Time{}, c.NewID)
		item.ID = c.ID
		return d.submit(item)
	}
	switch {
	case cur.Paused:
		return Decision{}, Refuse(CodeWrongState, "schedule %s is paused: resume it first", c.Name)
	case cur.Next.IsZero() || c.Tick.Before(cur.Next):
		return Decision{Repeat: true, ID: cur.LastItem}, nil
	case c.Tick.After(d.now):
		return Decision{}, Refuse(CodeBadTime, "the tick %s of schedule %s has not come", c.Tick.Format(time.RFC3339Nano), c.Name)
	case !c.Next.IsZero() && !c.Next.After(c.Tick) || !writable(c.Next) || c.Skipped < 0:
		return Decision{}, Refuse(CodeBadTime, "after the tick %s of schedule %s, %s can't be the next", c.Tick.Format(time.RFC3339Nano), c.Name, c.Next.Format(time.RFC3339Nano))
	}
	fired := &ScheduleFired{Name: c.Name, Tick: c.Tick.UTC().Round(0), Next: c.Next.UTC().Round(0), Skipped: c.Skipped}
	dec := Decision{}
	if !c.Skip {
		dec, err = d.submit(cur.item(fired.Tick, c.NewID))
		var refused *Error
		if errors.As(err, &refused) && refused.Code != CodeInternal {
			fired.Code, fired.Error = refused.Code, text(refused.Message, MaxErrorText)
		} else if err != nil {
			return Decision{}, err
		}
		fired.Item = dec.ID
	}
	dec.Events = append([]Event{d.scheduleEvent(cur.Type, fired)}, dec.Events...)
	return dec, nil
}

// item is the submission that a tick makes; the zero tick is one by hand.
func (s *Schedule) item(tick time.Time, id ID) *Submit {
	c := &Submit{
		Type: s.Type, Params: s.Params, NewID: id, Priority: s.Priority, MaxAttempts: s.MaxAttempts,
		Timeout: time.Duration(s.TimeoutMS) * time.Millisecond, Tenant: s.Tenant, Labels: s.Labels,
		Provenance: Provenance{Source: SourceSchedule, Trigger: s.Name},
	}
	if s.Overlap != DedupDistinct {
		c.DedupKey, c.DedupPolicy = SchedulesKey(s.Name), s.Overlap
	}
	if !tick.IsZero() {
		c.Labels = map[string]string{LabelTick: tick.Format(time.RFC3339Nano)}
		maps.Copy(c.Labels, s.Labels)
	}
	return c
}
