package dispatcher

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector"
)

// Bounds of one dispatch step, before the loop looks again at other work: items, and index
// entries read to find them.
const (
	maxStepPushes = 256
	maxStepRead   = 16 * 1024
)

func random() uint64 { return rand.Uint64() }

// dispatch gives ready items to the workers that have room, best first. While no limit that
// types share can bind, it looks at each type by itself; otherwise the types compete: see
// contest.go.
func (s *sender) dispatch() error {
	s.stalled = false
	now := s.l.clock.Now()
	s.l.ready.MakeRoom(now)
	if err := s.l.workforce.findLanes(); err != nil || len(s.dirty) == 0 {
		return err
	}
	if s.l.table.Total() >= s.l.cfg.MaxRunning {
		return nil
	}
	s.pushes = 0
	s.l.ready.ResetRead()
	tds := s.tds[:0]
	for t := range s.dirty {
		tds = append(tds, s.dispatchOf(t, now))
	}
	s.takeTurns(tds)
	s.tds = tds
	err := s.dispatchTypes(tds)
	clear(tds)
	if !s.stalled {
		s.looks = 0
	}
	return err
}

// takeTurns puts the types in an order that has each come first in its turn.
func (s *sender) takeTurns(tds []*typeDispatch) {
	if len(tds) < 2 {
		return
	}
	slices.SortFunc(tds, func(a, b *typeDispatch) int { return cmp.Compare(a.typ, b.typ) })
	s.turn = (s.turn + 1) % len(tds)
	rest := slices.Clone(tds[:s.turn])
	copy(tds[copy(tds, tds[s.turn:]):], rest)
}

