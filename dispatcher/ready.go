package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector"
)

// maxScan bounds the index entries that one page reads: entries that are
// dispatched already or not due yet are passed over. A page ends with the last
// that it wants, and reads none behind that.
const maxScan = 2048

// maxPages bounds the pages that one call of best reads; maxStepRead what is
// read in one turn of the loop.
const maxPages = 8

// seekCost is what finding a place in the index costs, in entries read there.
const seekCost = 16

const levels = int(events.MaxPriority) + 1

// readyQueues are the queues of what may run, one for each type, lane and
// priority: a window as long as its items have no groups, else a ring of
// groups. Owned by the loop.
type readyQueues struct {
	types map[events.Type]map[string]*lane
	index readyIndex
	table *table
	holds *holds
	most  int // groups of a ring in memory
	// newLane, if set, is told of a lane with capabilities that is first used.
	newLane func(events.Type, string)
	// unprojected, if set, calls fn for the changes that the index may not show
	// yet, in order.
	unprojected func(fn func(before, after *events.Item))
	// prefetch, if set, is told of keys whose items will be asked for soon.
	prefetch func([]projector.ReadyKey) error
	// read is how many entries of the index have been read, seeks included at
	// their cost.
	read int
}

// readyIndex is the projection's ordered index of queued items.
type readyIndex interface {
	EachReady(q projector.ReadyQueue, group string, behind projector.ReadyKey, fn func(projector.ReadyEntry) (more bool)) error
	ReadyGroups(q projector.ReadyQueue, behind string, fromStart bool, limit int) ([]projector.ReadyGroup, error)
	ReadyQueues() ([]projector.ReadyQueue, error)
}

// lane holds the levels of a type's lane. A level is nil until something has
// been queued at its priority.
type lane struct {
	levels [levels]*level
}

// level is one queue. It has a window while all its items are of the empty
// group, which costs nothing beyond the order itself; else a ring.
type level struct {
	q     projector.ReadyQueue
	plain *window[projector.ReadyKey] // nil: ring
	ring  *ring                       // nil: plain
}

// newReadyQueues finds out which queues the index has.
func newReadyQueues(index readyIndex, t *table, h *holds) (*readyQueues, error) {
	r := &readyQueues{types: map[events.Type]map[string]*lane{}, index: index, table: t, holds: h, most: maxGroups}
	queues, err := index.ReadyQueues()
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		lv := r.level(q.Type, q.Lane, q.Priority)
		named, err := index.ReadyGroups(q, "", false, 1)
		if err != nil {
			return nil, err
		}
		if lv.plain.complete = false; len(named) > 0 {
			lv.plain, lv.ring = nil, newRing(r.most)
		}
	}
	return r, nil
}

// level returns a queue. One that is new is complete: the index has nothing
// that it does not know.
func (r *readyQueues) level(t events.Type, laneName string, p events.Priority) *level {
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
	lv := ln.levels[p]
	if lv == nil {
		lv = &level{q: projector.ReadyQueue{Type: t, Lane: laneName, Priority: p}, plain: newWindow(projector.ReadyKey.Less)}
		lv.plain.complete = true
		ln.levels[p] = lv
	}
	return lv
}

func (r *readyQueues) insert(it *events.Item) {
	lv := r.level(it.Type, it.Lane(), it.Priority)
	if lv.ring == nil {
		if it.Group == "" {
			lv.plain.insert(projector.ReadyKeyOf(it))
			return
		}
		lv.toRing(r.most)
	}
	lv.ring.insert(it.Group, projector.ReadyKeyOf(it), r.holds.keeps(it.Type, it.Group, lv.ring))
}

func (r *readyQueues) remove(it *events.Item) {
	lv := r.level(it.Type, it.Lane(), it.Priority)
	switch {
	case lv.ring != nil:
		lv.ring.remove(it.Group, projector.ReadyKeyOf(it))
	case it.Group == "":
		lv.plain.remove(projector.ReadyKeyOf(it))
	}
}

// head is the first item of one queue.
type head struct {
	key   projector.ReadyKey
	win   *window[projector.ReadyKey]
	lv    *level
	group string
	score time.Duration
	lane  string
}

// take takes the item out of its queue. Its group has had its turn.
func (b *head) take() {
	b.win.remove(b.key)
	if b.lv.ring != nil {
		b.lv.ring.served(b.group)
	}
}

