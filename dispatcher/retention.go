package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
)

// DefaultCutEvents is how many events the log holds at least before it is cut.
const DefaultCutEvents = 1_000_000

// The bounds of what retention does.
const (
	// eventsPerRetained: the log may hold so many events for each item that is
	// retained, so that re-stating them all is a small part of what is written.
	eventsPerRetained = 4
	// retainEvents and retainBytes are how much of a batch is retention's at
	// most: what is to be done for callers has the rest.
	retainEvents = 64
	retainBytes  = 1 << 20
	retainPage   = 256 // items looked at in one turn
	// keptPageBytes and keptPageAnswers are how much of what was rejected is
	// re-stated in one turn: an event or two.
	keptPageBytes   = 256 << 10
	keptPageAnswers = 2048
	// A pass over what has ended begins when the first of it is due, but not
	// sooner than this after the last one, and not later than the sweep.
	minPass = time.Second
	// maxLater bounds the items that wait for the projection to be carried.
	maxLater = 1024
	// carryPatience is how long one of them may wait. Then nothing is decided until
	// the projection has caught up: an item that is touched all the time would
	// keep the round from its end.
	carryPatience = time.Second
	recutAfter    = 30 * time.Second // a cut that was not answered is tried again
	cutTimeout    = 2 * time.Minute  // of one
)

// endedStates are those that items are pruned from.
var endedStates = [...]events.ItemState{events.StateCompleted, events.StateDead, events.StateCancelled, events.StateMerged}

// retention is what the loop knows of retention: the pass over what has ended, and
// the round of snapshots that lets the log be cut. All of it can be lost: a
// pass begins anew, and so does a round, but for the cut behind one that has
// ended, which the partition's record tells.
type retention struct {
	l *loop

	// The pass: the lists still to look at, and the place in the first.
	lists    []endedList
	place    projector.EndedPlace
	nextPass time.Time
	soonest  time.Time // the first that becomes due behind this pass
	held     int       // past their time in this pass, and not prunable
	heldLast int       // in the last one

	phase   cutPhase
	asked   bool
	began   events.Seq // of the round
	scan    events.ID  // the projection's items are looked at up to here
	scanned bool
	later   []events.ID // to be carried

	rejected keptPlace  // what was rejected is re-stated up to here
	waiting  time.Time  // since when nothing of them could be
	quiet    bool       // nothing else is decided until it could
	end      events.Seq // of the round
	nextCut  time.Time
	first    events.Seq // that the log keeps, as far as the loop knows
}

type endedList struct {
	typ   events.Type
	state events.ItemState
}

// cutPhase is how far a round has come.
type cutPhase int

const (
	cutIdle    cutPhase = iota
	cutBegun            // its begin is to be projected
	cutCarries          // items are carried
	cutSyncs            // its end is to be durable, and then synced
	cutCuts             // the log is being cut
)

var phaseNames = [...]string{"", "begun", "carrying", "syncing", "cutting"}

// begin is what follows from the log that was taken over.
func (k *retention) begin(l *loop) {
	now, m := l.clock.Now(), l.state.Meta()
	k.first, k.nextPass = max(m.CutAt, 1), now.Add(minPass)
	if m.CutAt > 0 {
		// Whether the log has been cut behind that round is not known: it does
		// no harm to do it again. Its end is as old as what was read at least.
		k.phase, k.began, k.end, k.nextCut = cutSyncs, m.CutAt, m.CutEnd, now.Add(l.cfg.SyncWithin)
	}
}

// retain does a bounded part of what there is to do. While the server's clock
// is implausible it does nothing.
func (k *retention) retain(now time.Time) error {
	if k.l.state.Meta().Partial {
		return nil
	}
	if k.l.clock.Doubtful() {
		k.waiting, k.quiet = time.Time{}, false // others must not wait for it
		return nil
	}
	if k.l.halt.on() {
		k.quiet = false // nothing would end it now
		if !k.cutting() {
			return nil
		}
		return k.cut(now)
	}
	if err := k.prune(now); err != nil {
		return err
	}
	return k.cut(now)
}

// cutting reports whether a round has ended and the cut behind it is to come:
// that frees room, where all else that retention does takes some first.
func (k *retention) cutting() bool { return k.phase == cutSyncs || k.phase == cutCuts }

