package readyq

import (
	"time"

	"github.com/tidwall/btree"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/ready"
)

// Bounds of a ring: groups in memory at once (the index is searched for half as many at a
// time), and keys of each group.
const (
	maxGroups = 1024
	maxKeys   = 64
	groupPage = 32            // most keys in a page of a group
	groupScan = 8 * groupPage // index entries that such a page reads
	ringKeys  = maxGroups * 8 // keys in all pages of a ring together, or one for each group
	turnsPage = 64            // turns whose items are read at once
)

// ring is a queue whose items belong to groups that take turns, in order of name. It holds
// a stretch of the groups in memory, each with a window of its own. All others are left to
// the index, and paged in when it is their turn.
//
// Invariant: a group of the stretch that has items to run is in memory, or is throttled and
// will be restored (see throttled). So when the stretch is everything and nothing is in
// memory, nothing can run, and nothing is searched for until something is inserted.
type ring struct {
	groups *btree.BTreeG[*group] // by name

	// The stretch: names after behind (open: from the first on) up to and including through
	// (toEnd: to the last). If none is set, it is empty.
	behind, through   string
	open, none, toEnd bool

	ahead   int    // coming turns whose items have been read
	last    string // group whose turn was last
	started bool   // last is set
	held    int    // throttles that keep a group of this ring
	most    int    // most groups in memory: maxGroups; fewer in tests
}

type group struct {
	name string
	win  *Window[ready.Key]
}

// newRing returns a ring with nothing in memory: it pages its groups in.
func newRing(most int) *ring {
	byName := func(a, b *group) bool { return a.name < b.name }
	return &ring{groups: btree.NewBTreeGOptions(byName, btree.Options{NoLocks: true, Degree: 16}), open: true, none: true, most: most}
}

// toRing turns a level whose items had no groups so far into a ring.
func (lv *level) toRing(most int) {
	rg := newRing(most)
	rg.none, rg.toEnd = false, true
	w := lv.plain
	w.most = maxKeys
	if w.set.Len() > w.most {
		w.cut()
	}
	if w.set.Len() > 0 || !w.complete {
		rg.groups.Set(&group{"", w})
	}
	lv.plain, lv.ring = nil, rg
}

// toPlain turns a ring that has, and can have, only the empty group back into a plain
// level. It reports whether it did.
func (lv *level) toPlain() bool {
	rg := lv.ring
	if !rg.whole() || rg.held > 0 || rg.groups.Len() > 1 {
		return false
	}
	w := NewWindow(ready.Key.Less)
	w.complete = true
	if g, ok := rg.groups.Min(); ok {
		if g.name != "" {
			return false
		}
		w = g.win
		w.most = WindowMax
	}
	lv.plain, lv.ring = w, nil
	return true
}

// whole reports whether the stretch is everything.
func (rg *ring) whole() bool { return rg.open && rg.toEnd }

// has reports whether a name is in the stretch.
func (rg *ring) has(name string) bool {
	return (rg.open || name > rg.behind) && (rg.toEnd || !rg.none && name <= rg.through)
}

func (rg *ring) get(name string) *group {
	g, _ := rg.groups.Get(&group{name: name})
	return g
}

// add takes a group into memory. complete says that the index has nothing of the group to
// run.
func (rg *ring) add(name string, complete bool) *group {
	w := NewWindow(ready.Key.Less)
	w.complete, w.most = complete, maxKeys
	g := &group{name, w}
	rg.groups.Set(g)
	if rg.groups.Len() > rg.most {
		rg.cut()
	}
	return g
}

// cut leaves groups to the index: those that have had their turn and, if more than half of
// most are left, the last ones. So the groups whose turn is next stay, however often the
// ring is cut.
func (rg *ring) cut() {
	if rg.started && (rg.open || rg.last > rg.behind) {
		for g, ok := rg.groups.Min(); ok && g.name <= rg.last; g, ok = rg.groups.Min() {
			rg.groups.PopMin()
		}
		rg.behind, rg.open = rg.last, false
	}
	if rg.groups.Len() <= rg.most/2 {
		return
	}
	for rg.groups.Len() > rg.most/2 {
		rg.groups.PopMax()
	}
	g, _ := rg.groups.Max()
	rg.through, rg.none, rg.toEnd = g.name, false, false
}

