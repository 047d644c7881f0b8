package readyq

import (
	"container/heap"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

// maxThrottled bounds the groups remembered as throttled. Groups beyond it are looked at
// again, ring by ring, at most once every lookAgain.
const (
	maxThrottled = 16384
	lookAgain    = time.Second
)

// throttleKey names what is throttled: a group of a type, or (whole) the type. The empty
// group, which no limit throttles, stands for groups that found no room in throttled.
type throttleKey struct {
	typ   events.Type
	group string
	whole bool
}

// throttle holds back a group or type until a time, or (zero) until one of its runs or
// dispatches has ended or begun.
type throttle struct {
	key   throttleKey
	until time.Time
	rings []*ring // rings that no longer have it in memory
	place int     // index in the heap
}

// throttled holds the groups and types that limits keep from being dispatched. Owned by the
// loop.
type throttled struct {
	byKey map[throttleKey]*throttle
	timed throttleHeap
	again func(events.Type) // called with each type of which something was released
}

// blocked reports whether a key is throttled, or is from now on because open reports that a
// limit holds it. rg, if not nil, then hears of the release.
func (h *throttled) blocked(key throttleKey, rg *ring, now time.Time, open func(group string) (bool, time.Time, error)) (bool, error) {
	if held := h.byKey[key]; held != nil {
		held.join(rg)
		return true, nil
	}
	ok, at, err := open(key.group)
	if ok || err != nil {
		return false, err
	}
	h.put(key, at, now, rg)
	return true, nil
}

// end releases the throttles that match.
func (h *throttled) end(match func(throttleKey, *throttle) bool) {
	for key, held := range h.byKey {
		if match(key, held) {
			h.release(key)
			h.again(key.typ)
		}
	}
}

// keeps reports whether a group is throttled and will be restored to a ring.
func (h *throttled) keeps(t events.Type, group string, rg *ring) bool {
	if len(h.byKey) == 0 || group == "" {
		return false
	}
	held := h.byKey[throttleKey{typ: t, group: group}]
	return held != nil && slices.Contains(held.rings, rg)
}

// put throttles a key; rg, if not nil, hears of the release.
func (h *throttled) put(key throttleKey, until, now time.Time, rg *ring) {
	held := h.byKey[key]
	if held == nil && len(h.byKey) >= maxThrottled && !key.whole {
		again := now.Add(lookAgain)
		if until.After(again) {
			again = until
		}
		key, until = throttleKey{typ: key.typ}, again
		if held = h.byKey[key]; held != nil && until.Before(held.until) {
			held.until = until
			heap.Fix(&h.timed, held.place)
		}
	}
	if held == nil {
		held = &throttle{key: key, until: until}
		h.byKey[key] = held
		if !until.IsZero() {
			heap.Push(&h.timed, held)
		}
	}
	held.join(rg)
}

func (held *throttle) join(rg *ring) {
	if rg != nil && !slices.Contains(held.rings, rg) {
		held.rings = append(held.rings, rg)
		rg.held++
	}
}

// release ends a throttle, if there is one, and reports whether there was.
func (h *throttled) release(key throttleKey) bool {
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
func (h *throttled) drop(rg *ring) {
	if rg.held == 0 {
		return
	}
	for _, held := range h.byKey {
		held.rings = slices.DeleteFunc(held.rings, func(r *ring) bool { return r == rg })
	}
	rg.held = 0
}

// next returns when the first throttle ends by time, zero for never.
func (h *throttled) next() time.Time {
	if len(h.timed) == 0 {
		return time.Time{}
	}
	return h.timed[0].until
}

// throttleHeap is a heap with the throttle that ends first in front.
type throttleHeap []*throttle

func (h throttleHeap) Len() int           { return len(h) }
func (h throttleHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h throttleHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].place, h[j].place = i, j }

func (h *throttleHeap) Push(x any) {
	held := x.(*throttle)
	held.place = len(*h)
	*h = append(*h, held)
}

func (h *throttleHeap) Pop() any {
	old := *h
	held := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return held
}

// TypeBlocked reports whether a limit holds a whole type. It calls open if that is not
// known yet: see Pick.Open.
func (r *Queues) TypeBlocked(t events.Type, now time.Time, open func(group string) (bool, time.Time, error)) (bool, error) {
	return r.throttled.blocked(throttleKey{typ: t, whole: true}, nil, now, open)
}

// NextRelease returns when the first throttle ends by time, zero for never.
func (r *Queues) NextRelease() time.Time { return r.throttled.next() }

// Release ends the throttling whose time has come.
func (r *Queues) Release(now time.Time) {
	for h := &r.throttled; len(h.timed) > 0 && !h.timed[0].until.After(now); {
		key := h.timed[0].key
		h.release(key)
		h.again(key.typ)
	}
}

// ReleaseType ends all throttling of a type: its limits may have changed.
func (r *Queues) ReleaseType(t events.Type) {
	r.throttled.end(func(key throttleKey, _ *throttle) bool { return key.typ == t })
}

// ReleaseWaiting ends the throttling that waits for an event, in case the event was missed.
func (r *Queues) ReleaseWaiting() {
	r.throttled.end(func(_ throttleKey, held *throttle) bool { return held.until.IsZero() })
}

// Moved says that a dispatch of a type and group has begun to run, or has ended: what
// waited for that is looked at again.
func (r *Queues) Moved(t events.Type, group string) {
	h := &r.throttled
	if len(h.byKey) == 0 {
		return
	}
	freed := group != "" && h.release(throttleKey{typ: t, group: group})
	if h.release(throttleKey{typ: t, whole: true}) || freed {
		h.again(t)
	}
}

// EachThrottled calls fn with each type, or group of it, that a limit holds, and until when
// (zero: until one of its dispatches or runs moves on).
func (r *Queues) EachThrottled(fn func(t events.Type, group string, whole bool, until time.Time)) {
	for key, held := range r.throttled.byKey {
		fn(key.typ, key.group, key.whole, held.until)
	}
}
