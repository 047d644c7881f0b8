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

// readyQueues are the queues of what may run, one for each type, open lane and
// priority: a window as long as its items have no groups, else a ring of
// groups. Lanes that are not open are left to the index: see lanes.go. Owned by
// the loop.
type readyQueues struct {
	types map[events.Type]*typeLanes
	named int // open lanes with capabilities, of all types
	index readyIndex
	table *table
	holds *holds
	most  int // groups of a ring in memory
	// served, if set, says whether a worker can run what a lane holds: others
	// are not opened.
	served func(events.Type, string) bool
	// opened and closed, if set, are told of lanes with capabilities.
	opened, closed func(events.Type, string)
	// crowded are the types that have lanes for which there was no room.
	crowded map[events.Type]bool
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
	ReadyLanes(t events.Type, from string, fn func(lane string) (next string)) error
}

// level is one queue. It has a window while all its items are of the empty
// group, which costs nothing beyond the order itself; else a ring.
type level struct {
	q     projector.ReadyQueue
	plain *window[projector.ReadyKey] // nil: ring
	ring  *ring                       // nil: plain
}

func newReadyQueues(index readyIndex, t *table, h *holds) *readyQueues {
	return &readyQueues{types: map[events.Type]*typeLanes{}, index: index, table: t, holds: h, most: maxGroups, crowded: map[events.Type]bool{}}
}

// level returns a queue of an open lane. One that is new is complete: the index
// has nothing that it does not know.
func (r *readyQueues) level(ln *lane, p events.Priority) *level {
	lv := ln.levels[p]
	if lv == nil {
		lv = newLevel(ln, p)
		lv.plain.complete = true
		ln.levels[p] = lv
	}
	return lv
}

// newLevel returns a queue that knows nothing yet.
func newLevel(ln *lane, p events.Priority) *level {
	return &level{q: projector.ReadyQueue{Type: ln.typ, Lane: ln.name, Priority: p}, plain: newWindow(projector.ReadyKey.Less)}
}

// insert adds an item that the index has, or is about to have. One whose lane
// is not open, and can't be, is left to the index.
func (r *readyQueues) insert(it *events.Item) error {
	ln, err := r.lane(it.Type, it.Lane())
	if ln == nil || err != nil {
		return err
	}
	r.types[it.Type].busy[ln.name], ln.idle = ln, time.Time{}
	lv := r.level(ln, it.Priority)
	if lv.ring == nil {
		if it.Group == "" {
			lv.plain.insert(projector.ReadyKeyOf(it))
			return nil
		}
		lv.toRing(r.most)
	}
	lv.ring.insert(it.Group, projector.ReadyKeyOf(it), r.holds.keeps(it.Type, it.Group, lv.ring))
	return nil
}

func (r *readyQueues) remove(it *events.Item) {
	lv := r.known(it)
	switch {
	case lv == nil: // the index has it, if anything
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
	rank  rank
	lane  string
}

// rank orders items by when they go: the higher goes first. It is priority ×
// age_step + time waited without the present time, which is the same for all, so
// that an item's rank stays as it is while it waits. The default priority counts
// for nothing: so types of different age steps meet there as equals.
type rank int64

func rankOf(p events.Priority, ageStep time.Duration, k projector.ReadyKey) rank {
	return rank((int64(p)-int64(events.PriorityDefault))*int64(ageStep) - k.OrderAt)
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
	due     time.Time // an item runs from its AvailableAt on, by this time
	last    time.Time // the latest OrderAt of an item that has no AvailableAt
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
	tl, err := r.of(pick.typ)
	if err != nil {
		return head{}, false, false, err
	}
	for name, ln := range tl.busy {
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
			if at := rankOf(events.Priority(p), pick.ageStep, k); !ok || at > b.rank {
				b, ok = head{key: k, win: win, lv: lv, group: group, rank: at, lane: name}, true
			}
		}
		if ln.empty() {
			delete(tl.busy, name)
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
		keys, err := r.page(lv.q, "", lv.plain, windowPage, maxScan, pick)
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
func (r *readyQueues) page(q projector.ReadyQueue, group string, w *window[projector.ReadyKey], size, scan int, pick *picking) ([]projector.ReadyKey, error) {
	var keys []projector.ReadyKey
	last, end, read := w.horizon, true, 0
	err := r.index.EachReady(q, group, w.horizon, func(e projector.ReadyEntry) bool {
		if read++; e.OrderAt > pick.last.UnixNano() {
			return false // all behind it are for later too: their timers bring them in
		}
		last = e.ReadyKey
		if !e.AvailableAt.After(pick.due) && r.table.current(e.ID) == 0 {
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
		r.unprojected(func(before, after *events.Item) { r.amend(q, group, w, before, after, pick.due) })
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
