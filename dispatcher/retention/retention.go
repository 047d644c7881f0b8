package retention

import (
	"log/slog"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
)

// Bounds of retention.
const (
	// eventsPerRetained is the number of events that the log may hold for each retained
	// item, so that re-stating them all is a small part of what is written.
	eventsPerRetained = 4
	// retainEvents and retainBytes bound retention's share of a batch: callers get the
	// rest.
	retainEvents = 64
	retainBytes  = 1 << 20
	retainPage   = 256 // items looked at per turn
	// keptPageBytes and keptPageAnswers bound the rejected submissions re-stated in one
	// turn: an event or two.
	keptPageBytes   = 256 << 10
	keptPageAnswers = 2048
	// minPass is the shortest time between two passes over the ended items. A pass begins
	// when the first item is due, and no later than the sweep.
	minPass = time.Second
	// maxLater bounds the items to be carried that wait for the projection.
	maxLater = 1024
	// carryPatience is the longest that one of them may wait. Then nothing is decided until
	// the projection has caught up: otherwise an item that is touched all the time would
	// keep the round from ending.
	carryPatience = time.Second
	recutAfter    = 30 * time.Second // an unanswered cut is tried again after this
	// CutTimeout bounds one cut of the log.
	CutTimeout = 2 * time.Minute
)

// endedStates are the states from which items are pruned.
var endedStates = [...]events.ItemState{events.StateCompleted, events.StateDead, events.StateCancelled, events.StateMerged}

// Batch is the batch of decisions that is being built.
type Batch interface {
	// Decide decides a command and adds its events. A refusal is returned as refused; err
	// stops the partition.
	Decide(core.Command) (refused, err error)
	// Add adds the events of a decision that has parts: what has no room goes into the
	// next batches, and nothing else is decided until then.
	Add([]events.Event) error
	// Size returns the size of the batch so far.
	Size() (events, bytes int)
}

// Config configures a Retention.
type Config struct {
	State *core.State
	Store *projector.Store
	Clock *clock.Clock
	Log   *slog.Logger
	Batch Batch

	Sweep      time.Duration     // longest time between two passes
	SyncWithin time.Duration     // time after which a durable event is on disk
	CutEvents  int               // least number of events in the log before it is cut
	Appended   func() events.Seq // the last durable event
	// CutLog has the log cut below a frame, and [Retention.CutDone] called when it is.
	CutLog func(below uint64)
	// Halted reports whether nothing new may begin. If only the cut is left of a round, it
	// goes on, as it frees room.
	Halted func() bool
}

// Retention is the state of the pass and the round.
type Retention struct {
	Config

	// The pass: the lists still to look at, and the place in the first one.
	lists    []endedList
	place    projector.EndedPlace
	nextPass time.Time
	soonest  time.Time // when the first item becomes due after this pass
	held     int       // items of this pass past their time, but not prunable
	heldLast int       // the same for the last pass

	phase phase
	asked bool
	round round
	first events.Seq // first event of the log, as far as is known
	gone  uint64     // the events before it
}

// round is the state of the round under way.
type round struct {
	began    events.Seq
	scan     events.ID // the projection's items have been looked at up to here
	scanned  bool
	later    []events.ID // items to be carried
	rejected keptPlace   // rejected submissions have been re-stated up to here
	waiting  time.Time   // since when none of later could be carried
	quiet    bool        // nothing else is decided until one could
	nextCut  time.Time
}

type endedList struct {
	typ   events.Type
	state events.ItemState
}

// phase is the progress of a round.
type phase int

const (
	idle    phase = iota
	begun         // its begin must be projected
	carries       // items are being carried
	syncs         // its end must become durable, and then synced
	cuts          // the log is being cut
)

var phaseNames = [...]string{"", "begun", "carrying", "syncing", "cutting"}

// New returns the Retention of an ownership, from the log that was taken over.
func New(cfg Config) *Retention {
	k := &Retention{Config: cfg}
	now, m := cfg.Clock.Now(), cfg.State.Meta()
	k.first, k.gone, k.nextPass = max(m.CutAt, events.SeqOf(1, 0)), m.CutBefore, now.Add(minPass)
	if m.CutAt > 0 {
		// It is not known whether the log has been cut after that round; cutting it again
		// does no harm. The round's end is at least as old as what was read.
		k.phase, k.round = syncs, round{began: m.CutAt, nextCut: now.Add(cfg.SyncWithin)}
	}
	return k
}

// Quiet reports whether nothing else may be decided for now: the round waits for the
// projection of items that are touched all the time, or is to begin with a batch of its own.
func (k *Retention) Quiet() bool {
	return k.round.quiet || k.phase == idle && k.asked && !k.State.Meta().Partial && !k.Clock.Doubtful() && !k.Halted()
}