func (rg *ring) drop(name string) { rg.groups.Delete(&group{name: name}) }

// insert adds a key that the index has or is about to have. held says that its group will
// be restored from the index.
func (rg *ring) insert(name string, k ready.Key, held bool) {
	if !rg.has(name) {
		return
	}
	g := rg.get(name)
	if g == nil {
		if held {
			return
		}
		g = rg.add(name, true)
	}
	g.win.Insert(k)
}

func (rg *ring) remove(name string, k ready.Key) {
	if g := rg.get(name); g != nil {
		g.win.Remove(k)
		rg.dropEmpty(g)
	}
}

// dropEmpty drops a group that has nothing to run.
func (rg *ring) dropEmpty(g *group) {
	if g.win.complete && g.win.set.Len() == 0 {
		rg.drop(g.name)
	}
}

// served notes that a group has had its turn.
func (rg *ring) served(name string) {
	rg.last, rg.started = name, true
	rg.ahead = max(rg.ahead-1, 0)
	if g := rg.get(name); g != nil {
		rg.dropEmpty(g)
	}
}

// next returns the group in memory whose turn it is, nil if the stretch has none after the
// last.
func (rg *ring) next() (next *group) {
	if !rg.started {
		g, _ := rg.groups.Min()
		return g
	}
	rg.groups.Ascend(&group{name: rg.last}, func(g *group) bool {
		if g.name == rg.last {
			return true
		}
		next = g
		return false
	})
	return next
}

// forget drops everything in memory: the ring begins again with the first group of the
// index.
func (rg *ring) forget() {
	rg.groups.Clear()
	rg.open, rg.none, rg.toEnd, rg.started = true, true, false, false
	rg.behind, rg.through, rg.last = "", "", ""
}

// restore takes back a group that is no longer throttled.
func (rg *ring) restore(name string) {
	if rg.has(name) && rg.get(name) == nil {
		rg.add(name, false)
	}
}

// nextGroup returns the group of a level whose turn it is, with a key in its window; nil if
// none can run, or the pages have run out. A ring with only the empty group left becomes
// plain again.
func (r *Queues) nextGroup(lv *level, pick *Pick) (*group, error) {
	rg := lv.ring
	for {
		g := rg.next()
		switch {
		case g != nil:
			ok, err := r.mayGo(lv, g, pick)
			if err != nil || pick.pages > maxPages {
				return nil, err
			}
			if ok {
				return g, r.readAhead(rg, g)
			}
			rg.drop(g.name)
		case !rg.toEnd:
			if !pick.more() {
				return nil, nil
			}
			if err := r.pageGroups(lv, pick); err != nil {
				return nil, err
			}
		case !rg.open:
			rg.forget()
		case lv.toPlain():
			return nil, nil
		case rg.groups.Len() == 0:
			return nil, nil
		default:
			rg.started = false // start the next round
		}
	}
}

// mayGo reports whether a group is not blocked and has a key; it pages keys in if need be.
func (r *Queues) mayGo(lv *level, g *group, pick *Pick) (bool, error) {
	if pick.Open != nil && g.name != "" {
		if blocked, err := r.throttled.blocked(throttleKey{typ: pick.Type, group: g.name}, lv.ring, pick.Now, pick.Open); blocked || err != nil {
			return false, err
		}
	}
	for g.win.WantsPage() {
		if !pick.more() {
			return false, nil
		}
		if _, err := r.page(lv.q, g.name, g.win, lv.ring.pageSize(), groupScan, pick); err != nil {
			return false, err
		}
	}
	return g.win.set.Len() > 0, nil
}

// Leads reports whether nothing that waits in a queue, in an item's group, goes before the
// item's key. Where the queue is not in memory, or the group is left to the index, it says no.
// What has no group leads.
func (r *Queues) Leads(q ready.Queue, group string, k ready.Key) bool {
	if group == "" {
		return true
	}
	ln := r.types[q.Type].lane(q.Lane)
	if ln == nil {
		return false
	}
	lv := ln.levels[q.Priority]
	if lv == nil || lv.ring == nil { // nothing in it has a group
		return true
	}
	if !lv.ring.has(group) {
		return false
	}
	g := lv.ring.get(group)
	if g == nil {
		return !r.throttled.keeps(q.Type, group, lv.ring)
	}
	first, ok := g.win.Min()
	return !g.win.WantsPage() && (!ok || !first.Less(k))
}