func (s *sender) dispatchTypes(tds []*typeDispatch) error {
	if s.scarce(tds) {
		return s.dispatchScarce(tds)
	}
	for _, td := range tds {
		if td.pool != nil {
			continue
		}
		again, err := s.dispatchType(td)
		if err != nil {
			return err
		}
		if !again {
			delete(s.dirty, td.typ)
		}
	}
	return s.dispatchPools(tds)
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

func (s *sender) dispatchOf(t events.Type, now time.Time) *typeDispatch {
	td := &typeDispatch{typ: t, pool: s.pools.of(t), pick: readyq.Pick{Type: t, Now: now, Due: s.l.clock.Due(), Last: clock.Later(now, s.l.state.Meta().Ahead)}}
	td.set, _ = s.l.state.Settings(t)
	td.pick.AgeStep = s.ageStep(t, &td.set)
	td.pick.Admits = func(lane string) bool { return s.laneRoom(td, lane) > 0 }
	td.pick.Open = s.groupsOpen(t, &td.set, now)
	return td
}

// unpooled reports whether a type's pool is not set up, since a setting is not durable yet.
func (s *sender) unpooled(td *typeDispatch) bool {
	_, limited := s.l.state.PoolSlots(td.set)
	return limited && (td.pool == nil || td.pool.name != td.set.Pool)
}

// ageStep returns what a priority step of a type is worth in waiting time: nothing if the
// host scores the type, since the score sets the order.
func (s *sender) ageStep(t events.Type, set *events.TypeSettings) time.Duration {
	if s.l.cfg.Scores(t) {
		return 0
	}
	return set.AgeStep()
}

// laneRoom returns how many more items of a lane may be dispatched.
func (s *sender) laneRoom(td *typeDispatch, lane string) int {
	if td.set.Ack() {
		return s.l.acked.room(td.typ, &td.set, lane)
	}
	return s.l.assigner.seats.Free(lanes.Key{Type: td.typ, Name: lane})
}

// dispatchType sends a type's ready items while there is room. again says that it stopped
// for something that will pass by itself.
func (s *sender) dispatchType(td *typeDispatch) (again bool, err error) {
	for {
		if s.l.table.Total() >= s.l.cfg.MaxRunning {
			return true, nil
		}
		b, ok, again, err := s.candidate(td)
		if err != nil || !ok {
			return again, err
		}
		if err := s.send(td, &b); err != nil {
			return false, err
		}
	}
}

// candidate returns the next item of a type, if there is one and the type's own limits have
// room for it.
func (s *sender) candidate(td *typeDispatch) (b readyq.Head, ok, again bool, err error) {
	if s.pushes >= maxStepPushes || s.l.ready.Read() >= maxStepRead {
		s.stalled = true
		return readyq.Head{}, false, true, nil
	}
	if td.waits || !td.set.Ack() && !s.l.pipe.room() {
		return readyq.Head{}, false, true, nil // it goes on behind the append
	}
	if s.l.table.ByType[td.typ].All >= td.set.Capacity {
		return readyq.Head{}, false, false, nil
	}
	if left, limited, err := s.l.gates.admitted(td.typ); err != nil || limited && left <= 0 {
		return readyq.Head{}, false, false, err
	}
	if blocked, err := s.typeBlocked(td.typ, &td.set, td.pick.Now); blocked || err != nil {
		return readyq.Head{}, false, false, err
	}
	b, ok, stalled, err := s.l.ready.Best(td.pick)
	if err != nil || !ok {
		s.stalled = s.stalled || stalled
		return readyq.Head{}, false, stalled, err
	}
	return b, true, false, nil
}

// send dispatches a head.
func (s *sender) send(td *typeDispatch, b *readyq.Head) error {
	s.pushes++
	if td.set.Ack() {
		b.Take()
		return s.push(b.Key.ID, &td.set, td.pick.Now)
	}
	if first, err := s.l.assigner.before(td, b); err != nil {
		return err
	} else if first != nil { // the head is looked at again
		// A group that is held back may have items that go before it.
		if td.waits = first.held || td.pick.Open != nil; td.waits {
			return nil
		}
		return s.l.assigner.give(first, td.pick.Now)
	}
	b.Take()
	return s.assign(td, b)
}

// assign gives a head to a worker.
func (s *sender) assign(td *typeDispatch, b *readyq.Head) error {
	it, err := s.l.state.Item(b.Key.ID)
	if err != nil || it == nil || it.State != events.StateQueued || s.l.table.ByID[it.ID] != nil {
		return err // claimed or changed in the batch being built
	}
	if it.Priority != b.Priority() || projector.ReadyKeyOf(it) != b.Key {
		return nil // rescheduled in that batch: it is fresh
	}
	taken, err := s.l.assigner.assign(it, b.Lane, &td.set, td.pick.Now)
	if taken || err != nil {
		return err
	}
	if it, err = s.l.state.Item(b.Key.ID); err != nil {
		return err
	}
	return s.l.flight.readyIfDue(it, td.pick.Due) // another worker may have it
}

// open reports whether a type's own limits have room for one more item of a group.
func (s *sender) open(td *typeDispatch, group string) (bool, error) {
	if s.l.table.ByType[td.typ].All >= td.set.Capacity {
		return false, nil
	}
	if left, limited, err := s.l.gates.admitted(td.typ); err != nil || limited && left <= 0 {
		return false, err
	}
	if blocked, err := s.typeBlocked(td.typ, &td.set, td.pick.Now); blocked || err != nil {
		return false, err
	}
	if td.pick.Open == nil {
		return true, nil
	}
	open, _, err := td.pick.Open(group)
	return open, err
}

// push sends an item of an ack type under a fresh token.
func (s *sender) push(id events.ID, set *events.TypeSettings, now time.Time) error {
	it, err := s.l.state.Item(id)
	if err != nil {
		return err
	}
	if it == nil || it.State != events.StateQueued || s.l.table.ByID[id] != nil {
		return nil // changed in the batch being built
	}
	params, err := s.l.state.Params(id)
	if err != nil {
		return err
	}
	s.tokens++
	d := &table.Dispatch{ID: id, Token: events.NewToken(s.l.state.Meta().Epoch, s.tokens), Type: it.Type, Group: it.Group, Priority: it.Priority, At: now, Lease: set.Lease(), Ack: true}
	s.l.table.Add(d)
	s.l.acked.push(d, it, params)
	if h := s.l.cfg.Hooks.Dispatched; h != nil {
		h(it.Type)
	}
	return nil
}

// prefetch reads the items of a page at once, instead of one by one as they are dispatched.
func (s *sender) prefetch(keys []projector.ReadyKey) error {
	ids := make([]events.ID, len(keys))
	for i, k := range keys {
		ids[i] = k.ID
	}
	return s.l.state.Prefetch(ids, true)
}

// sender chooses what is dispatched next, and sends it. Owned by the loop.
type sender struct {
	l *loop

	tokens uint64 // tokens given out in this epoch
	pools  pools
	marks  map[events.Type]string // each type's limits, to see them change

	dirty   map[events.Type]bool // types whose ready items must be looked at
	stalled bool                 // it stopped at a bound, and must go on at once
	pushes  int                  // items taken in this step
	looks   int                  // steps in a row that only looked for heads of competing types
	tds     []*typeDispatch      // reused by the next step
	turn    int                  // place of the type that came first, of those of the last step
}
