package readyq

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/ready"
)

// LaneIdle is the time after which an open lane with nothing to run is closed.
const LaneIdle = 10 * time.Minute

// LookForRoom is the shortest time between two looks for room, while more lanes want to
// open than may.
const LookForRoom = 100 * time.Millisecond

// maxLaneSeeks bounds the index seeks in search of lanes in one step of the loop.
const maxLaneSeeks = 512

// lane holds the levels of an open lane. A level is nil until something is queued at its
// priority.
type lane struct {
	typ    events.Type
	name   string
	levels [levels]*level
	idle   time.Time // when a sweep first found it empty; zero: it was not
}

// typeLanes holds the open lanes of a type. The shared one is always open. A lane with
// capabilities is open when it may have something to run and a registered worker serves it,
// if there is room. So capabilities that submitters ask for, and nobody offers, take no
// memory. The items of such a lane wait in the index, and the lane
// is opened from there when a worker that serves it comes.
type typeLanes struct {
	open map[string]*lane
	busy map[string]*lane // the open ones that may have something to run
}

// empty reports whether a lane has nothing to run until something is inserted.
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
func (r *Queues) of(t events.Type) (*typeLanes, error) {
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
func (r *Queues) known(it *events.Item) *level {
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

// lane returns a lane, and opens it if need be; nil if it may not be open.
func (r *Queues) lane(t events.Type, name string) (*lane, error) {
	tl, err := r.of(t)
	if err != nil || tl.open[name] != nil {
		return tl.lane(name), err
	}
	if !r.Served(t, name) {
		return nil, nil
	}
	if r.crowded[t] || !r.room(t) { // lanes that wait already come first: see MakeRoom
		r.crowded[t] = true
		return nil, nil
	}
	if err := r.open(t, name, tl); err != nil {
		return nil, err
	}
	r.named++
	return tl.open[name], nil
}

func (tl *typeLanes) lane(name string) *lane {
	if tl == nil {
		return nil
	}
	return tl.open[name]
}

// open takes a lane into memory; its queues are read as they are needed.
func (r *Queues) open(t events.Type, name string, tl *typeLanes) error {
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
		q := ready.Queue{Type: t, Lane: name, Priority: p}
		r.read += seekCost
		first, err := r.Index.ReadyGroups(q, "", true, 1)
		if err != nil {
			return err
		}
		if len(first) == 0 {
			continue
		}
		named := first[0].Name != ""
		if !named {
			r.read += seekCost
			groups, err := r.Index.ReadyGroups(q, "", false, 1)
			if err != nil {
				return err
			}
			named = len(groups) > 0
		}
		incomplete(p, named)
	}
	if r.Unprojected != nil {
		r.Unprojected(func(_, after *events.Item) {
			if q := queueOf(after); q.Type == t && q.Lane == name {
				incomplete(q.Priority, after.Group != "")
			}
		})
	}
	tl.open[name], tl.busy[name] = ln, ln
	return nil
}

// room reports whether another lane of a type may be opened. If need be, it closes a lane
// that has nothing to run.
func (r *Queues) room(t events.Type) bool {
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

// closeIdle closes one lane of a type that has nothing to run, if there is one, and reports whether it did.
func (r *Queues) closeIdle(t events.Type) bool {
	for name, ln := range r.types[t].open {
		if name != "" && ln.empty() {
			r.close(t, name)
			return true
		}
	}
	return false
}

// close leaves a lane with capabilities to the index.
func (r *Queues) close(t events.Type, name string) {
	tl := r.types[t]
	for _, lv := range tl.open[name].levels {
		if lv != nil && lv.ring != nil {
			r.throttled.drop(lv.ring)
		}
	}
	delete(tl.open, name)
	delete(tl.busy, name)
	r.named--
}

// laneSearch searches the index for the lanes of a type that an offer covers.
type laneSearch struct {
	typ   events.Type
	offer lanes.Offer
	start string // where it begins; from the end it goes on at the first lane, up to here
	from  string // the next lane to look at; empty: it has not begun
	again bool   // it has reached the end once
}

// laneSearches holds the searches under way. Owned by the loop.
type laneSearches struct {
	offers map[events.Type]map[string]lanes.Offer // the registered workers' offers, by name
	open   []laneSearch
	// nextRoom is the time of the next look for room. full names a lane of each type that
	// found no room: the next search begins there, so that no lane is passed over for ever.
	nextRoom time.Time
	full     map[events.Type]string
}

// Served reports whether a registered worker serves a lane.
func (r *Queues) Served(t events.Type, lane string) bool {
	for _, o := range r.lanes.offers[t] {
		if o.Covers(lane) {
			return true
		}
	}
	return false
}

// Offers sets what the registered workers offer, by type and name. Lanes that nobody serves
// any more are closed, and lanes that a new offer covers are searched for.
func (r *Queues) Offers(all map[events.Type]map[string]lanes.Offer) {
	old := r.lanes.offers
	r.lanes.offers = all
	for t, offers := range all {
		for name, o := range offers {
			if _, known := old[t][name]; !known && name != "" {
				r.searchLanes(t, o, "")
			}
		}
	}
	r.lanes.open = slices.DeleteFunc(r.lanes.open, func(s laneSearch) bool {
		_, there := r.lanes.offers[s.typ][events.LaneOf(s.offer)]
		return !there
	})
	for t, tl := range r.types {
		for name := range tl.open {
			if name != "" && !r.Served(t, name) {
				r.close(t, name)
			}
		}
	}
}

func (r *Queues) searchLanes(t events.Type, o lanes.Offer, start string) {
	same := func(s laneSearch) bool { return s.typ == t && slices.Equal(s.offer, o) }
	r.lanes.open = append(slices.DeleteFunc(r.lanes.open, same), laneSearch{typ: t, offer: o, start: start})
}

// FindLanes continues the searches for lanes, as far as one step may. stalled says that
// they must go on at once.
func (r *Queues) FindLanes() (stalled bool, err error) {
	left := maxLaneSeeks
	for len(r.lanes.open) > 0 {
		if left <= 0 {
			return true, nil
		}
		done, err := r.findSome(&r.lanes.open[0], &left)
		if err != nil {
			return false, err
		}
		if done {
			r.lanes.open = r.lanes.open[1:]
		}
	}
	r.lanes.open = nil
	return false, nil
}

// findSome continues a search, and reports whether it is done.
func (r *Queues) findSome(s *laneSearch, left *int) (done bool, err error) {
	var found []string
	if s.from == "" {
		s.from = s.offer.NextLane(s.start)
		r.Unprojected(func(_, after *events.Item) {
			if q := queueOf(after); q.Type == s.typ && q.Lane != "" && s.offer.Covers(q.Lane) {
				found = append(found, q.Lane)
			}
		})
	}
	next := ""
	if s.from != "" {
		next, err = r.lookForLanes(s, left, &found)
	}
	if err != nil {
		return false, err
	}
	for _, name := range found {
		*left -= levels
		if ln, err := r.lane(s.typ, name); ln == nil || err != nil {
			r.lanes.full[s.typ] = name
			return true, err // there is no room, or no worker serves it any more
		}
	}
	r.again(s.typ)
	if s.from = next; next == "" && !s.again && s.start != "" {
		s.again, s.from = true, s.offer.NextLane("")
	}
	return s.from == "" || s.again && s.from >= s.start, nil
}

// lookForLanes adds the next lanes that a search finds. It returns where to continue;
// empty: the index has no more.
func (r *Queues) lookForLanes(s *laneSearch, left *int, found *[]string) (next string, err error) {
	cut := false
	err = r.Index.ReadyLanes(s.typ, s.from, func(lane string) string {
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

// MakeRoom begins searches for the lanes that found no room, if there is room now.
func (r *Queues) MakeRoom(now time.Time) {
	if len(r.crowded) == 0 || r.lanes.nextRoom.After(now) {
		return
	}
	r.lanes.nextRoom = now.Add(LookForRoom)
	for t := range r.crowded {
		if !r.room(t) {
			continue
		}
		delete(r.crowded, t)
		for _, o := range r.lanes.offers[t] {
			if len(o) > 0 {
				r.searchLanes(t, o, r.lanes.full[t])
			}
		}
	}
}

// CloseLanes closes the lanes that have had nothing to run for LaneIdle.
func (r *Queues) CloseLanes(now time.Time) {
	for t, tl := range r.types {
		for name, ln := range tl.open {
			switch {
			case name == "":
			case !ln.empty():
				ln.idle = time.Time{}
			case ln.idle.IsZero():
				ln.idle = now
			case now.Sub(ln.idle) >= LaneIdle:
				r.close(t, name)
			}
		}
	}
}

// NextRoom returns when MakeRoom must be called again, zero for never, or at any time.
func (r *Queues) NextRoom() time.Time {
	if len(r.crowded) == 0 {
		return time.Time{}
	}
	return r.lanes.nextRoom
}

// Offered reports whether a registered worker serves a type.
func (r *Queues) Offered(t events.Type) bool { return len(r.lanes.offers[t]) > 0 }

// IsOpen reports whether a lane is open.
func (r *Queues) IsOpen(t events.Type, name string) bool { return r.types[t].lane(name) != nil }

// Types returns the types that have open lanes.
func (r *Queues) Types() iter.Seq[events.Type] { return maps.Keys(r.types) }

// BusyLanes returns the names of a type's open lanes that may have something to run; known
// is false if none is open.
func (r *Queues) BusyLanes(t events.Type) (names iter.Seq[string], known bool) {
	tl := r.types[t]
	if tl == nil {
		return func(func(string) bool) {}, false
	}
	return maps.Keys(tl.busy), true
}

// Empty reports whether no item of a type waits in its open lanes.
func (r *Queues) Empty(t events.Type) bool {
	tl := r.types[t]
	if tl == nil {
		return false
	}
	for _, ln := range tl.busy {
		if !ln.empty() {
			return false
		}
	}
	return true
}

// Named returns how many lanes with capabilities are open, of all types.
func (r *Queues) Named() int { return r.named }
