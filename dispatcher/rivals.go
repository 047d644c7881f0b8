package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector"
)

// maxRivals bounds the lanes of other types in which the items ahead of another are
// counted.
const maxRivals = 100

// rivalry holds the lanes that compete with a type for a limit that is reached.
type rivalry struct {
	limit string // the limit's name; empty: no shared limit is reached
	lanes []rival
	cut   bool // there are more lanes
}

type rival struct {
	lane    lanes.Key
	ageStep time.Duration
}

// rivals returns the lanes of other types that could be sent something, were it not for a
// limit that they share with t and that is reached.
func (s *sender) rivals(t events.Type) (c rivalry) {
	p := s.pools.of(t)
	switch {
	case s.l.table.Total() >= s.l.cfg.MaxRunning:
		p, c.limit = nil, "max_running"
	case p != nil && s.poolFull(p):
		c.limit = "pool " + p.name
	default:
		return c
	}
	now := s.l.clock.Now()
	for other := range s.l.ready.Types() {
		if other == t || s.l.gates.stopped[other] || p != nil && s.pools.of(other) != p {
			continue
		}
		td := s.dispatchOf(other, now)
		if td.setAhead(1); s.l.table.ByType[other] >= td.set.Capacity {
			continue
		}
		names, _ := s.l.ready.BusyLanes(other)
		for name := range names {
			if s.laneRoom(td, name) <= 0 {
				continue
			}
			if c.cut = len(c.lanes) >= maxRivals; c.cut {
				return c
			}
			c.lanes = append(c.lanes, rival{lanes.Key{Type: other, Name: name}, td.pick.AgeStep})
		}
	}
	return c
}

// countAhead counts the queued items of other types that go before an item, by the
// projection, up to a limit.
func (c *rivalry) countAhead(store *projector.Store, it *events.Item, ageStep time.Duration, now time.Time, limit int) (n int, err error) {
	for _, r := range c.lanes {
		for p := range events.MaxPriority + 1 {
			if n >= limit {
				return n, nil
			}
			q := projector.ReadyQueue{Type: r.lane.Type, Lane: r.lane.Name, Priority: p}
			k, err := store.CountBefore(q, placeBefore(it, ageStep, p, r.ageStep), now, limit-n)
			if n += k; err != nil {
				return n, err
			}
		}
	}
	return n, nil
}
