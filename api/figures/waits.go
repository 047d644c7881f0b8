package figures

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

const levels = int(events.MaxPriority) + 1

// queues count the queued items of a type by priority.
type queues [levels]queue

// waits says what the queues hold. Guarded by the mu of Figures.
type waits struct {
	loaded bool
	upTo   events.Seq // what is counted already: changes up to here are passed over
	// since holds the changes while a load is under way, nil else.
	since map[spot]int64
}

// spot identifies where a queued item is counted, to the Resolution.
type spot struct {
	typ      events.Type
	priority events.Priority
	index    int64
}

// Place returns the moment from which a queued item waits, in nanoseconds since
// 1970: its place in the queue (when it was first queued, or due), or when it
// has become due since, if that is later. An item whose place lies ahead is
// scheduled: it may not run yet.
func Place(orderAt, availableAt time.Time) int64 { return later(orderAt, availableAt).UnixNano() }

// Scan calls count for each queued item as of a position, which it first hands
// to begin; *projector.Store's EachQueued is one.
type Scan func(begin func(events.Seq), count func(t events.Type, p events.Priority, place int64) error) error

// Load counts what is queued by the projection, in place of what was counted
// before. It may run while Feed is called: what changes meanwhile is laid over
// the scan. now is the engine's time. It holds the lock for the start of the
// scan alone. After an error nothing that waits is counted until the next Load.
//
// REQUIRES: no other Load is under way.
func (f *Figures) Load(now time.Time, scan Scan) error {
	scanned := map[events.Type]*queues{}
	f.mu.Lock()
	unlock := sync.OnceFunc(f.mu.Unlock)
	err := scan(func(at events.Seq) {
		// The scan's snapshot is taken under the lock, so what is fed from here on
		// either lies at or below it, or is new.
		f.waits = waits{upTo: at, since: map[spot]int64{}}
		unlock()
	}, func(t events.Type, p events.Priority, place int64) error {
		if scanned[t] == nil {
			scanned[t] = &queues{}
		}
		scanned[t][p].add(place, now.UnixNano())
		return nil
	})
	unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	changes := f.since
	f.loaded, f.since = err == nil, nil
	for _, t := range f.types {
		t.queues = queues{}
	}
	if err != nil {
		return err
	}
	for name, qs := range scanned {
		if t := f.of(name); t != nil {
			t.queues = *qs
		}
	}
	for _, come := range []int64{1, -1} { // first what has come: what is gone may be taken from its bucket
		for at, n := range changes {
			for range n * come {
				f.change(at, come, now.UnixNano())
			}
		}
	}
	return nil
}

// wait takes what a batch has changed in the queues.
func (f *Figures) wait(c *core.Changes) {
	if !f.loaded && f.since == nil || c.Meta.Applied <= f.upTo {
		return
	}
	f.upTo = c.Meta.Applied
	now := c.Meta.LastAt.UnixNano()
	for i := range c.Items {
		before, was := spotOf(c.Items[i].Old)
		after, is := spotOf(c.Items[i].New)
		if was && is && before == after {
			continue
		}
		if was {
			f.change(before, -1, now)
		}
		if is {
			f.change(after, 1, now)
		}
	}
}

func spotOf(it *events.Item) (at spot, queued bool) {
	if it == nil || it.State != events.StateQueued {
		return at, false
	}
	return spot{it.Type, it.Priority, Place(it.OrderAt, it.AvailableAt) >> bits0}, true
}

// change counts an item that has come (1) or gone (-1).
func (f *Figures) change(at spot, n, now int64) {
	if f.since != nil {
		f.since[at] += n
		return
	}
	t := f.of(at.typ)
	switch {
	case t == nil:
	case n > 0:
		t.queues[at.priority].add(at.index<<bits0, now)
	default:
		t.queues[at.priority].remove(at.index << bits0)
	}
}

// Wait holds what waits at a priority of a type, or at several.
type Wait struct {
	Waiting   int64 // queued items that may run
	Scheduled int64 // queued items that may not run yet
	// P50 and P95 are percentiles of the time that waiting items have waited;
	// Oldest is the maximum. They are right within [Resolution], or 1/[Precision]
	// of the age (of the delay, for an item that was delayed), whichever is more.
	P50, P95, Oldest time.Duration
}

// Waits returns what waits of a type at each priority, and in all. ok is false
// while that is not known, since the load is under way.
func (f *Figures) Waits(t events.Type, now time.Time) (by [levels]Wait, all Wait, ok bool) {
	spans, ns, ok := f.spans(now, t)
	var every []span
	n := int64(0)
	for p := range spans {
		by[p] = waitOf(spans[p], ns[p])
		every = append(every, spans[p]...)
		n += ns[p]
	}
	return by, waitOf(every, n), ok
}

// TotalWait returns what waits of all types.
func (f *Figures) TotalWait(now time.Time) Wait {
	spans, ns, _ := f.spans(now)
	n := int64(0)
	for _, of := range ns {
		n += of
	}
	return waitOf(slices.Concat(spans[:]...), n)
}

// spans returns the spans of a type, or of all types, and how many items are
// queued, by priority. What follows from them is worked out without the lock,
// which the projection needs.
func (f *Figures) spans(now time.Time, only ...events.Type) (by [levels][]span, ns [levels]int64, loaded bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.loaded {
		return by, ns, false
	}
	add := func(t *typeFigures) {
		for p := range t.queues {
			by[p] = t.queues[p].spans(by[p], now.UnixNano())
			ns[p] += t.queues[p].n
		}
	}
	if len(only) == 0 {
		for _, t := range f.types {
			add(t)
		}
	}
	for _, name := range only {
		if t := f.types[name]; t != nil {
			add(t)
		}
	}
	return by, ns, true
}

// LongerThan returns how many items of a type and priority wait for longer than a
// time.
func (f *Figures) LongerThan(t events.Type, p events.Priority, than time.Duration, now time.Time) (n int64) {
	if than == math.MaxInt64 {
		return 0
	}
	spans, _, _ := f.spans(now, t)
	for _, s := range spans[p] {
		if s.age > than {
			n += s.n
		}
	}
	return n
}