// picking is what the choice of a type's next item goes by.
type picking struct {
	typ     events.Type
	ageStep time.Duration
	now     time.Time
	// admits says which lanes have room.
	admits func(lane string) bool
	// blocked, if set, says of a group of a ring whether it must be passed over,
	// and remembers it then.
	blocked func(rg *ring, group string) (bool, error)
	pages   int // read so far
}

// more counts a page, and reports whether it may still be read.
func (p *picking) more() bool {
	p.pages++
	return p.pages <= maxPages
}

// best returns the item of a type that goes next, among the lanes that admit
// one: the highest of priority × ageStep + time waited, over the heads of the
// queues. Within a queue all items age alike, so its head (that of the group
// whose turn it is) is its best, and the cost does not depend on how many wait.
// stalled says that a queue's next page is still to be read.
func (r *readyQueues) best(pick picking) (b head, ok, stalled bool, err error) {
	for name, ln := range r.types[pick.typ] {
		if !pick.admits(name) {
			continue
		}
		for p, lv := range ln.levels {
			if lv == nil {
				continue
			}
			win, group, err := r.turn(lv, &pick)
			if err != nil {
				return head{}, false, false, err
			}
			if pick.pages > maxPages {
				return head{}, false, true, nil
			}
			if win == nil {
				continue
			}
			k, has := win.min()
			if !has {
				continue
			}
			score := time.Duration(p)*pick.ageStep + time.Duration(pick.now.UnixNano()-k.OrderAt)
			if !ok || score > b.score {
				b, ok = head{key: k, win: win, lv: lv, group: group, score: score, lane: name}, true
			}
		}
	}
	return b, ok, false, nil
}

// turn is the window that a level's next item is in, and its group; nil if none
// has any, or the pages have run out.
func (r *readyQueues) turn(lv *level, pick *picking) (*window[projector.ReadyKey], string, error) {
	if lv.ring != nil {
		g, err := r.nextGroup(lv, pick)
		if g != nil || err != nil || lv.ring != nil {
			if g == nil {
				return nil, "", err
			}
			return g.win, g.name, nil
		}
	}
	for lv.plain.wantsPage() {
		if !pick.more() {
			return nil, "", nil
		}
		keys, err := r.page(lv.q, "", lv.plain, windowPage, maxScan, pick.now)
		if err == nil && r.prefetch != nil {
			err = r.prefetch(keys)
		}
		if err != nil {
			return nil, "", err
		}
	}
	return lv.plain, "", nil
}

// page takes the next part of a group of a queue from the index: size keys, or
// those among the next scan entries. It returns them, as the index had them.
// REQUIRES: the projection has all whose effects the loop has seen.
func (r *readyQueues) page(q projector.ReadyQueue, group string, w *window[projector.ReadyKey], size, scan int, now time.Time) ([]projector.ReadyKey, error) {
	var keys []projector.ReadyKey
	last, end, read := w.horizon, true, 0
	err := r.index.EachReady(q, group, w.horizon, func(e projector.ReadyEntry) bool {
		if read++; e.OrderAt > now.UnixNano() {
			return false // all behind it are for later too: their timers bring them in
		}
		last = e.ReadyKey
		if !e.AvailableAt.After(now) && r.table.current(e.ID) == 0 {
			keys = append(keys, e.ReadyKey)
		}
		end = len(keys) < size && read < scan
		return end
	})
	r.read += seekCost + read
	if err != nil {
		return nil, err
	}
	w.page(keys, last, end)
	if r.unprojected != nil {
		r.unprojected(func(before, after *events.Item) { r.amend(q, group, w, before, after, now) })
	}
	return keys, nil
}

// amend brings a page up to date by a change that the index may not show yet.
func (r *readyQueues) amend(q projector.ReadyQueue, group string, w *window[projector.ReadyKey], before, after *events.Item, now time.Time) {
	if queueOf(before) == q && before.Group == group {
		w.remove(projector.ReadyKeyOf(before))
	}
	if queueOf(after) == q && after.Group == group && !after.AvailableAt.After(now) && r.table.current(after.ID) == 0 {
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

// eachWindow calls fn with the windows of a level.
func (lv *level) eachWindow(fn func(*window[projector.ReadyKey])) {
	if lv.ring == nil {
		fn(lv.plain)
		return
	}
	lv.ring.groups.Scan(func(g *group) bool { fn(g.win); return true })
}
