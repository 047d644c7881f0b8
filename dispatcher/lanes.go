package dispatcher

import (
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector"
)

// laneIdle is how long an open lane stays with nothing to run.
const laneIdle = 10 * time.Minute

// lookForRoom is how often room is looked for, at most, while there are more
// lanes to open than may be.
const lookForRoom = 100 * time.Millisecond

// maxLaneSeeks bounds the places of the index that are looked at for lanes in
// one step of the loop.
const maxLaneSeeks = 512

// lane holds the levels of an open lane. A level is nil as long as nothing has
// been queued at its priority.
type lane struct {
	typ    events.Type
	name   string
	levels [levels]*level
	idle   time.Time // when a sweep first found nothing in it; zero: none has
}

// typeLanes are the open lanes of a type. The shared one always is. One with
// capabilities is open when it may have something to run and a registered worker
// serves it, as far as there is room: so what submitters ask for, and nobody
// offers, takes neither memory nor a consumer. Its items wait in the index, and
// the lane is opened from there when such a worker comes.
type typeLanes struct {
	open map[string]*lane
	busy map[string]*lane // the open ones that may have something to run
}

// empty reports whether nothing can be run of a lane until something is inserted.
func (ln *lane) empty() bool {
	for _, lv := range ln.levels {
		if lv == nil {
			continue
		}
		if lv.ring == nil && (!lv.plain.complete || lv.plain.set.Len() > 0) {
			return false
		}
		if lv.ring != nil && (!lv.ring.whole() || lv.ring.held > 0 || lv.ring.groups.Len() > 0) {
			return false
		}
	}
	return true
}

// of returns the lanes of a type.
func (r *readyQueues) of(t events.Type) (*typeLanes, error) {
	tl := r.types[t]
	if tl != nil {
		return tl, nil
	}
	tl = &typeLanes{open: map[string]*lane{}, busy: map[string]*lane{}}
	if err := r.open(t, "", tl); err != nil {
		return nil, err
	}
	r.types[t] = tl
	return tl, nil
}

// known returns the queue of an item, nil if it is not in memory.
func (r *readyQueues) known(it *events.Item) *level {
	tl := r.types[it.Type]
	if tl == nil {
		return nil
	}
	ln := tl.open[it.Lane()]
	if ln == nil {
		return nil
	}
	return ln.levels[it.Priority]
}

// lane returns a lane, which it opens if need be; nil if it may not be open.
func (r *readyQueues) lane(t events.Type, name string) (*lane, error) {
	tl, err := r.of(t)
	if err != nil || tl.open[name] != nil {
		return tl.lane(name), err
	}
	if r.served == nil || !r.served(t, name) {
		return nil, nil
	}
	if r.crowded[t] || !r.room(t) { // those that wait already come first: see makeRoom
		r.crowded[t] = true
		return nil, nil
	}
	if err := r.open(t, name, tl); err != nil {
		return nil, err
	}
	r.named++
	if r.opened != nil {
		r.opened(t, name)
	}
	return tl.open[name], nil
}

func (tl *typeLanes) lane(name string) *lane {
	if tl == nil {
		return nil
	}
	return tl.open[name]
}

// open takes a lane into memory: its queues are read as they are needed.
func (r *readyQueues) open(t events.Type, name string, tl *typeLanes) error {
	ln := &lane{typ: t, name: name}
	incomplete := func(p events.Priority, named bool) {
		if ln.levels[p] == nil {
			ln.levels[p] = newLevel(ln, p)
		}
		if lv := ln.levels[p]; named && lv.ring == nil {
			lv.plain, lv.ring = nil, newRing(r.most)
		}
	}
	for p := range events.MaxPriority + 1 {
		q := projector.ReadyQueue{Type: t, Lane: name, Priority: p}
		r.read += seekCost
		first, err := r.index.ReadyGroups(q, "", true, 1)
		if err != nil {
			return err
		}
		if len(first) == 0 {
			continue
		}
		named := first[0].Name != ""
		if !named {
			r.read += seekCost
			groups, err := r.index.ReadyGroups(q, "", false, 1)
			if err != nil {
				return err
			}
			named = len(groups) > 0
		}
		incomplete(p, named)
	}
	if r.unprojected != nil {
		r.unprojected(func(_, after *events.Item) {
			if q := queueOf(after); q.Type == t && q.Lane == name {
				incomplete(q.Priority, after.Group != "")
			}
		})
	}
	tl.open[name], tl.busy[name] = ln, ln
	return nil
}

