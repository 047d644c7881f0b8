package figures

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// MaxAwaited bounds the pairs of a type and the name of a signal whose items are counted apart:
// the first that are waited for. The others are counted together, under TypesTogether.
const MaxAwaited = 200

// Awaited counts the items of a type that wait for a signal.
type Awaited struct {
	Type   string
	Signal string
	Items  int64 // an item that waits for any of several counts for each
	// Oldest is the longest of their waits, as exact as [Wait].Oldest.
	Oldest time.Duration
}

// awaits says what waits for signals. Guarded by the mu of Figures.
type awaits struct {
	loaded bool
	upTo   events.Seq // what is counted already: changes up to here are passed over
	// since holds the changes while a load is under way, nil else.
	since map[call]int64
	by    map[awaited]*queue // at most MaxAwaited, and one for the others; none is ever removed
}

// awaited names what an item waits for; call adds when it began to wait, to the Resolution.
type (
	awaited struct {
		typ    events.Type
		signal string
	}
	call struct {
		awaited
		index int64
	}
)

// LoadAwaited counts what waits for signals by the projection, in place of what was counted
// before, as Load does what is queued.
//
// REQUIRES: no other LoadAwaited is under way.
func (f *Figures) LoadAwaited(now time.Time, scan func(begin func(events.Seq), count func(*events.Item) error) error) error {
	scanned := awaits{by: map[awaited]*queue{}}
	f.mu.Lock()
	unlock := sync.OnceFunc(f.mu.Unlock)
	err := scan(func(at events.Seq) {
		// As in Load: what is fed from here on either lies at or below the scan, or is new.
		f.awaits = awaits{upTo: at, since: map[call]int64{}}
		unlock()
	}, func(it *events.Item) error {
		scanned.count(it, 1, now.UnixNano())
		return nil
	})
	unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	changes, upTo := f.awaits.since, f.awaits.upTo
	if f.awaits = (awaits{}); err != nil {
		return err
	}
	for _, come := range []int64{1, -1} { // first what has come: what is gone may be taken from its bucket
		for at, n := range changes {
			for range n * come {
				scanned.change(at, come, now.UnixNano())
			}
		}
	}
	scanned.loaded, scanned.upTo = true, upTo
	f.awaits = scanned
	return nil
}

// feed counts what a batch has changed.
func (a *awaits) feed(c *core.Changes) {
	if !a.loaded && a.since == nil || c.Meta.Applied <= a.upTo {
		return
	}
	a.upTo = c.Meta.Applied
	for i := range c.Items {
		if old, new := c.Items[i].Old, c.Items[i].New; waitOfItem(old) != waitOfItem(new) {
			a.count(old, -1, c.Meta.LastAt.UnixNano())
			a.count(new, 1, c.Meta.LastAt.UnixNano())
		}
	}
}

// waitOfItem returns the wait that an item is in; nil for none.
func waitOfItem(it *events.Item) *events.Wait {
	if it == nil {
		return nil
	}
	return it.Wait()
}

// count counts an item that has come (1) or gone (-1).
func (a *awaits) count(it *events.Item, n, now int64) {
	w := waitOfItem(it)
	if w == nil {
		return
	}
	for _, name := range w.Names {
		a.change(call{awaited{it.Type, name}, w.Since.UnixNano() >> bits0}, n, now)
	}
}

func (a *awaits) change(at call, n, now int64) {
	if a.since != nil {
		a.since[at] += n
		return
	}
	q := a.queue(at.awaited)
	if n > 0 {
		q.add(at.index<<bits0, now)
	} else {
		q.remove(at.index << bits0)
	}
}

// queue returns the queue of the items that wait for a signal.
func (a *awaits) queue(of awaited) *queue {
	q := a.by[of]
	if q == nil && len(a.by) >= MaxAwaited {
		of = awaited{TypesTogether, TypesTogether}
		q = a.by[of]
	}
	if q == nil {
		q = &queue{}
		a.by[of] = q
	}
	return q
}

// Awaited returns what waits for signals, by type and name: also those for which nothing waits
// any more. It returns nothing while that is not known.
func (f *Figures) Awaited(now time.Time) (all []Awaited) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at, q := range f.awaits.by {
		spans := q.spans(nil, now.UnixNano())
		all = append(all, Awaited{string(at.typ), at.signal, q.n, waitOf(spans, q.n).Oldest})
	}
	slices.SortFunc(all, func(a, b Awaited) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Signal, b.Signal)) })
	return all
}
