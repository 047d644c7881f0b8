package live

import (
	"cmp"
	"maps"
	"slices"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

const (
	// MaxEvents bounds the events that one frame shows.
	MaxEvents = 20
	// maxWindow bounds the events kept between two frames for all clients
	// together, at most MaxEvents of a type.
	maxWindow = 512
	// maxWindowTypes bounds the types told apart between two frames: submissions may
	// be rejected because of their type. Beyond it, events count only for clients
	// that watch all types.
	maxWindowTypes = 2 * events.MaxTypes
	// maxEventData bounds the data of an event that is shown; more is left out, and
	// found in the item's history.
	maxEventData = 4 << 10
)

// window holds what has happened since the last frame: all of it counted, some of
// it kept.
type window struct {
	types map[events.Type]*typeWindow
	kept  int
}

type typeWindow struct {
	total int
	seen  uint64      // bits of the kinds there were
	kept  []candidate // at most MaxEvents
}

// rank says how much an event tells a person.
type rank uint8

const (
	oneOfMany rank = iota
	firstOfKind
	wentWrong
)

type candidate struct {
	ev   events.Event
	rank rank
}

func (w *window) add(c *core.Changes) {
	for i := range c.History {
		w.offer(&c.History[i])
	}
	for i := range c.Noted {
		w.offer(&c.Noted[i])
	}
	for _, r := range c.Rejected {
		if r.Body != nil {
			w.offer(&events.Event{Seq: r.Seq, Kind: events.KindRejected, Type: r.Type, At: r.At, Body: r.Body})
		}
	}
}

// offer counts an event, and keeps it if there is room for it, or if it tells
// more than another of its type.
func (w *window) offer(ev *events.Event) {
	t := w.typeOf(ev.Type)
	t.total++
	r := t.rank(ev.Kind)
	switch {
	case len(t.kept) < MaxEvents && (w.kept < maxWindow || len(t.kept) == 0 && w.evict()):
		w.kept++
		t.kept = append(t.kept, candidate{brief(*ev), r})
	case r > oneOfMany:
		t.replace(ev, r)
	}
}

func (w *window) typeOf(name events.Type) *typeWindow {
	if t := w.types[name]; t != nil {
		return t
	}
	if w.types == nil {
		w.types = map[events.Type]*typeWindow{}
	}
	if len(w.types) >= maxWindowTypes {
		name = ""
		if t := w.types[name]; t != nil {
			return t
		}
	}
	t := &typeWindow{}
	w.types[name] = t
	return t
}

func (t *typeWindow) rank(k events.Kind) rank {
	bit := uint64(1) << k
	first := t.seen&bit == 0
	t.seen |= bit
	switch {
	case k == events.KindFailed || k == events.KindDead || k == events.KindRejected || k == events.KindCauseNoted:
		return wentWrong
	case first:
		return firstOfKind
	}
	return oneOfMany
}

// evict makes room for the first event of a type, where another has several.
func (w *window) evict() bool {
	var fattest *typeWindow
	for _, t := range w.types {
		if len(t.kept) > 1 && (fattest == nil || len(t.kept) > len(fattest.kept)) {
			fattest = t
		}
	}
	if fattest == nil {
		return false
	}
	fattest.kept = slices.Delete(fattest.kept, fattest.least(), fattest.least()+1)
	w.kept--
	return true
}

// least returns the last of those kept that tell the least.
func (t *typeWindow) least() int {
	at := len(t.kept) - 1
	for i := at; i >= 0; i-- {
		if t.kept[i].rank < t.kept[at].rank {
			at = i
		}
	}
	return at
}

func (t *typeWindow) replace(ev *events.Event, r rank) {
	if len(t.kept) == 0 {
		return
	}
	if at := t.least(); t.kept[at].rank < r {
		t.kept[at] = candidate{brief(*ev), r}
	}
}

// brief returns an event without its documents, so that the window keeps none of
// them in memory.
func brief(ev events.Event) events.Event {
	switch b := ev.Body.(type) {
	case *events.Created:
		short := *b
		short.Params = nil
		ev.Body = &short
	case *events.Completed:
		short := *b
		short.Result = nil
		ev.Body = &short
	case *events.Queued:
		short := *b
		short.Outcomes = nil
		ev.Body = &short
	case *events.Checkpointed:
		ev.Body = &events.Checkpointed{}
	case *events.Replayed:
		short := *b
		short.Params = nil
		ev.Body = &short
	case *events.Rejected:
		ev.Body = &events.Rejected{Code: b.Code, Message: b.Message, Subject: b.Subject, Size: b.Size, Of: b.Of, Intake: b.Intake}
	}
	return ev
}

// wanted reports whether a filter (nil: none) has a type.
func wanted(filter map[events.Type]bool, t events.Type) bool { return filter == nil || filter[t] }

// pick chooses what a client with a filter is shown, at most MaxEvents, in order,
// and says how many of what has happened that leaves out.
func (w *window) pick(filter map[events.Type]bool) (shown []wire.HistoryEvent, skipped int) {
	var lists [][]candidate
	for _, name := range slices.Sorted(maps.Keys(w.types)) {
		t := w.types[name]
		if !wanted(filter, name) {
			continue
		}
		skipped += t.total
		if len(t.kept) > 0 {
			list := slices.Clone(t.kept)
			slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(b.rank, a.rank) })
			lists = append(lists, list)
		}
	}
	picked := choose(lists)
	slices.SortFunc(picked, func(a, b candidate) int { return cmp.Compare(a.ev.Seq, b.ev.Seq) })
	shown = make([]wire.HistoryEvent, len(picked))
	for i, p := range picked {
		shown[i] = show(p.ev)
	}
	return shown, skipped - len(shown)
}

// choose takes the best of each type first, then what went wrong, then the
// rest, of the types by turns. The lists are in order of rank.
func choose(lists [][]candidate) (picked []candidate) {
	slices.SortStableFunc(lists, func(a, b []candidate) int { return cmp.Compare(b[0].rank, a[0].rank) })
	turn := func(least rank) (some bool) {
		for i, list := range lists {
			if len(picked) == MaxEvents {
				return false
			}
			if len(list) > 0 && list[0].rank >= least {
				picked, lists[i], some = append(picked, list[0]), list[1:], true
			}
		}
		return some
	}
	turn(oneOfMany)
	for _, least := range []rank{wentWrong, firstOfKind, oneOfMany} {
		for turn(least) {
		}
	}
	return picked
}

func show(ev events.Event) wire.HistoryEvent {
	out := wire.FromEvent(ev)
	if len(out.Data) > maxEventData {
		out.Data = nil
	}
	return out
}