// room reports whether another lane of a type may be opened. It closes one that
// has nothing to run if that makes room.
func (r *readyQueues) room(t events.Type) bool {
	named := 0
	if tl := r.types[t]; tl != nil {
		named = len(tl.open) - 1
	}
	switch {
	case named >= lanes.MaxPerType:
		return r.closeIdle(t)
	case r.named < lanes.Max:
		return true
	}
	for other := range r.types {
		if r.closeIdle(other) {
			return true
		}
	}
	return false
}

// closeIdle closes one lane of a type that has nothing to run and nothing
// dispatched, if there is one.
func (r *readyQueues) closeIdle(t events.Type) bool {
	for name, ln := range r.types[t].open {
		if name != "" && ln.empty() && r.table.byLane[lanes.Key{Type: t, Name: name}] == 0 {
			r.close(t, name)
			return true
		}
	}
	return false
}

// close leaves a lane with capabilities to the index.
func (r *readyQueues) close(t events.Type, name string) {
	tl := r.types[t]
	for _, lv := range tl.open[name].levels {
		if lv != nil && lv.ring != nil {
			r.holds.drop(lv.ring)
		}
	}
	delete(tl.open, name)
	delete(tl.busy, name)
	r.named--
	if r.closed != nil {
		r.closed(t, name)
	}
}

// laneSearch looks in the index for the lanes of a type that an offer covers.
type laneSearch struct {
	typ   events.Type
	offer lanes.Offer
	start string // where it begins: it goes on from there to the end, and then from the first to here
	from  string // the next lane to look at; empty: it has not begun
	again bool   // it has been at the end
}

// laneSearches are those under way. Owned by the loop.
type laneSearches struct {
	offers map[events.Type]map[string]lanes.Offer // what the registered workers have, by its name
	open   []laneSearch
	// quiet: a worker that registers is about to hear of the lanes that are
	// opened.
	quiet bool
	// nextRoom is when room is looked for again, and full which lane of a type
	// there was none for: the next search begins there, so that none is passed
	// over for ever.
	nextRoom time.Time
	full     map[events.Type]string
}

// served reports whether a registered worker serves a lane.
func (l *loop) served(t events.Type, lane string) bool {
	for _, o := range l.lanes.offers[t] {
		if o.Covers(lane) {
			return true
		}
	}
	return false
}

// offersChanged follows what workers offer: lanes that nobody serves any more
// are closed, and those that a new offer covers are looked for.
func (l *loop) offersChanged() {
	old := l.lanes.offers
	l.lanes.offers = l.registry.Offers()
	for t, offers := range l.lanes.offers {
		for name, o := range offers {
			if _, known := old[t][name]; !known && name != "" {
				l.searchLanes(t, o, "")
			}
		}
	}
	l.lanes.open = slices.DeleteFunc(l.lanes.open, func(s laneSearch) bool {
		_, there := l.lanes.offers[s.typ][events.LaneOf(s.offer)]
		return !there
	})
	for t, tl := range l.ready.types {
		for name := range tl.open {
			if name != "" && !l.served(t, name) {
				l.ready.close(t, name)
			}
		}
	}
}

func (l *loop) searchLanes(t events.Type, o lanes.Offer, start string) {
	same := func(s laneSearch) bool { return s.typ == t && slices.Equal(s.offer, o) }
	l.lanes.open = append(slices.DeleteFunc(l.lanes.open, same), laneSearch{typ: t, offer: o, start: start})
}

// findLanes goes on with the searches, as far as one step may.
func (l *loop) findLanes() error {
	left := maxLaneSeeks
	for len(l.lanes.open) > 0 {
		if left <= 0 {
			l.stalled = true
			return nil
		}
		done, err := l.findSome(&l.lanes.open[0], &left)
		if err != nil {
			return err
		}
		if done {
			l.lanes.open = l.lanes.open[1:]
		}
	}
	l.lanes.open = nil
	return nil
}

