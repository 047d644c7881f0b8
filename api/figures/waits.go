package figures

import (
	"math"
	"sync"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// Waits counts the queued items of each type and priority by their place: the
// moment from which they wait, see [Place].
type Waits struct {
	mu     sync.Mutex
	types  map[events.Type]*queues
	from   events.Seq // what is counted already: changes up to here are passed over
	loaded bool
	began  bool                                     // a load is under way, or done
	debts  map[events.Type]*[levels]map[int64]int64 // gone while the load was under way, and not found: by bucket of level 0
}

const levels = int(events.MaxPriority) + 1

type queues [levels]queue

// NewWaits makes Waits that count nothing until they are loaded.
func NewWaits() *Waits { return &Waits{} }

// Place is the moment from which a queued item waits, in nanoseconds since
// 1970: its place in the queue (when it was first queued, or due), or when it
// has become due since, if that is later. An item whose place lies ahead is
// scheduled: it may not run yet.
func Place(orderAt, availableAt time.Time) int64 {
	if availableAt.After(orderAt) {
		return availableAt.UnixNano()
	}
	return orderAt.UnixNano()
}

// Scan calls count for each queued item as of a position, which it first hands
// to begin; *projector.Store's EachQueued is one.
type Scan func(begin func(events.Seq), count func(t events.Type, p events.Priority, place int64) error) error

// Load counts what is queued by the projection, in place of what was counted
// before. It may run while Feed is called: what changes meanwhile is laid over
// the scan. now is the engine's time. It holds the lock for the start of the
// scan alone. After an error nothing is counted until the next Load.
//
// REQUIRES: no other Load is under way.
func (w *Waits) Load(now time.Time, scan Scan) error {
	scanned := &Waits{types: map[events.Type]*queues{}}
	w.mu.Lock()
	locked := true
	unlock := func() {
		if locked {
			locked = false
			w.mu.Unlock()
		}
	}
	err := scan(func(at events.Seq) {
		// The scan's snapshot is taken under the lock, so what is fed from here on
		// either lies at or below it, or is new.
		w.types, w.from, w.loaded, w.began = map[events.Type]*queues{}, at, false, true
		w.debts = map[events.Type]*[levels]map[int64]int64{}
		unlock()
	}, func(t events.Type, p events.Priority, place int64) error {
		scanned.queue(t, p).add(place, now.UnixNano())
		return nil
	})
	unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.types, w.debts, w.began = nil, nil, false
		return err
	}
	scanned.merge(w)
	w.types, w.debts, w.loaded = scanned.types, nil, true
	return nil
}

// merge lays what has changed since the scan over it.
func (w *Waits) merge(since *Waits) {
	for t, qs := range since.types {
		for p := range qs {
			q := w.queue(t, events.Priority(p))
			for b, n := range qs[p].buckets {
				q.buckets = grow(q.buckets)
				q.buckets[b] += n
				q.n += n
			}
		}
	}
	for t, ds := range since.debts {
		for p := range ds {
			q := w.queue(t, events.Priority(p))
			for i, n := range ds[p] {
				for range n {
					q.remove(i << bits0)
				}
			}
		}
	}
}

// Feed takes what a batch has changed. The batches come in order.
func (w *Waits) Feed(c *core.Changes) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.began || c.Meta.Applied <= w.from {
		return
	}
	w.from = c.Meta.Applied
	now := c.Meta.LastAt.UnixNano()
	for i := range c.Items {
		before, after := c.Items[i].Old, c.Items[i].New
		was, is := queued(before), queued(after)
		if was && is && before.Priority == after.Priority && before.OrderAt.Equal(after.OrderAt) && before.AvailableAt.Equal(after.AvailableAt) {
			continue
		}
		if was {
			w.gone(before)
		}
		if is {
			w.queue(after.Type, after.Priority).add(Place(after.OrderAt, after.AvailableAt), now)
		}
	}
}

func queued(it *events.Item) bool { return it != nil && it.State == events.StateQueued }

func (w *Waits) gone(it *events.Item) {
	place := Place(it.OrderAt, it.AvailableAt)
	if w.queue(it.Type, it.Priority).remove(place) || w.loaded {
		return
	}
	ds := w.debts[it.Type]
	if ds == nil {
		ds = &[levels]map[int64]int64{}
		w.debts[it.Type] = ds
	}
	if ds[it.Priority] == nil {
		ds[it.Priority] = map[int64]int64{}
	}
	ds[it.Priority][place>>bits0]++
}

func (w *Waits) queue(t events.Type, p events.Priority) *queue {
	qs := w.types[t]
	if qs == nil {
		qs = &queues{}
		w.types[t] = qs
	}
	return &qs[p]
}

// Wait is what waits at a priority of a type, or at several.
type Wait struct {
	Waiting   int64 // queued items that may run
	Scheduled int64 // queued items that may not run yet
	// P50 and P95 are how long half, and 95 %, of the waiting items have waited
	// at most; Oldest is the most that any has. They are right to the bounds that
	// the package's constants say: [Resolution], or 1/[Precision] of the age (of
	// the delay, for an item that was delayed), whichever is more.
	P50, P95, Oldest time.Duration
}

// Of is what waits of a type at each priority. ok is false while it is not
// known, since the load is under way.
func (w *Waits) Of(t events.Type, now time.Time) (out [levels]Wait, all Wait, ok bool) {
	by, ns, ok, known := w.spansOf(t, now)
	if !known {
		return out, all, ok
	}
	var every spans
	n := int64(0)
	for p := range by {
		out[p] = by[p].wait(ns[p])
		every = append(every, by[p]...)
		n += ns[p]
	}
	return out, every.wait(n), true
}

// spansOf are the spans of a type, and how many items it has queued, by priority.
// The sums of them are taken without the lock, which the projection needs.
func (w *Waits) spansOf(t events.Type, now time.Time) (by [levels]spans, ns [levels]int64, loaded, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	qs := w.types[t]
	if !w.loaded || qs == nil {
		return by, ns, w.loaded, false
	}
	for p := range qs {
		by[p], ns[p] = qs[p].spans(now.UnixNano()), qs[p].n
	}
	return by, ns, true, true
}

// Total is what waits of all types.
func (w *Waits) Total(now time.Time) (all Wait) {
	every, n := w.spansOfAll(now)
	return every.wait(n)
}

func (w *Waits) spansOfAll(now time.Time) (every spans, n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.loaded {
		return nil, 0
	}
	for _, qs := range w.types {
		for p := range qs {
			every = append(every, qs[p].spans(now.UnixNano())...)
		}
		n += qs.total()
	}
	return every, n
}

// LongerThan is how many items of a type and priority wait for longer than a
// time.
func (w *Waits) LongerThan(t events.Type, p events.Priority, than time.Duration, now time.Time) (n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	qs := w.types[t]
	if !w.loaded || qs == nil || than == math.MaxInt64 {
		return 0
	}
	for _, s := range qs[p].spans(now.UnixNano()) {
		if s.age > than {
			n += s.n
		}
	}
	return n
}
