package dispatcher

import (
	"cmp"
	"maps"
	"slices"

	"github.com/streamwright/streamwright/dispatcher/ahead"
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
)

// pool is a named number of slots that types share. Volatile, except for what claims check.
type pool struct {
	name   string
	slots  int
	types  []events.Type // sorted
	weight map[events.Type]int
	// weighted says that a type has a pool_weight, so that they take turns by weight.
	weighted bool
	// turn is each type's virtual time (stride scheduling): a run costs it 1/weight. It
	// decides between types with the same share of the pool.
	turn map[events.Type]float64
	now  float64 // virtual time of the last run
}

// pools holds the pools that any type is in. Owned by the loop.
type pools struct {
	byType map[events.Type]*pool
	byName map[string]*pool
}

func (p *pools) of(t events.Type) *pool {
	if len(p.byType) == 0 {
		return nil
	}
	return p.byType[t]
}

// findPools sets up the pools from the types' settings.
func (s *sender) findPools() {
	old := s.pools.byName
	s.pools = pools{byType: map[events.Type]*pool{}, byName: map[string]*pool{}}
	for _, t := range s.l.state.TypeNames() {
		set, _ := s.l.state.Settings(t)
		slots, limited := s.l.state.PoolSlots(set)
		if !limited {
			continue
		}
		p := s.pools.byName[set.Pool]
		if p == nil {
			p = &pool{name: set.Pool, slots: slots, weight: map[events.Type]int{}, turn: map[events.Type]float64{}}
			if was := old[set.Pool]; was != nil {
				p.turn, p.now = was.turn, was.now
			}
			s.pools.byName[set.Pool] = p
		}
		p.types = append(p.types, t)
		p.weight[t] = set.Weight()
		p.weighted = p.weighted || set.PoolWeight > 0
		s.pools.byType[t] = p
	}
}

// poolFull reports whether all slots of a pool are taken, counting dispatches on their way.
func (s *sender) poolFull(p *pool) bool {
	n := 0
	for _, t := range p.types {
		n += s.l.table.ByType[t].All
	}
	return max(int64(n), s.l.state.PoolRuns(p.name)) >= int64(p.slots)
}

// dispatchPools sends the ready items of the types that share pools.
func (s *sender) dispatchPools(tds []*typeDispatch) error {
	for _, name := range slices.Sorted(maps.Keys(s.pools.byName)) {
		var members []*typeDispatch
		for _, td := range tds {
			if td.pool == s.pools.byName[name] {
				members = append(members, td)
			}
		}
		if over, err := s.compete(members); err != nil || over {
			return err
		}
		s.settled(members) // if the pool is full, a freed slot makes them dirty again
	}
	return nil
}

// compareShares orders types by their share of a pool, relative to their weight, the
// smallest first. A slot that one type leaves goes to another. No type with something to
// run waits long behind its equals, since each slot it is given raises a type's share.
func (s *sender) compareShares(p *pool, a, b events.Type) int {
	if c := cmp.Compare(s.l.table.ByType[a].All*p.weight[b], s.l.table.ByType[b].All*p.weight[a]); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(max(p.turn[a], p.now), max(p.turn[b], p.now)), cmp.Compare(a, b))
}

func (p *pool) charge(t events.Type) {
	p.now = max(p.turn[t], p.now)
	p.turn[t] = p.now + 1/float64(p.weight[t])
}

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
		if s.l.table.ByType[other].All >= td.set.Capacity {
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
