package dispatcher

import (
	"math/rand/v2"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/readyq"
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

// dispatch sends what is ready to the lanes that have room, best first. While no
// limit that types share can bind, each type is looked at by itself; else the
// types compete: see contest.go.
func (l *loop) dispatch() error {
	l.stalled = false
	now := l.clock.Now()
	l.ready.MakeRoom(now)
	if err := l.findLanes(); err != nil || len(l.dirty) == 0 {
		return err
	}
	if l.hold.After(now) || l.allTaken() {
		return nil
	}
	l.stepPushes = 0
	l.ready.ResetRead()
	tds := l.tds[:0]
	for t := range l.dirty {
		tds = append(tds, l.dispatchOf(t, now))
	}
	l.tds = tds
	err := l.dispatchTypes(tds)
	clear(tds)
	if !l.stalled {
		l.looks = 0
	}
	return err
}

func (l *loop) dispatchTypes(tds []*typeDispatch) error {
	if l.scarce(tds) {
		return l.dispatchScarce(tds)
	}
	for _, td := range tds {
		if td.pool != nil {
			continue
		}
		again, err := l.dispatchType(td)
		if err != nil {
			return err
		}
		if !again {
			delete(l.dirty, td.typ)
		}
	}
	return l.dispatchPools(tds)
}

// typeDispatch is the dispatching of a type's ready items at one moment.
type typeDispatch struct {
	typ  events.Type
	set  events.TypeSettings
	pick readyq.Pick
	pool *pool // nil: none
	// ahead is how many items a lane may have in flight for each slot.
	ahead int
	// While it competes with others: the item that it would be sent next, its place
	// in the contest (-1: none), and that it has stopped for something that will
	// pass by itself.
	next  readyq.Head
	place int
	again bool
}

func (l *loop) dispatchOf(t events.Type, now time.Time) *typeDispatch {
	td := &typeDispatch{typ: t, pool: l.pools.of(t), pick: readyq.Pick{Type: t, Now: now, Due: l.clock.Due(), Last: clock.Later(now, l.state.Meta().Ahead)}}
	td.set, _ = l.state.Settings(t)
	td.pick.AgeStep = l.ageStep(t, &td.set)
	td.setAhead(prefetch)
	td.pick.Admits = func(lane string) bool { return l.laneRoom(td, lane) > 0 }
	td.pick.Open = l.groupsOpen(t, &td.set, now)
	return td
}

// setAhead says how many items a lane may have in flight for each slot. In a pool
// it is one: what waits for a busy worker would keep a slot from others.
func (td *typeDispatch) setAhead(n int) {
	if td.ahead = n; td.pool != nil {
		td.ahead = 1
	}
}

// AgeStep is what a priority of a type is worth, in time waited: nothing where
// the host's score has said all.
func (l *loop) ageStep(t events.Type, set *events.TypeSettings) time.Duration {
	if l.cfg.scores(t) {
		return 0
	}
	return set.AgeStep()
}

// laneRoom is how many more items of a lane may be dispatched.
func (l *loop) laneRoom(td *typeDispatch, lane string) int {
	key := lanes.Key{Type: td.typ, Name: lane}
	if td.set.Native() { // nobody registers, so nobody is known to have a capability
		if lane != "" || !l.acked.ready[td.typ] {
			return 0
		}
		return nativeWindow(&td.set) - l.table.byLane[key]
	}
	return l.window(key, td.ahead) - l.table.byLane[key]
}

// window is how many items of a lane may be dispatched or running, with so many
// for each slot.
func (l *loop) window(key lanes.Key, ahead int) int {
	return min(l.table.held.away[key]+ahead*l.laneSlots(key), lanes.MaxPending)
}

// dispatchType sends a type's ready items as long as there is room. again says
// that it stopped for something that will pass by itself.
func (l *loop) dispatchType(td *typeDispatch) (again bool, err error) {
	for {
		if l.table.total() >= l.cfg.MaxRunning {
			return true, nil
		}
		b, ok, again, err := l.candidate(td)
		if err != nil || !ok {
			return again, err
		}
		if err := l.send(td, &b); err != nil {
			return false, err
		}
	}
}

// candidate is the item of a type that goes next, if there is one and the type's
// own limits have room for it.
func (l *loop) candidate(td *typeDispatch) (b readyq.Head, ok, again bool, err error) {
	if l.stepPushes >= maxStepPushes || l.ready.Read() >= maxStepRead {
		l.stalled = true
		return readyq.Head{}, false, true, nil
	}
	if l.table.byType[td.typ] >= td.set.Capacity {
		return readyq.Head{}, false, false, nil
	}
	if left, limited, err := l.admitted(td.typ); err != nil || limited && left <= 0 {
		return readyq.Head{}, false, false, err
	}
	if blocked, err := l.typeBlocked(td.typ, &td.set, td.pick.Now); blocked || err != nil {
		return readyq.Head{}, false, false, err
	}
	b, ok, stalled, err := l.ready.Best(td.pick)
	if err != nil || !ok {
		l.stalled = l.stalled || stalled
		return readyq.Head{}, false, stalled, err
	}
	return b, true, false, nil
}

// send dispatches a head.
func (l *loop) send(td *typeDispatch, b *readyq.Head) error {
	b.Take()
	l.stepPushes++
	return l.push(b.Key.ID, b.Lane, td.set, td.pick.Now)
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
	d := &dispatched{id: id, token: events.NewToken(l.state.Meta().Epoch, l.tokens), typ: it.Type, lane: lane, group: it.Group, at: now, native: set.Native(), lease: set.Lease()}
	d.priority, d.rank = it.Priority, readyq.RankOf(it.Priority, l.ageStep(it.Type, &set), projector.ReadyKeyOf(it))
	l.table.add(d)
	if d.native {
		l.acked.pushNative(d, it, params, set.Lease())
	} else {
		l.out.Push(it, params, d.token, set.Lease(), lane)
	}
	if l.nextAck.IsZero() {
		l.nextAck = now.Add(pushTimeout)
	}
	if h := l.cfg.Hooks.Dispatched; h != nil {
		h(it.Type)
	}
	return nil
}

// maxSlotsKnown bounds the lanes whose slots are remembered: people may ask about
// any.
const maxSlotsKnown = 4096

// laneSlots is how many slots the workers of a lane have together.
func (l *loop) laneSlots(key lanes.Key) int {
	n, known := l.slots[key]
	if !known {
		n, _ = l.registry.Slots(key.Type, key.Name)
		if len(l.slots) >= maxSlotsKnown {
			clear(l.slots)
		}
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
