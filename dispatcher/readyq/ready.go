package readyq

import (
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/ready"
)

// maxScan bounds the index entries that one page reads: entries that are already dispatched
// or not due yet are skipped. A page ends with the last entry that it wants.
const maxScan = 2048

// maxPages bounds the pages that one call of Best reads. The dispatcher's maxStepRead
// bounds what is read in one turn of the loop.
const maxPages = 8

// seekCost is the cost of finding a place in the index, in entries read.
const seekCost = 16

const levels = int(events.MaxPriority) + 1

// Queues holds the queues of what may run, one for each type, open lane and priority: a
// window while its items have no groups, else a ring of groups. Lanes that are not open are
// left to the index: see lanes.go. Owned by the loop.
type Queues struct {
	types map[events.Type]*typeLanes
	named int // open lanes with capabilities, of all types
	Index Index
	table InFlight
	most  int // most groups of a ring in memory

	throttled throttled
	lanes     laneSearches
	// Again, if set, is called with a type that may have something to dispatch again: one
	// of its lanes was opened, or what held it has ended.
	Again func(events.Type)
	// crowded holds the types with lanes that found no room.
	crowded map[events.Type]bool
	// Unprojected, if set, calls fn for the changes that the index may not show
	// yet, in order.
	Unprojected func(fn func(before, after *events.Item))
	// Prefetch, if set, is called with keys whose items will be needed soon.
	Prefetch func([]ready.Key) error
	// read counts the index entries read, seeks included at their cost.
	read int
}

// Index is the projection's ordered index of queued items.
type Index interface {
	EachReady(q ready.Queue, group string, behind ready.Key, fn func(ready.Entry) (more bool)) error
	ReadyGroups(q ready.Queue, behind string, fromStart bool, limit int) ([]ready.Group, error)
	ReadyLanes(t events.Type, from string, fn func(lane string) (next string)) error
}

// InFlight is the part of the dispatch table that the queues need.
type InFlight interface {
	// Current returns the token under which an item is dispatched, 0 for none.
	Current(events.ID) events.Token
}

// level is one queue: a window while all its items are of the empty group, which costs
// nothing beyond the order itself; otherwise a ring.
type level struct {
	q     ready.Queue
	plain *Window[ready.Key] // nil: ring
	ring  *ring              // nil: plain
}

// New returns queues with nothing in memory.
func New(index Index, t InFlight) *Queues {
	r := &Queues{types: map[events.Type]*typeLanes{}, Index: index, table: t, most: maxGroups, crowded: map[events.Type]bool{}}
	r.throttled = throttled{byKey: map[throttleKey]*throttle{}, again: r.again}
	r.lanes.full = map[events.Type]string{}
	return r
}

func (r *Queues) again(t events.Type) {
	if r.Again != nil {
		r.Again(t)
	}
}

// level returns a queue of an open lane. A new one is complete: the index has nothing that
// is not in it.
func (r *Queues) level(ln *lane, p events.Priority) *level {
	lv := ln.levels[p]
	if lv == nil {
		lv = newLevel(ln, p)
		lv.plain.complete = true
		ln.levels[p] = lv
	}
	return lv
}

// newLevel returns a queue with nothing in memory.
func newLevel(ln *lane, p events.Priority) *level {
	return &level{q: ready.Queue{Type: ln.typ, Lane: ln.name, Priority: p}, plain: NewWindow(ready.Key.Less)}
}

// Insert adds an item that the index has, or is about to have. An item whose lane is not
// open, and can't be, is left to the index.
func (r *Queues) Insert(it *events.Item) error {
	ln, err := r.lane(it.Type, it.Lane())
	if ln == nil || err != nil {
		return err
	}
	r.types[it.Type].busy[ln.name], ln.idle = ln, time.Time{}
	lv := r.level(ln, it.Priority)
	if lv.ring == nil {
		if it.Group == "" {
			lv.plain.Insert(ready.KeyOf(it))
			return nil
		}
		lv.toRing(r.most)
	}
	lv.ring.insert(it.Group, ready.KeyOf(it), r.throttled.keeps(it.Type, it.Group, lv.ring))
	return nil
}

