package dispatcher

import (
	"github.com/streamwright/streamwright/dispatcher/ahead"
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
)

// rivals returns the lanes of other types that could be sent something, were it not for a
// limit that they share with t and that is reached.
func (s *sender) rivals(t events.Type) (c ahead.Rivals) {
	p := s.pools.of(t)
	switch {
	case s.l.table.Total() >= s.l.cfg.MaxRunning:
		p, c.Limit = nil, "max_running"
	case p != nil && s.poolFull(p):
		c.Limit = "pool " + p.name
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
			if c.Cut = len(c.Lanes) >= ahead.MaxRivals; c.Cut {
				return c
			}
			c.Lanes = append(c.Lanes, ahead.Rival{Lane: lanes.Key{Type: other, Name: name}, AgeStep: td.pick.AgeStep})
		}
	}
	return c
}
