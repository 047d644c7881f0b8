package dispatcher

import (
	"fmt"
	"time"

	"github.com/streamwright/streamwright/dispatcher/ahead"
	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/dispatcher/seats"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// limits holds what limits the dispatching of types, and reports what they leave room for.
// Owned by the loop.
type limits struct {
	state *core.State
	clock *clock.Clock
	cfg   *Config
	table *table.Table
	ready *readyq.Queues
	seats *seats.Seats
	gates *gates
	pools *pools
	acks  *ackRuns
	dirty dirty

	marks map[events.Type]string // each type's limits, to see them change
}

// full reports whether the engine has dispatched as many items as it may.
func (l *limits) full() bool { return l.table.Total() >= l.cfg.MaxRunning }

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

// typeDispatch holds the dispatching of a type's ready items during one step.
type typeDispatch struct {
	typ  events.Type
	set  events.TypeSettings
	pick readyq.Pick
	pool *pool // nil: none
	// waits says that an item goes first that is not in its queue yet.
	waits bool
	// While the type competes with others: its head, its place in the contest (-1: none),
	// and whether it has stopped for something that will pass by itself.
	next  readyq.Head
	place int
	again bool
}

func (l *limits) dispatchOf(t events.Type, now time.Time) *typeDispatch {
	td := &typeDispatch{typ: t, pool: l.pools.of(t), pick: readyq.Pick{Type: t, Now: now, Due: l.clock.Due(), Last: clock.Later(now, l.state.Meta().Ahead)}}
	td.set, _ = l.state.Settings(t)
	td.pick.AgeStep = l.ageStep(t, &td.set)
	td.pick.Admits = func(lane string) bool { return l.laneRoom(td, lane) > 0 }
	td.pick.Open = l.groupsOpen(t, &td.set, now)
	return td
}

// unpooled reports whether a type's pool is not set up, since a setting is not durable yet.
func (l *limits) unpooled(td *typeDispatch) bool {
	_, limited := l.state.PoolSlots(td.set)
	return limited && (td.pool == nil || td.pool.name != td.set.Pool)
}

// ageStep returns what a priority step of a type is worth in waiting time: nothing if the
// host scores the type, since the score sets the order.
func (l *limits) ageStep(t events.Type, set *events.TypeSettings) time.Duration {
	if l.cfg.Scores(t) {
		return 0
	}
	return set.AgeStep.Duration
}

// laneRoom returns how many more items of a lane may be dispatched.
func (l *limits) laneRoom(td *typeDispatch, lane string) int {
	if td.set.Ack() {
		return l.acks.window(td.typ, &td.set, lane)
	}
	return l.seats.Free(lanes.Key{Type: td.typ, Name: lane})
}

// open reports whether a type's own limits have room for one more item of a group.
func (l *limits) open(td *typeDispatch, group string) (bool, error) {
	if l.table.ByType[td.typ].All >= td.set.Capacity {
		return false, nil
	}
	if left, limited, err := l.gates.admitted(td.typ); err != nil || limited && left <= 0 {
		return false, err
	}
	if blocked, err := l.typeBlocked(td.typ, &td.set, td.pick.Now); blocked || err != nil {
		return false, err
	}
	if td.pick.Open == nil {
		return true, nil
	}
	open, _, err := td.pick.Open(group)
	return open, err
}

// groupsOpen returns the check of a type's groups, nil if it has no limits per group. A
// dispatch reserves a place, in the table; the claim checks again, and records.
func (l *limits) groupsOpen(t events.Type, set *events.TypeSettings, now time.Time) func(string) (bool, time.Time, error) {
	if !perGroup(set) {
		return nil
	}
	return func(group string) (bool, time.Time, error) { return l.groupOpen(t, group, set, now) }
}

// groupOpen reports whether one more item of a group may be dispatched. If not, it returns
// when it may (zero: once an item in flight has moved on).
func (l *limits) groupOpen(t events.Type, group string, set *events.TypeSettings, now time.Time) (bool, time.Time, error) {
	load := l.table.ByGroup[table.GroupKey{Type: t, Group: group}]
	if set.GroupCapacity > 0 {
		runs, err := l.state.GroupRuns(t, group)
		if err != nil || max(int64(load.All), runs) >= int64(set.GroupCapacity) {
			return false, time.Time{}, err
		}
	}
	return l.state.RatesAllow(t, group, load.Unclaimed, now)
}

// typeBlocked reports whether a type's own rate limits hold it.
func (l *limits) typeBlocked(t events.Type, set *events.TypeSettings, now time.Time) (bool, error) {
	if len(set.Rates) == 0 {
		return false, nil
	}
	return l.ready.TypeBlocked(t, now, func(string) (bool, time.Time, error) {
		return l.state.RatesAllow(t, "", l.table.ByType[t].Unclaimed, now)
	})
}

// typeChanged follows a type's settings. If its limits have changed, it looks anew at what is
// held back, and at which types share pools.
func (l *limits) typeChanged(t *events.TypeInfo) {
	mark := limitsMark(t.Settings)
	if was, known := l.marks[t.Type]; known && was == mark {
		return
	}
	l.marks[t.Type] = mark
	l.ready.ReleaseType(t.Type)
	l.pools.find()
	for _, p := range l.pools.byName {
		l.dirty.mark(p.types...)
	}
}

// limitsMark returns a string that differs if the limits in two settings differ.
func limitsMark(s events.TypeSettings) string {
	if s.Pool == "" && s.GroupCapacity == 0 && len(s.Rates) == 0 {
		return ""
	}
	return fmt.Sprint(s.Pool, s.PoolWeight, s.GroupCapacity, s.Rates)
}

// rivals returns the lanes of other types that could be sent something, were it not for a
// limit that they share with t and that is reached.
func (l *limits) rivals(t events.Type) (c ahead.Rivals) {
	p := l.pools.of(t)
	switch {
	case l.full():
		p, c.Limit = nil, "max_running"
	case p != nil && l.pools.full(p):
		c.Limit = "pool " + p.name
	default:
		return c
	}
	now := l.clock.Now()
	for other := range l.ready.Types() {
		if other == t || l.gates.stopped[other] || p != nil && l.pools.of(other) != p {
			continue
		}
		td := l.dispatchOf(other, now)
		if l.table.ByType[other].All >= td.set.Capacity {
			continue
		}
		names, _ := l.ready.BusyLanes(other)
		for name := range names {
			if l.laneRoom(td, name) <= 0 {
				continue
			}
			if c.Cut = len(c.Lanes) >= ahead.MaxRivals; c.Cut {
				return c
			}
			c.Lanes = append(c.Lanes, ahead.Rival{Lane: lanes.Key{Type: other, Name: name}, AgeStep: td.pick.AgeStep})
		}
	}
	return c
}