// mayRetain reports whether the batch being built has room for retention.
func (k *retention) mayRetain() bool {
	return len(k.l.building.events) < retainEvents && k.l.building.bytes < retainBytes
}

// wake is when there is something to do, the zero time for never.
func (k *retention) wake(l *loop) time.Time {
	if l.clock.Doubtful() {
		return time.Time{}
	}
	now, at := l.clock.Now(), k.nextPass
	if l.halt.on() {
		if k.cutting() {
			return k.nextCut
		}
		return time.Time{}
	}
	if len(k.lists) > 0 {
		at = time.Time{}
		if l.retention.mayRetain() {
			return now
		}
	}
	switch k.phase {
	case cutIdle:
		if k.asked && l.retention.mayRetain() {
			return now
		}
	case cutBegun:
		if l.cfg.Store.Applied() >= k.began {
			return now
		}
	case cutCarries:
		if l.retention.mayRetain() && (!k.scanned && len(k.later) < maxLater || len(k.later) == 0 || l.state.Projectable(k.later[0])) {
			return now
		}
		if !k.quiet && !k.waiting.IsZero() {
			return clock.Sooner(at, k.waiting.Add(carryPatience))
		}
	case cutSyncs, cutCuts:
		return clock.Sooner(at, k.nextCut)
	}
	return at
}

// prune goes on with a pass over the items that have ended, or begins one.
func (k *retention) prune(now time.Time) error {
	if len(k.lists) == 0 {
		if !clock.Passed(k.nextPass, now) {
			return nil
		}
		k.lists, k.place, k.soonest, k.held = k.endedLists(), projector.EndedPlace{}, now.Add(k.l.cfg.Sweep), 0
	}
	for len(k.lists) > 0 && k.mayRetain() {
		if err := k.pruneFrom(k.lists[0], now); err != nil {
			return err
		}
	}
	if len(k.lists) > 0 {
		return nil
	}
	k.heldLast = k.held
	k.nextPass = clock.Later(k.soonest, now.Add(minPass))
	if k.phase == cutIdle && k.cutIsDue() {
		k.asked = true
	}
	return nil
}

func (k *retention) endedLists() (lists []endedList) {
	for _, t := range k.l.state.TypeNames() {
		info, _ := k.l.state.Type(t)
		for _, state := range endedStates {
			if info.Counts[state] > 0 {
				lists = append(lists, endedList{t, state})
			}
		}
	}
	return lists
}

// pruneFrom looks at the next page of a list, those that ended first. The list
// is left when its end, or an item that is to be kept for longer, is reached.
func (k *retention) pruneFrom(list endedList, now time.Time) error {
	page, last, err := k.l.cfg.Store.Ended(list.state, list.typ, k.place, retainPage)
	if err != nil {
		return err
	}
	set, _ := k.l.state.Settings(list.typ)
	k.place = last
	for _, shown := range page {
		it, err := k.l.state.Item(shown.ID)
		if err != nil {
			return err
		}
		if it == nil || it.State != list.state {
			continue // the projection lags behind
		}
		if due := it.FinishedAt.Add(set.Retain.For(it.State)); due.After(now) {
			k.soonest = clock.Sooner(k.soonest, due)
			page = nil
			break
		}
		_, _, err = k.l.decide(core.Prune{ID: it.ID})
		if err := fatal(err); err != nil {
			return err
		}
		if err != nil {
			k.held++ // a key or another item hangs on it: the next pass looks again
		}
	}
	if len(page) < retainPage {
		k.lists, k.place = k.lists[1:], projector.EndedPlace{}
	}
	return nil
}

// cutIsDue reports whether the log has grown so far that it is worth a round.
func (k *retention) cutIsDue() bool {
	held := int64(k.l.appended) - int64(k.first) + 1
	return held >= max(int64(k.l.cfg.CutEvents), eventsPerRetained*k.retained())
}

// retained is how many items there are.
func (k *retention) retained() (n int64) {
	for _, t := range k.l.state.TypeNames() {
		info, _ := k.l.state.Type(t)
		for _, c := range info.Counts {
			n += c
		}
	}
	return n
}
