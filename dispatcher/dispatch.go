package dispatcher

import (
	"math/rand/v2"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector"
)

// prefetch is how many items a lane may have in flight for each slot of its
// workers: one that runs and one on its way, so that no slot idles, and an
// urgent item waits behind little.
const prefetch = 2

func random() uint64 { return rand.Uint64() }

// dispatch sends what is ready to the lanes that have room, best first.
func (l *loop) dispatch() error {
	l.stalled = false
	if len(l.dirty) == 0 {
		return nil
	}
	now := l.clock.now()
	if l.hold.After(now) {
		return nil
	}
	for t := range l.dirty {
		again, err := l.dispatchType(t, now)
		if err != nil {
			return err
		}
		if !again {
			delete(l.dirty, t)
		}
	}
	return nil
}

// dispatchType sends a type's ready items as long as there is room. again says
// that it stopped for something that will pass by itself.
func (l *loop) dispatchType(t events.Type, now time.Time) (again bool, err error) {
	set, _ := l.state.Settings(t)
	admits := func(lane string) bool {
		key := laneKey{t, lane}
		return l.table.byLane[key] < min(l.table.held.away[key]+prefetch*l.laneSlots(key), maxPending)
	}
	left, limited, err := l.admitted(t)
	if err != nil {
		return false, err
	}
	for l.table.byType[t] < set.Capacity && (!limited || left > 0) {
		left--
		if l.table.total() >= l.cfg.MaxRunning {
			return true, nil
		}
		step := set.AgeStep()
		if l.cfg.scores(t) {
			step = 0 // the score has said all
		}
		b, ok, stalled, err := l.ready.best(t, step, now, admits)
		if err != nil || !ok {
			l.stalled = l.stalled || stalled
			return stalled, err
		}
		b.win.remove(b.key)
		if err := l.push(b.key.ID, b.lane, set, now); err != nil {
			return false, err
		}
	}
	return false, nil
}

// push sends one item to its lane under a fresh token.
func (l *loop) push(id events.ID, lane string, set events.TypeSettings, now time.Time) error {
	it, err := l.state.Item(id)
	if err != nil {
		return err
	}
	if it == nil || it.State != events.StateQueued || l.table.byID[id] != nil {
		return nil // claimed or changed in the batch that is being built
	}
	params, err := l.state.Params(id)
	if err != nil {
		return err
	}
	l.tokens++
	d := &dispatched{id: id, token: events.NewToken(l.state.Meta().Epoch, l.tokens), typ: it.Type, lane: lane, at: now}
	l.table.add(d)
	l.out.push(it, params, d.token, set.Lease(), lane)
	if l.nextAck.IsZero() {
		l.nextAck = now.Add(pushTimeout)
	}
	if h := l.cfg.Hooks.Dispatched; h != nil {
		h(it.Type)
	}
	return nil
}

// laneSlots is how many slots the workers of a lane have together.
func (l *loop) laneSlots(key laneKey) int {
	n, known := l.slots[key]
	if !known {
		n, _ = l.registry.slots(key.typ, key.lane)
		l.slots[key] = n
	}
	return n
}

// prefetch reads the items of a page in one go, in place of one by one as they
// are dispatched.
func (l *loop) prefetch(keys []projector.ReadyKey) error {
	ids := make([]events.ID, len(keys))
	for i, k := range keys {
		ids[i] = k.ID
	}
	return l.state.Prefetch(ids, true)
}
