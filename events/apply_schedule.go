package events

// applySchedule folds in what happens to schedules. A tick lies at or behind
// the one that was due next, so none is ever answered twice.
func (s *State) applySchedule(ev Event) error {
	switch b := ev.Body.(type) {
	case *ScheduleSet:
		if cur := s.schedules.get(b.Schedule.Name); cur == nil && s.schedules.len() >= MaxSchedules {
			return s.corrupt(ev, "there are %d schedules already", MaxSchedules)
		} else if cur != nil && cur.LastTick.After(b.Schedule.LastTick) {
			return s.corrupt(ev, "schedule %s goes back to a tick that has been answered", b.Schedule.Name)
		}
		s.schedules.set(b.Schedule.Name, b.Schedule)
	case *ScheduleRemoved:
		if s.schedules.get(b.Name) == nil {
			return s.corrupt(ev, "there is no schedule %s", b.Name)
		}
		s.schedules.remove(b.Name)
	case *ScheduleFired:
		cur := s.schedules.get(b.Name)
		if cur == nil {
			return s.corrupt(ev, "there is no schedule %s", b.Name)
		}
		if cur.Next.IsZero() || b.Tick.Before(cur.Next) {
			return s.corrupt(ev, "the tick %s of schedule %s has been answered", b.Tick, b.Name)
		}
		next := *cur
		next.Next, next.LastTick, next.LastCode, next.LastError = b.Next, b.Tick, b.Code, b.Error
		if !b.Item.IsZero() {
			next.LastItem = b.Item
		}
		s.schedules.set(b.Name, next)
	}
	return nil
}
