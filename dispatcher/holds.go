package dispatcher

import (
	"container/heap"
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/events"
)

// maxHolds bounds the groups that are remembered as held. What is held beyond
// them is looked at again, ring by ring, every lookAgain at most.
const (
	maxHolds  = 16384
	lookAgain = time.Second
)

// holdKey names what is held: a group of a type, or (whole) the type. The empty
// group, which no limit holds, stands for what found no room in holds.
type holdKey struct {
	typ   events.Type
	group string
	whole bool
}

// hold is why something is not dispatched: until a time, or (zero) until one of
// its runs or dispatches has ended or begun.
type hold struct {
	key   holdKey
	until time.Time
	rings []*ring // that have it no longer in memory
	place int     // in the heap
}

// holds are what limits keep from being dispatched. Owned by the loop.
type holds struct {
	byKey map[holdKey]*hold
	timed holdHeap
}

func newHolds() *holds { return &holds{byKey: map[holdKey]*hold{}} }

// keeps reports whether a group is held and will be restored to a ring.
func (h *holds) keeps(t events.Type, group string, rg *ring) bool {
	if len(h.byKey) == 0 || group == "" {
		return false
	}
	held := h.byKey[holdKey{typ: t, group: group}]
	return held != nil && slices.Contains(held.rings, rg)
}

// put holds a key, and has a ring (nil: none) told of its release.
func (h *holds) put(key holdKey, until, now time.Time, rg *ring) {
	held := h.byKey[key]
	if held == nil && len(h.byKey) >= maxHolds && !key.whole {
		again := now.Add(lookAgain)
		if until.After(again) {
			again = until
		}
		key, until = holdKey{typ: key.typ}, again
		if held = h.byKey[key]; held != nil && until.Before(held.until) {
			held.until = until
			heap.Fix(&h.timed, held.place)
		}
	}
	if held == nil {
		held = &hold{key: key, until: until}
		h.byKey[key] = held
		if !until.IsZero() {
			heap.Push(&h.timed, held)
		}
	}
	held.join(rg)
}

func (held *hold) join(rg *ring) {
	if rg != nil && !slices.Contains(held.rings, rg) {
		held.rings = append(held.rings, rg)
		rg.held++
	}
}

// release ends a hold, if there is one, and reports whether there was.
func (h *holds) release(key holdKey) bool {
	held := h.byKey[key]
	if held == nil {
		return false
	}
	delete(h.byKey, key)
	if !held.until.IsZero() {
		heap.Remove(&h.timed, held.place)
	}
	for _, rg := range held.rings {
		rg.held--
		if key.group == "" {
			rg.forget()
		} else {
			rg.restore(key.group)
		}
	}
	return true
}

// drop forgets a ring that is no longer in memory.
func (h *holds) drop(rg *ring) {
	if rg.held == 0 {
		return
	}
	for _, held := range h.byKey {
		held.rings = slices.DeleteFunc(held.rings, func(r *ring) bool { return r == rg })
	}
	rg.held = 0
}

// next is when the first hold ends by time, zero for never.
func (h *holds) next() time.Time {
	if len(h.timed) == 0 {
		return time.Time{}
	}
	return h.timed[0].until
}

// holdHeap has the hold that ends first in front.
type holdHeap []*hold

func (h holdHeap) Len() int           { return len(h) }
func (h holdHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h holdHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].place, h[j].place = i, j }

func (h *holdHeap) Push(x any) {
	held := x.(*hold)
	held.place = len(*h)
	*h = append(*h, held)
}

func (h *holdHeap) Pop() any {
	old := *h
	held := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return held
}

// endHolds ends the holds whose time has come.
func (l *loop) endHolds(now time.Time) {
	for clock.Passed(l.holds.next(), now) {
		key := l.holds.timed[0].key
		l.holds.release(key)
		l.dirty[key.typ] = true
	}
}

// endTypesHolds ends all holds of a type: what they rest on may be another.
func (l *loop) endTypesHolds(t events.Type) {
	for key := range l.holds.byKey {
		if key.typ == t {
			l.holds.release(key)
			l.dirty[t] = true
		}
	}
}

// endOpenHolds ends the holds that wait for something to happen, in case it
// was missed.
func (l *loop) endOpenHolds() {
	for key, held := range l.holds.byKey {
		if held.until.IsZero() {
			l.holds.release(key)
			l.dirty[key.typ] = true
		}
	}
}

// roomChanged tells the holds and the pool that a dispatch of a type and group has
// begun to run, or has ended: what was held for it is looked at again.
func (l *loop) roomChanged(t events.Type, group string) {
	if len(l.holds.byKey) > 0 {
		freed := group != "" && l.holds.release(holdKey{typ: t, group: group})
		if l.holds.release(holdKey{typ: t, whole: true}) || freed {
			l.dirty[t] = true
		}
	}
	if p := l.pools.of(t); p != nil {
		for _, member := range p.types {
			l.dirty[member] = true
		}
	}
}