func (r *Queues) Remove(it *events.Item) {
	lv := r.known(it)
	switch {
	case lv == nil: // the index has it, if anything
	case lv.ring != nil:
		lv.ring.remove(it.Group, ready.KeyOf(it))
	case it.Group == "":
		lv.plain.Remove(ready.KeyOf(it))
	}
}

// Head is the first item of one queue.
type Head struct {
	Key   ready.Key
	win   *Window[ready.Key]
	lv    *level
	group string
	Rank  Rank
	Lane  string
}

// Rank orders items by when they go, the highest first. It is priority × age_step + time
// waited, without the present time, which is the same for all; so an item's rank does not
// change while it waits. The default priority counts as zero, so that types with different
// age steps meet there as equals.
type Rank int64

func RankOf(p events.Priority, ageStep time.Duration, k ready.Key) Rank {
	return Rank((int64(p)-int64(events.PriorityDefault))*int64(ageStep) - k.OrderAt)
}

// Group returns the item's group, empty for none.
func (b *Head) Group() string { return b.group }

// Take takes the item out of its queue, which ends its group's turn.
func (b *Head) Take() {
	b.win.Remove(b.Key)
	if b.lv.ring != nil {
		b.lv.ring.served(b.group)
	}
}

// Pick says how the next item of a type is chosen.
type Pick struct {
	Type    events.Type
	AgeStep time.Duration
	Now     time.Time
	Due     time.Time // an item may run if its AvailableAt is not after this
	Last    time.Time // latest OrderAt of an item without AvailableAt
	// Admits reports whether a lane has room.
	Admits func(lane string) bool
	// Open, if set, reports whether a limit lets a group have one more item in flight; if
	// not, it returns when it will (zero: once an item in flight has moved on).
	Open  func(group string) (open bool, at time.Time, err error)
	pages int // pages read so far
}

// more counts a page, and reports whether it may still be read.
func (p *Pick) more() bool {
	p.pages++
	return p.pages <= maxPages
}

// Best returns the item of a type that goes next, in the lanes that have room: the head
// with the highest priority × AgeStep + time waited. Within a queue all items age alike, so
// its head (that of the group whose turn it is) is its best, and the cost does not depend
// on how many wait. stalled says that a queue's next page must still be read.
func (r *Queues) Best(pick Pick) (b Head, ok, stalled bool, err error) {
	tl, err := r.of(pick.Type)
	if err != nil {
		return Head{}, false, false, err
	}
	for name, ln := range tl.busy {
		if !pick.Admits(name) {
			continue
		}
		for p, lv := range ln.levels {
			if lv == nil {
				continue
			}
			win, group, err := r.turn(lv, &pick)
			if err != nil {
				return Head{}, false, false, err
			}
			if pick.pages > maxPages {
				return Head{}, false, true, nil
			}
			if win == nil {
				continue
			}
			k, has := win.Min()
			if !has {
				continue
			}
			if at := RankOf(events.Priority(p), pick.AgeStep, k); !ok || at > b.Rank {
				b, ok = Head{Key: k, win: win, lv: lv, group: group, Rank: at, Lane: name}, true
			}
		}
		if ln.empty() {
			delete(tl.busy, name)
		}
	}
	return b, ok, false, nil
}

// turn returns the window of a level's next item, and its group; nil if there is none, or
// the pages have run out.
func (r *Queues) turn(lv *level, pick *Pick) (*Window[ready.Key], string, error) {
	if lv.ring != nil {
		g, err := r.nextGroup(lv, pick)
		if g != nil || err != nil || lv.ring != nil {
			if g == nil {
				return nil, "", err
			}
			return g.win, g.name, nil
		}
	}
	for lv.plain.WantsPage() {
		if !pick.more() {
			return nil, "", nil
		}
		keys, err := r.page(lv.q, "", lv.plain, WindowPage, maxScan, pick)
		if err == nil && r.Prefetch != nil {
			err = r.Prefetch(keys)
		}
		if err != nil {
			return nil, "", err
		}
	}
	return lv.plain, "", nil
}

