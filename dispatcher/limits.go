package dispatcher

import (
	"fmt"
	"time"

	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
)

// perGroup reports whether a type has limits on each group.
func perGroup(set *events.TypeSettings) bool {
	if set.GroupCapacity > 0 {
		return true
	}
	for _, r := range set.Rates {
		if r.At == events.AtDispatch && r.Per != events.PerType {
			return true
		}
	}
	return false
}

// groupsOpen returns the check of a type's groups, nil if it has no limits per group. A
// dispatch reserves a place, in the table; the claim checks again, and records.
func (s *sender) groupsOpen(t events.Type, set *events.TypeSettings, now time.Time) func(string) (bool, time.Time, error) {
	if !perGroup(set) {
		return nil
	}
	return func(group string) (bool, time.Time, error) { return s.groupOpen(t, group, set, now) }
}

// groupOpen reports whether one more item of a group may be dispatched. If not, it returns
// when it may (zero: once an item in flight has moved on).
func (s *sender) groupOpen(t events.Type, group string, set *events.TypeSettings, now time.Time) (bool, time.Time, error) {
	load := s.l.table.ByGroup[table.GroupKey{Type: t, Group: group}]
	if set.GroupCapacity > 0 {
		runs, err := s.l.state.GroupRuns(t, group)
		if err != nil || max(int64(load.All), runs) >= int64(set.GroupCapacity) {
			return false, time.Time{}, err
		}
	}
	return s.l.state.RatesAllow(t, group, load.Unclaimed, now)
}

// typeBlocked reports whether a type's own rate limits hold it.
func (s *sender) typeBlocked(t events.Type, set *events.TypeSettings, now time.Time) (bool, error) {
	if len(set.Rates) == 0 {
		return false, nil
	}
	return s.l.ready.TypeBlocked(t, now, func(string) (bool, time.Time, error) {
		return s.l.state.RatesAllow(t, "", s.l.table.ByType[t].Unclaimed, now)
	})
}

// limitsMayHaveChanged follows a type's change. If its limits have changed, it looks anew
// at what is held back, and at which types share pools.
func (s *sender) limitsMayHaveChanged(t *events.TypeInfo) {
	mark := limitsMark(t.Settings)
	if was, known := s.marks[t.Type]; known && was == mark {
		return
	}
	s.marks[t.Type] = mark
	s.l.ready.ReleaseType(t.Type)
	s.findPools()
	for _, p := range s.pools.byName {
		for _, member := range p.types {
			s.dirty[member] = true
		}
	}
}

// limitsMark returns a string that differs if the limits in two settings differ.
func limitsMark(s events.TypeSettings) string {
	if s.Pool == "" && s.GroupCapacity == 0 && len(s.Rates) == 0 {
		return ""
	}
	return fmt.Sprint(s.Pool, s.PoolWeight, s.GroupCapacity, s.Rates)
}
