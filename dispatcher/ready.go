package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector"
)

// maxScan bounds the index entries that one page reads: entries that are
// dispatched already or not due yet are passed over.
const maxScan = 2048

// maxPages bounds the pages that one call of best reads.
const maxPages = 8

const levels = int(events.MaxPriority) + 1

// readyQueues are the queues of what may run, a window for each type, lane and
// priority. Owned by the loop.
type readyQueues struct {
	types map[events.Type]map[string]*lane
	index readyIndex
	table *table
	// newLane, if set, is told of a lane with capabilities that is first used.
	newLane func(events.Type, string)
	// unprojected, if set, calls fn for the changes that the index may not show
	// yet, in order.
	unprojected func(fn func(before, after *events.Item))
	// prefetch, if set, is told of keys whose items will be asked for soon.
	prefetch func([]projector.ReadyKey) error
}

// readyIndex is the projection's ordered index of queued items.
type readyIndex interface {
	Ready(t events.Type, lane string, p events.Priority, behind projector.ReadyKey, limit int) ([]projector.ReadyEntry, error)
	ReadyQueues() ([]projector.ReadyQueue, error)
}

// lane holds the levels of a type's lane. A level is nil until something has
// been queued at its priority.
type lane struct {
	levels [levels]*window[projector.ReadyKey]
}

// newReadyQueues finds out which queues the index has.
func newReadyQueues(index readyIndex, t *table) (*readyQueues, error) {
	r := &readyQueues{types: map[events.Type]map[string]*lane{}, index: index, table: t}
	queues, err := index.ReadyQueues()
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		r.window(q.Type, q.Lane, q.Priority).complete = false
	}
	return r, nil
}

// window returns a queue's window. One that is new is complete: the index has
// nothing that it does not know.
func (r *readyQueues) window(t events.Type, laneName string, p events.Priority) *window[projector.ReadyKey] {
	lanes := r.types[t]
	if lanes == nil {
		lanes = map[string]*lane{}
		r.types[t] = lanes
	}
	ln := lanes[laneName]
	if ln == nil {
		ln = &lane{}
		lanes[laneName] = ln
		if laneName != "" && r.newLane != nil {
			r.newLane(t, laneName)
		}
	}
	w := ln.levels[p]
	if w == nil {
		w = newWindow(projector.ReadyKey.Less)
		w.complete = true
		ln.levels[p] = w
	}
	return w
}

func (r *readyQueues) insert(it *events.Item) {
	r.window(it.Type, it.Lane(), it.Priority).insert(projector.ReadyKeyOf(it))
}

func (r *readyQueues) remove(it *events.Item) {
	r.window(it.Type, it.Lane(), it.Priority).remove(projector.ReadyKeyOf(it))
}

// head is the first item of one queue.
type head struct {
	key   projector.ReadyKey
	win   *window[projector.ReadyKey]
	score time.Duration
	lane  string
}

// best returns the item of a type that goes next, among the lanes that admit
// one: the highest of priority × ageStep + time waited, over the heads of the
// queues. Within a queue all items age alike, so its head is its best, and the
// cost does not depend on how many wait. stalled says that a queue's next page
// is still to be read.
func (r *readyQueues) best(t events.Type, ageStep time.Duration, now time.Time, admits func(lane string) bool) (b head, ok, stalled bool, err error) {
	pages := 0
	for name, ln := range r.types[t] {
		if !admits(name) {
			continue
		}
		for p, w := range ln.levels {
			if w == nil {
				continue
			}
			for w.wantsPage() {
				if pages++; pages > maxPages {
					return head{}, false, true, nil
				}
				if err := r.page(projector.ReadyQueue{Type: t, Lane: name, Priority: events.Priority(p)}, w, now); err != nil {
					return head{}, false, false, err
				}
			}
			k, has := w.min()
			if !has {
				continue
			}
			score := time.Duration(p)*ageStep + time.Duration(now.UnixNano()-k.OrderAt)
			if !ok || score > b.score {
				b, ok = head{key: k, win: w, score: score, lane: name}, true
			}
		}
	}
	return b, ok, false, nil
}

// page takes the next part of a queue from the index. REQUIRES: the projection
// has all whose effects the loop has seen.
func (r *readyQueues) page(q projector.ReadyQueue, w *window[projector.ReadyKey], now time.Time) error {
	entries, err := r.index.Ready(q.Type, q.Lane, q.Priority, w.horizon, maxScan)
	if err != nil {
		return err
	}
	var keys []projector.ReadyKey
	last, end := w.horizon, len(entries) < maxScan
	for _, e := range entries {
		if e.OrderAt > now.UnixNano() {
			// All behind it are for later too: their timers bring them in.
			end = true
			break
		}
		last = e.ReadyKey
		if e.AvailableAt.After(now) || r.table.current(e.ID) != 0 {
			continue
		}
		if keys = append(keys, e.ReadyKey); len(keys) == windowPage {
			end = false
			break
		}
	}
	w.page(keys, last, end)
	if r.prefetch != nil {
		if err := r.prefetch(keys); err != nil {
			return err
		}
	}
	if r.unprojected != nil {
		r.unprojected(func(before, after *events.Item) { r.amend(q, w, before, after, now) })
	}
	return nil
}

// amend brings a page up to date by a change that the index may not show yet.
func (r *readyQueues) amend(q projector.ReadyQueue, w *window[projector.ReadyKey], before, after *events.Item, now time.Time) {
	if queueOf(before) == q {
		w.remove(projector.ReadyKeyOf(before))
	}
	if queueOf(after) == q && !after.AvailableAt.After(now) && r.table.current(after.ID) == 0 {
		w.insert(projector.ReadyKeyOf(after))
	}
}

// queueOf is the queue that an item waits in, the zero one for none.
func queueOf(it *events.Item) projector.ReadyQueue {
	if it == nil || it.State != events.StateQueued {
		return projector.ReadyQueue{}
	}
	return projector.ReadyQueue{Type: it.Type, Lane: it.Lane(), Priority: it.Priority}
}

// oldest is the first place among a type's items in memory, zero for none.
func (r *readyQueues) oldest(t events.Type) (first time.Time) {
	for _, ln := range r.types[t] {
		for _, w := range ln.levels {
			if w == nil {
				continue
			}
			if k, ok := w.min(); ok && (first.IsZero() || k.OrderAt < first.UnixNano()) {
				first = time.Unix(0, k.OrderAt).UTC()
			}
		}
	}
	return first
}