// Work does a bounded part of the pending work.
func (k *Retention) Work(now time.Time) error {
	if k.State.Meta().Partial {
		return nil
	}
	if k.Clock.Doubtful() {
		k.round.waiting, k.round.quiet = time.Time{}, false // others must not wait for it
		return nil
	}
	if k.Halted() {
		k.round.quiet = false // nothing would end it now
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

// cutting reports whether a round has ended and only its cut is left. The cut frees room,
// while all other work of retention first takes some.
func (k *Retention) cutting() bool { return k.phase == syncs || k.phase == cuts }

// mayRetain reports whether the batch being built has room for retention.
func (k *Retention) mayRetain() bool {
	n, bytes := k.Batch.Size()
	return n < retainEvents && bytes < retainBytes
}

// Wake returns when there is something to do, the zero time for never.
func (k *Retention) Wake() time.Time {
	if k.Clock.Doubtful() {
		return time.Time{}
	}
	now, at := k.Clock.Now(), k.nextPass
	if k.Halted() {
		if k.cutting() {
			return k.round.nextCut
		}
		return time.Time{}
	}
	if len(k.lists) > 0 {
		at = time.Time{}
		if k.mayRetain() {
			return now
		}
	}
	switch k.phase {
	case idle:
		if n, _ := k.Batch.Size(); k.asked && n == 0 {
			return now
		}
	case begun:
		if k.Store.Applied() >= k.round.began {
			return now
		}
	case carries:
		if k.mayRetain() && (!k.round.scanned && len(k.round.later) < maxLater || len(k.round.later) == 0 || k.State.Projectable(k.round.later[0])) {
			return now
		}
		if !k.round.quiet && !k.round.waiting.IsZero() {
			return clock.Sooner(at, k.round.waiting.Add(carryPatience))
		}
	case syncs, cuts:
		return clock.Sooner(at, k.round.nextCut)
	}
	return at
}

// prune continues a pass over the ended items, or begins one.
func (k *Retention) prune(now time.Time) error {
	if len(k.lists) == 0 {
		if !clock.Passed(k.nextPass, now) {
			return nil
		}
		k.lists, k.place, k.soonest, k.held = k.endedLists(), projector.EndedPlace{}, now.Add(k.Sweep), 0
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
	if k.phase == idle && k.cutIsDue() {
		k.asked = true
	}
	return nil
}

func (k *Retention) endedLists() (lists []endedList) {
	for _, t := range k.State.TypeNames() {
		info, _ := k.State.Type(t)
		for _, state := range endedStates {
			if info.Counts[state] > 0 {
				lists = append(lists, endedList{t, state})
			}
		}
	}
	return lists
}

// pruneFrom looks at the next page of a list, those that ended first. It leaves the list
// when it reaches the end, or an item that must be kept for longer.
func (k *Retention) pruneFrom(list endedList, now time.Time) error {
	page, last, err := k.Store.Ended(list.state, list.typ, k.place, retainPage)
	if err != nil {
		return err
	}
	set, _ := k.State.Settings(list.typ)
	k.place = last
	for _, shown := range page {
		it, err := k.State.Item(shown.ID)
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
		refused, err := k.Batch.Decide(core.Prune{ID: it.ID})
		if err != nil {
			return err
		}
		if refused != nil {
			k.held++ // a key or another item refers to it: the next pass looks again
		}
	}
	if len(page) < retainPage {
		k.lists, k.place = k.lists[1:], projector.EndedPlace{}
	}
	return nil
}

// cutIsDue reports whether the log has grown enough to be worth a round.
func (k *Retention) cutIsDue() bool {
	return k.events() >= max(int64(k.CutEvents), eventsPerRetained*k.retained())
}

// events returns the number of events in the log.
func (k *Retention) events() int64 { return int64(k.State.Meta().Events - k.gone) }

// retained returns the number of items.
func (k *Retention) retained() (n int64) {
	for _, t := range k.State.TypeNames() {
		info, _ := k.State.Type(t)
		for _, c := range info.Counts {
			n += c
		}
	}
	return n
}

// Status describes the state of retention.
type Status struct {
	First    events.Seq // first event of the log, as far as the engine knows
	Last     events.Seq
	Events   int64 // in the log
	Retained int64 // items
	Held     int   // of these, past their time but still referred to, at the last look
	Pruned   int64 // items pruned in all
	CutAt    time.Time
	Phase    string // of the round under way; empty: none
}

// Ask has a round begin, unless the log begins after past already or one is under way.
func (k *Retention) Ask(past events.Seq) {
	if past > 0 && k.first > past {
		return
	}
	if k.phase == idle || k.phase == syncs && k.first == k.round.began {
		k.asked, k.phase = true, idle
	}
}

// Status returns the state of retention.
func (k *Retention) Status() Status {
	m := k.State.Meta()
	s := Status{First: k.first, Last: m.Applied, Events: k.events(), Retained: k.retained(), Held: k.heldLast, Pruned: m.Pruned, CutAt: m.CutTime, Phase: phaseNames[k.phase]}
	if k.asked {
		s.Phase = phaseNames[begun]
	}
	return s
}
