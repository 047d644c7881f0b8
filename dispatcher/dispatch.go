package dispatcher

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/ready"
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
	now := s.clock.Now()
	s.ready.MakeRoom(now)
	stalled, err := s.ready.FindLanes() // that newly registered workers serve
	s.stalled = stalled
	if err != nil || len(s.dirty) == 0 || s.full() {
		return err
	}
	s.pushes = 0
	s.ready.ResetRead()
	tds := s.tds[:0]
	for t := range s.dirty {
		tds = append(tds, s.dispatchOf(t, now))
	}
	s.takeTurns(tds)
	s.tds = tds
	err = s.dispatchTypes(tds)
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

// dispatchType sends a type's ready items while there is room. again says that it stopped
// for something that will pass by itself.
func (s *sender) dispatchType(td *typeDispatch) (again bool, err error) {
	for {
		if s.full() {
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
	if s.pushes >= maxStepPushes || s.ready.Read() >= maxStepRead {
		s.stalled = true
		return readyq.Head{}, false, true, nil
	}
	if td.waits || !td.set.Ack() && !s.room() {
		return readyq.Head{}, false, true, nil // it goes on behind the append
	}
	if s.table.ByType[td.typ].All >= td.set.Capacity {
		return readyq.Head{}, false, false, nil
	}
	if left, limited, err := s.gates.admitted(td.typ); err != nil || limited && left <= 0 {
		return readyq.Head{}, false, false, err
	}
	if blocked, err := s.typeBlocked(td.typ, &td.set, td.pick.Now); blocked || err != nil {
		return readyq.Head{}, false, false, err
	}
	b, ok, stalled, err := s.ready.Best(td.pick)
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
		return s.acks.push(b.Key.ID, &td.set, td.pick.Now)
	}
	if first, err := s.assigner.before(td, b); err != nil {
		return err
	} else if first != nil { // the head is looked at again
		// A group that is held back may have items that go before it.
		if td.waits = first.held || td.pick.Open != nil; td.waits {
			return nil
		}
		return s.assigner.give(first, td.pick.Now)
	}
	b.Take()
	return s.assign(td, b)
}

// assign gives a head to a worker.
func (s *sender) assign(td *typeDispatch, b *readyq.Head) error {
	it, err := s.state.Item(b.Key.ID)
	if err != nil || it == nil || it.State != events.StateQueued || s.table.ByID[it.ID] != nil {
		return err // claimed or changed in the batch being built
	}
	if it.Priority != b.Priority() || ready.KeyOf(it) != b.Key {
		return nil // rescheduled in that batch: it is fresh
	}
	taken, err := s.assigner.assign(it, b.Lane, &td.set, td.pick.Now)
	if taken || err != nil {
		return err
	}
	if it, err = s.state.Item(b.Key.ID); err != nil || it.AvailableAt.After(td.pick.Due) {
		return err
	}
	return s.assigner.flight.makeReady(it) // another worker may have it
}

// sender chooses what is dispatched next, and sends it. Owned by the loop.
type sender struct {
	*limits
	assigner *assigner
	room     func() bool // for a decision in the batch being built

	stalled bool            // it stopped at a bound, and must go on at once
	pushes  int             // items taken in this step
	looks   int             // steps in a row that only looked for heads of competing types
	tds     []*typeDispatch // reused by the next step
	turn    int             // place of the type that came first, of those of the last step
}