// page takes the next part of a group of a queue from the index: size keys, or those among
// the next scan entries. It returns the keys as the index had them. REQUIRES: the index and
// Unprojected together show every change whose effects the loop has seen.
func (r *Queues) page(q ready.Queue, group string, w *Window[ready.Key], size, scan int, pick *Pick) ([]ready.Key, error) {
	var keys []ready.Key
	last, end, read := w.Horizon, true, 0
	err := r.Index.EachReady(q, group, w.Horizon, func(e ready.Entry) bool {
		if read++; e.OrderAt > pick.Last.UnixNano() {
			return false // all behind it are for later too: their timers bring them in
		}
		last = e.Key
		if !e.AvailableAt.After(pick.Due) && r.table.Current(e.ID) == 0 {
			keys = append(keys, e.Key)
		}
		end = len(keys) < size && read < scan
		return end
	})
	r.read += seekCost + read
	if err != nil {
		return nil, err
	}
	w.Page(keys, last, end)
	if r.Unprojected != nil {
		r.Unprojected(func(before, after *events.Item) { r.amend(q, group, w, before, after, pick.Due) })
	}
	return keys, nil
}

// amend updates a page by a change that the index may not show yet.
func (r *Queues) amend(q ready.Queue, group string, w *Window[ready.Key], before, after *events.Item, now time.Time) {
	if queueOf(before) == q && before.Group == group {
		w.Remove(ready.KeyOf(before))
	}
	if queueOf(after) == q && after.Group == group && !after.AvailableAt.After(now) && r.table.Current(after.ID) == 0 {
		w.Insert(ready.KeyOf(after))
	}
}

// queueOf returns the queue that an item waits in, the zero one for none.
func queueOf(it *events.Item) ready.Queue {
	if it == nil || it.State != events.StateQueued {
		return ready.Queue{}
	}
	return ready.Queue{Type: it.Type, Lane: it.Lane(), Priority: it.Priority}
}

// eachWindow calls fn with the windows of a level.
func (lv *level) eachWindow(fn func(*Window[ready.Key])) {
	if lv.ring == nil {
		fn(lv.plain)
		return
	}
	lv.ring.groups.Scan(func(g *group) bool { fn(g.win); return true })
}

// Forget drops a type's lanes.
func (r *Queues) Forget(t events.Type) {
	delete(r.lanes.full, t)
	tl := r.types[t]
	if tl == nil {
		return
	}
	for name := range tl.open {
		if name != "" {
			r.close(t, name)
		}
	}
	delete(r.types, t)
	delete(r.crowded, t)
}

// Read returns how many index entries have been read since the last ResetRead, seeks
// included at their cost.
func (r *Queues) Read() int { return r.read }

// ResetRead resets Read to zero.
func (r *Queues) ResetRead() { r.read = 0 }

// Priority returns the priority of the item's queue.
func (b *Head) Priority() events.Priority { return b.lv.q.Priority }

// Keys returns how many keys are in memory.
func (r *Queues) Keys() (n int) {
	for _, tl := range r.types {
		for _, ln := range tl.open {
			for _, lv := range ln.levels {
				if lv != nil {
					lv.eachWindow(func(w *Window[ready.Key]) { n += w.set.Len() })
				}
			}
		}
	}
	return n
}

// SetMaxGroups bounds the groups of a ring in memory, in place of 1,024.
func (r *Queues) SetMaxGroups(most int) {
	r.most = most
	for _, tl := range r.types {
		for _, ln := range tl.open {
			for _, lv := range ln.levels {
				if lv == nil || lv.ring == nil {
					continue
				}
				if lv.ring.most = most; lv.ring.groups.Len() > most {
					lv.ring.cut()
				}
			}
		}
	}
}
