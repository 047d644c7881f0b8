package dispatcher

import (
	"container/heap"
	"maps"
	"slices"

	"github.com/streamwright/streamwright/events"
)

// Types compete where a limit that they share can bind: max_running, a pool, or the room of
// workers that serve several types. Then the heads of all types are compared by rank, and
// the highest goes first. What is dispatched never gives way.

// maxLooks bounds the steps in a row that dispatch nothing because the heads of some types
// must still be read from the index. After that, the types with known heads stop waiting.
const maxLooks = 1024

// scarce reports whether max_running, or workers that are assigned items of several types,
// may lack room for all that the types could be sent.
func (s *sender) scarce(tds []*typeDispatch) bool {
	free := s.cfg.MaxRunning - s.table.Total()
	wanted := 0
	for _, td := range tds {
		n := s.demand(td)
		if free -= n; free < 0 {
			return true
		}
		wanted += n
	}
	return s.seats.Shared() && wanted > s.seats.FreeAll()
}

// demand returns the most items of a type that could be sent now.
func (s *sender) demand(td *typeDispatch) int {
	most := td.set.Capacity - s.table.ByType[td.typ].All
	if td.pool != nil {
		most = min(most, td.pool.slots)
	}
	names, known := s.ready.BusyLanes(td.typ)
	if !known { // not opened yet
		return max(0, min(most, s.laneRoom(td, "")))
	}
	n := 0
	for name := range names {
		n += max(0, s.laneRoom(td, name))
	}
	return max(0, min(most, n))
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

// dispatchScarce dispatches where a shared limit can bind.
func (s *sender) dispatchScarce(tds []*typeDispatch) error {
	over, err := s.compete(tds)
	if err != nil || over {
		return err // all stay dirty, to compete for the next place
	}
	s.settled(tds)
	return nil
}

// settled notes that the types have nothing more to dispatch, except those that stopped for
// something that will pass by itself.
func (s *sender) settled(tds []*typeDispatch) {
	for _, td := range tds {
		if !td.again {
			delete(s.dirty, td.typ)
		}
	}
}

// contest is a heap of the types that have a head to dispatch, by the head's rank.
type contest []*typeDispatch

// compete dispatches the heads of types, the highest rank first. over says that it ended
// early: max_running is full, or this step has done enough.
func (s *sender) compete(tds []*typeDispatch) (over bool, err error) {
	c, unknown := make(contest, 0, len(tds)), false
	for _, td := range tds {
		ok, err := s.look(td)
		if err != nil {
			return false, err
		}
		unknown = unknown || td.again
		if td.place = -1; ok {
			td.place, c = len(c), append(c, td)
		}
	}
	if unknown && s.looks < maxLooks {
		if s.pushes == 0 {
			s.looks++
		}
		return true, nil // a head that is still to be read may be the best
	}
	heap.Init(&c)
	for len(c) > 0 {
		td := s.nextOf(c)
		if s.laneRoom(td, td.next.Lane) <= 0 { // another type has got its worker's slot
			if err := s.lookAgain(&c, td); err != nil {
				return false, err
			}
			continue
		}
		if s.full() {
			return true, nil
		}
		if td.pool != nil && s.pools.full(td.pool) {
			heap.Remove(&c, td.place)
			continue
		}
		if err := s.send(td, &td.next); err != nil {
			return false, err
		}
		if td.pool != nil {
			td.pool.charge(td.typ)
		}
		if err := s.lookAgain(&c, td); err != nil {
			return false, err
		}
		if td.again && s.looks < maxLooks {
			return true, nil
		}
	}
	return false, nil
}

// look finds a type's head.
func (s *sender) look(td *typeDispatch) (ok bool, err error) {
	td.next, ok, td.again, err = s.candidate(td)
	return ok, err
}

// lookAgain finds a type's head, and updates its place in the contest.
func (s *sender) lookAgain(c *contest, td *typeDispatch) error {
	ok, err := s.look(td)
	switch {
	case err != nil:
		return err
	case ok && td.place >= 0:
		heap.Fix(c, td.place)
	case ok:
		heap.Push(c, td)
	case td.place >= 0:
		heap.Remove(c, td.place)
	}
	return nil
}

// nextOf returns the type whose head is dispatched next: the one of the highest rank. Types
// of a weighted pool with heads of the same priority take turns instead.
func (s *sender) nextOf(c contest) *typeDispatch {
	next := c[0]
	if next.pool == nil || !next.pool.weighted {
		return next
	}
	for _, td := range c[1:] {
		if td.pool == next.pool && td.priority() == next.priority() && s.pools.compareShares(td.pool, td.typ, next.typ) < 0 {
			next = td
		}
	}
	return next
}

func (td *typeDispatch) priority() events.Priority { return td.next.Priority() }

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (c contest) Len() int { return len(c) }

func (c contest) Less(i, j int) bool {
	a, b := &c[i].next, &c[j].next
	if a.Rank != b.Rank {
		return a.Rank > b.Rank
	}
	return a.Key.Less(b.Key)
}

func (c contest) Swap(i, j int) {
	c[i], c[j] = c[j], c[i]
	c[i].place, c[j].place = i, j
}

// Push adds a type.
func (c *contest) Push(x any) {
	td := x.(*typeDispatch)
	td.place = len(*c)
	*c = append(*c, td)
}

// Pop removes the last.
func (c *contest) Pop() any {
	last := len(*c) - 1
	td := (*c)[last]
	(*c)[last], td.place = nil, -1
	*c = (*c)[:last]
	return td
}
