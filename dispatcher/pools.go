package dispatcher

import (
	"cmp"

	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
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
	state *core.State
	table *table.Table

	byType map[events.Type]*pool
	byName map[string]*pool
}

func (ps *pools) of(t events.Type) *pool {
	if len(ps.byType) == 0 {
		return nil
	}
	return ps.byType[t]
}

// find sets up the pools from the types' settings.
func (ps *pools) find() {
	old := ps.byName
	ps.byType, ps.byName = map[events.Type]*pool{}, map[string]*pool{}
	for _, t := range ps.state.TypeNames() {
		set, _ := ps.state.Settings(t)
		slots, limited := ps.state.PoolSlots(set)
		if !limited {
			continue
		}
		p := ps.byName[set.Pool]
		if p == nil {
			p = &pool{name: set.Pool, slots: slots, weight: map[events.Type]int{}, turn: map[events.Type]float64{}}
			if was := old[set.Pool]; was != nil {
				p.turn, p.now = was.turn, was.now
			}
			ps.byName[set.Pool] = p
		}
		p.types = append(p.types, t)
		p.weight[t] = set.Weight()
		p.weighted = p.weighted || set.PoolWeight > 0
		ps.byType[t] = p
	}
}

// full reports whether all slots of a pool are taken, counting dispatches on their way.
func (ps *pools) full(p *pool) bool {
	n := 0
	for _, t := range p.types {
		n += ps.table.ByType[t].All
	}
	return max(int64(n), ps.state.PoolRuns(p.name)) >= int64(p.slots)
}

// compareShares orders types by their share of a pool, relative to their weight, the
// smallest first. A slot that one type leaves goes to another. No type with something to
// run waits long behind its equals, since each slot it is given raises a type's share.
func (ps *pools) compareShares(p *pool, a, b events.Type) int {
	if c := cmp.Compare(ps.table.ByType[a].All*p.weight[b], ps.table.ByType[b].All*p.weight[a]); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(max(p.turn[a], p.now), max(p.turn[b], p.now)), cmp.Compare(a, b))
}

func (p *pool) charge(t events.Type) {
	p.now = max(p.turn[t], p.now)
	p.turn[t] = p.now + 1/float64(p.weight[t])
}