// pageSize returns how many keys a page of a group has. If not all groups are in memory, a
// group has one turn before it is left to the index again, and any further keys would be
// read for nothing.
func (rg *ring) pageSize() int {
	if !rg.whole() {
		return 1
	}
	return max(1, min(groupPage, ringKeys/max(1, rg.groups.Len())))
}

// readAhead has the items of the next turns read at once, when those read last time have
// had their turns. A page's items are not read with the page: with many groups, they would
// have left memory again by the time of their turn.
func (r *Queues) readAhead(rg *ring, from *group) error {
	if rg.ahead > 0 || r.Prefetch == nil {
		return nil
	}
	var next []*group // in order of turn
	known := true
	add := func(g *group) bool {
		// The keys of a group that wants a page are known in its turn.
		if known = len(next) < turnsPage && !g.win.WantsPage(); known {
			next = append(next, g)
		}
		return known
	}
	rg.groups.Ascend(from, add)
	if known && rg.whole() {
		rg.groups.Scan(func(g *group) bool { return g.name < from.name && add(g) })
	}
	rounds := 1
	if len(next) == rg.groups.Len() {
		rounds = max(1, turnsPage/len(next))
		for _, g := range next {
			if !g.win.complete {
				rounds = min(rounds, g.win.set.Len())
			}
		}
	}
	keys := make([]ready.Key, 0, turnsPage)
	for _, g := range next {
		n := 0
		g.win.set.Scan(func(k ready.Key) bool {
			keys, n = append(keys, k), n+1
			return n < rounds
		})
	}
	rg.ahead = len(keys)
	return r.Prefetch(keys)
}

// pageGroups takes the next groups from the index. If many are in memory, those are left to
// the index; they have had their turn.
func (r *Queues) pageGroups(lv *level, pick *Pick) error {
	rg, page := lv.ring, lv.ring.most/2
	if rg.groups.Len() > rg.most-page {
		rg.groups.Clear()
		rg.behind, rg.open = rg.through, false
	}
	from, fromStart := rg.through, rg.none
	found, err := r.Index.ReadyGroups(lv.q, from, fromStart, page)
	if err != nil {
		return err
	}
	r.read += (seekCost + 1) * len(found)
	if rg.toEnd = len(found) < page; len(found) > 0 {
		rg.through, rg.none = found[len(found)-1].Name, false
	}
	for _, f := range found {
		if r.throttled.keeps(lv.q.Type, f.Name, rg) {
			continue
		}
		g := rg.add(f.Name, false)
		if first := f.First; first.OrderAt <= pick.Last.UnixNano() && !first.AvailableAt.After(pick.Due) && r.table.Current(first.ID) == 0 {
			g.win.Page([]ready.Key{first.Key}, first.Key, false)
		}
	}
	if r.Unprojected == nil {
		return nil
	}
	r.Unprojected(func(before, after *events.Item) {
		r.amendGroups(lv, func(name string) bool { return (fromStart || name > from) && rg.has(name) }, before, after, pick.Due)
	})
	return nil
}

// amendGroups updates the new groups just taken from the index by a change that the index
// may not show yet.
func (r *Queues) amendGroups(lv *level, fresh func(name string) bool, before, after *events.Item, now time.Time) {
	if queueOf(before) == lv.q && fresh(before.Group) {
		if g := lv.ring.get(before.Group); g != nil {
			g.win.Remove(ready.KeyOf(before))
		}
	}
	if queueOf(after) != lv.q || !fresh(after.Group) || after.AvailableAt.After(now) || r.table.Current(after.ID) != 0 || r.throttled.keeps(lv.q.Type, after.Group, lv.ring) {
		return
	}
	g := lv.ring.get(after.Group)
	if g == nil {
		g = lv.ring.add(after.Group, false)
	}
	g.win.Insert(ready.KeyOf(after))
}