// findSome goes on with a search, and reports whether it is done.
func (l *loop) findSome(s *laneSearch, left *int) (done bool, err error) {
	var found []string
	if s.from == "" {
		s.from = s.offer.NextLane(s.start)
		l.eachUnprojected(func(_, after *events.Item) {
			if q := queueOf(after); q.Type == s.typ && q.Lane != "" && s.offer.Covers(q.Lane) {
				found = append(found, q.Lane)
			}
		})
	}
	next := ""
	if s.from != "" {
		next, err = l.lookForLanes(s, left, &found)
	}
	if err != nil {
		return false, err
	}
	for _, name := range found {
		*left -= levels
		if ln, err := l.ready.lane(s.typ, name); ln == nil || err != nil {
			l.lanes.full[s.typ] = name
			return true, err // there is no room, or nobody left who serves it
		}
	}
	l.dirty[s.typ] = true
	if s.from = next; next == "" && !s.again && s.start != "" {
		s.again, s.from = true, s.offer.NextLane("")
	}
	return s.from == "" || s.again && s.from >= s.start, nil
}

// lookForLanes adds the lanes that a search finds next. It returns where to go
// on; empty: the index has no more.
func (l *loop) lookForLanes(s *laneSearch, left *int, found *[]string) (next string, err error) {
	cut := false
	err = l.cfg.Store.ReadyLanes(s.typ, s.from, func(lane string) string {
		*left--
		if next = s.offer.NextLane(lane); next == lane {
			*found = append(*found, lane)
			next = s.offer.NextLane(lane + "\x00")
		}
		if cut = *left <= 0 || len(*found) >= lanes.MaxPerType; cut {
			return ""
		}
		return next
	})
	if !cut {
		next = ""
	}
	return next, err
}

// makeRoom opens lanes for which there was no room, if there is now.
func (l *loop) makeRoom(now time.Time) {
	if len(l.ready.crowded) == 0 || l.lanes.nextRoom.After(now) {
		return
	}
	l.lanes.nextRoom = now.Add(lookForRoom)
	for t := range l.ready.crowded {
		if !l.ready.room(t) {
			continue
		}
		delete(l.ready.crowded, t)
		for _, o := range l.lanes.offers[t] {
			if len(o) > 0 {
				l.searchLanes(t, o, l.lanes.full[t])
			}
		}
	}
}

// closeLanes closes the lanes that have long had nothing to run.
func (l *loop) closeLanes(now time.Time) {
	for t, tl := range l.ready.types {
		for name, ln := range tl.open {
			switch {
			case name == "":
			case !ln.empty() || l.table.byLane[lanes.Key{Type: t, Name: name}] > 0:
				ln.idle = time.Time{}
			case ln.idle.IsZero():
				ln.idle = now
			case now.Sub(ln.idle) >= laneIdle:
				l.ready.close(t, name)
			}
		}
	}
}

// laneOpened makes the consumer of a lane with capabilities, and has the workers
// that serve it register again, to hear of it.
func (l *loop) laneOpened(t events.Type, lane string) {
	able := len(l.registry.Able(t, lane)) // also those that are unhealthy: they will be back
	l.out.EnsureConsumer(lanes.Key{Type: t, Name: lane}, l.ackWait(t), able > 1 || able == 1 && !l.lanes.quiet)
}

// laneClosed removes the consumer of a lane that was closed, unless somebody
// still runs what it has delivered: then a sweep finds it.
func (l *loop) laneClosed(t events.Type, lane string) {
	if key := (lanes.Key{Type: t, Name: lane}); l.table.byLane[key] == 0 {
		l.out.DropConsumer(key)
	}
}

// ConsumersFound removes the consumers that nothing is dispatched to, such as an
// earlier owner's. One that a worker serves stays: it may be pulling from it.
func (l *loop) consumersFound(keys []lanes.Key) error {
	for _, key := range keys {
		if l.table.byLane[key] > 0 {
			continue
		}
		if key.Name == "" {
			if _, known := l.state.Type(key.Type); !known {
				l.out.DropConsumer(key)
			}
			continue
		}
		if tl := l.ready.types[key.Type]; tl.lane(key.Name) != nil {
			continue
		}
		if !l.served(key.Type, key.Name) || !l.ready.room(key.Type) {
			l.out.DropConsumer(key)
			continue
		}
		if _, err := l.ready.lane(key.Type, key.Name); err != nil {
			return err
		}
	}
	return nil
}
