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

// The bounds of what is dispatched in one go, before the loop looks again at what
// waits for it: items, and index entries read to find them.
const (
	maxStepPushes = 256
	maxStepRead   = 16 * 1024
)

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
	l.stepPushes, l.ready.read = 0, 0
	for t := range l.dirty {
		if l.pools.of(t) != nil {
			continue
		}
		again, err := l.dispatchType(t, now)
		if err != nil {
			return err
		}
		if !again {
			delete(l.dirty, t)
		}
	}
	return l.dispatchPools(now)
}

// typeDispatch is the dispatching of a type's ready items at one moment.
type typeDispatch struct {
	typ  events.Type
	set  events.TypeSettings
	pick picking
}

func (l *loop) dispatchOf(t events.Type, now time.Time) *typeDispatch {
	td := &typeDispatch{typ: t, pick: picking{typ: t, now: now}}
	td.set, _ = l.state.Settings(t)
	if !l.cfg.scores(t) { // else the score has said all
		td.pick.ageStep = td.set.AgeStep()
	}
	ahead := prefetch
	if l.pools.of(t) != nil {
		ahead = 1 // what waits for a busy worker would keep a slot from others
	}
	td.pick.admits = func(lane string) bool {
		key := laneKey{t, lane}
		if td.set.Native() { // nobody registers, so nobody is known to have a capability
			return lane == "" && l.native.ready[t] && l.table.byLane[key] < nativeWindow(&td.set)
		}
		return l.table.byLane[key] < min(l.table.held.away[key]+ahead*l.laneSlots(key), maxPending)
	}
	td.pick.blocked = l.groupBlocked(t, &td.set, now)
	return td
}

// dispatchType sends a type's ready items as long as there is room. again says
// that it stopped for something that will pass by itself.
func (l *loop) dispatchType(t events.Type, now time.Time) (again bool, err error) {
	td := l.dispatchOf(t, now)
	for sent := true; sent && err == nil; {
		sent, again, err = l.dispatchOne(td)
	}
	return again, err
}

// dispatchOne sends the item of a type that goes next, if there is one and
// room for it.
func (l *loop) dispatchOne(td *typeDispatch) (sent, again bool, err error) {
	if l.stepPushes >= maxStepPushes || l.ready.read >= maxStepRead {
		l.stalled = true
		return false, true, nil
	}
	if l.table.byType[td.typ] >= td.set.Capacity {
		return false, false, nil
	}
	if l.table.total() >= l.cfg.MaxRunning {
		return false, true, nil
	}
	if left, limited, err := l.admitted(td.typ); err != nil || limited && left <= 0 {
		return false, false, err
	}
	if blocked, err := l.typeBlocked(td.typ, &td.set, td.pick.now); blocked || err != nil {
		return false, false, err
	}
	b, ok, stalled, err := l.ready.best(td.pick)
	if err != nil || !ok {
		l.stalled = l.stalled || stalled
		return false, stalled, err
	}
	b.take()
	l.stepPushes++
	return true, false, l.push(b.key.ID, b.lane, td.set, td.pick.now)
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
	d := &dispatched{id: id, token: events.NewToken(l.state.Meta().Epoch, l.tokens), typ: it.Type, lane: lane, group: it.Group, at: now, native: set.Native()}
	l.table.add(d)
	if d.native {
		l.pushNative(d, it, params, set.Lease())
	} else {
		l.out.push(it, params, d.token, set.Lease(), lane)
	}
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
