package core

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

// BeginCut begins a round of [events.Snapshot]; one under way is given up.
type BeginCut struct{}

func (BeginCut) decide(d *decider) (Decision, error) {
	if d.state.meta.Epoch == 0 { // a log that has not been cut begins with an ownership
		return Decision{}, events.Refuse(events.CodeWrongState, "nobody owns the partition yet")
	}
	return Decision{Events: []events.Event{d.typeEvent("", &events.Snapshot{Round: d.state.meta.Round + 1, Mark: events.MarkBegin, Level: d.state.meta.Level, Version: d.state.meta.LevelBy})}}, nil
}

var errNoRound = events.Refuse(events.CodeWrongState, "no round of snapshots is under way")

// EndCut ends the round under way. REQUIRES: every item has been carried. Keys
// are the projection's keys of the kinds that follow from no item: see
// [events.KeyKind.Unowned].
type EndCut struct {
	Keys []events.HeldKey
	// Kept says where the rejected submissions begin that the projection keeps, all
	// carried if from before the round; nil: keep none.
	Kept *events.RejectedKept
}

// decide states what belongs to no item.
func (c EndCut) decide(d *decider) (Decision, error) {
	if d.state.meta.RoundAt == 0 {
		return Decision{}, errNoRound
	}
	p := pages[events.Snapshot]{of: events.Snapshot{Round: d.state.meta.Round, Mark: events.MarkPart}}
	p.room(0)
	for _, name := range d.state.TypeNames() {
		t, _ := d.state.Type(name)
		t.Counts, t.Queued = [events.NumStates]int64{}, [events.MaxPriority + 1]int64{}
		s := p.room(jsonSize(t))
		s.Types = append(s.Types, t)
	}
	for _, rs := range d.state.recordSets() {
		for _, rec := range rs.all() {
			s := p.room(len(rec.Data) + len(rec.Key) + 64)
			s.Records = append(s.Records, rec)
		}
	}
	for _, k := range c.looseKeys(d) {
		s := p.room(jsonSize(k))
		s.Keys = append(s.Keys, k)
	}
	for i, s := range p.list {
		s.Part = i + 1
	}
	last, meta := p.list[len(p.list)-1], d.state.meta
	meta.Stale = nil // readers from here on find them
	last.Mark, last.Meta, last.Kept = events.MarkEnd, &meta, c.Kept
	if len(p.list) > MaxEndEvents {
		return Decision{}, events.Refuse(events.CodeTooLarge, "the round's end would have %d events, at most %d are allowed: there are too many keys of rate limits", len(p.list), MaxEndEvents)
	}
	return Decision{Events: d.snapshots(p.list), Parts: true}, nil
}

// looseKeys lays what has changed over the keys that the projection has: Keys.
func (c EndCut) looseKeys(d *decider) []events.HeldKey {
	all := make(map[events.KeyRef]events.HeldKey, len(c.Keys))
	for _, k := range c.Keys {
		all[k.Ref] = k
	}
	for ref, k := range d.state.keys.m {
		if !ref.Kind.Unowned() {
			continue
		}
		if delete(all, ref); k.v.has {
			all[ref] = k.v.held
		}
	}
	keys := slices.Collect(maps.Values(all))
	keys = slices.DeleteFunc(keys, func(k events.HeldKey) bool { return keyExpired(k, d.now) })
	slices.SortFunc(keys, func(a, b events.HeldKey) int {
		return cmp.Or(cmp.Compare(a.Ref.Kind, b.Ref.Kind), cmp.Compare(a.Ref.Type, b.Ref.Type), cmp.Compare(a.Ref.Key, b.Ref.Key))
	})
	return keys
}

func applySnapshot(a *applier, b *events.Snapshot) error {
	switch {
	case b.Mark == events.MarkBegin:
		if a.meta.Partial {
			return a.corrupt("the log has been cut and begins with a round of snapshots that does not end")
		}
		// A log begins with an ownership, unless it has been cut.
		a.meta.Partial = a.meta.Epoch == 0
		a.meta.Round, a.meta.RoundAt, a.meta.RoundBefore = b.Round, a.ev.Seq, a.meta.Events-1
		a.toRecarry = nil
		if b.Level != a.meta.Level && !a.meta.Partial {
			return a.corrupt("it says that the log has format level %d, and it has %d", max(1, b.Level), a.Level())
		}
		a.meta.Level, a.meta.LevelBy = b.Level, b.Version
		return a.mayRead()
	case b.Round != a.meta.Round || a.meta.RoundAt == 0:
		return a.corrupt("it is of round %d, which is not under way", b.Round)
	}
	if a.meta.Partial {
		a.restateRejected(b)
	}
	if b.Mark == events.MarkRejected {
		return nil
	}
	if a.meta.Partial {
		if err := a.restate(b); err != nil {
			return err
		}
	}
	if b.Mark == events.MarkEnd {
		a.cutRejected(b)
		a.cutStale()
		a.meta.CutAt, a.meta.CutBefore, a.meta.CutEnd, a.meta.CutTime, a.meta.RoundAt, a.meta.RoundBefore = a.meta.RoundAt, a.meta.RoundBefore, a.ev.Seq, a.ev.At, 0, 0
		a.toRecarry = nil
	}
	return nil
}

// cutStale forgets the frames below the round that ends.
func (a *applier) cutStale() {
	i, _ := slices.BinarySearch(a.meta.Stale, a.meta.RoundAt.Frame())
	a.meta.Stale = append([]uint64(nil), a.meta.Stale[i:]...)
}

// restate takes over what the end of a round says, in place of whatever the
// events since its begin have left.
func (a *applier) restate(b *events.Snapshot) error {
	all := a.recordSets()
	if b.Part == 1 {
		for _, r := range all {
			r.removeAll()
		}
	}
	for _, rec := range b.Records {
		i := slices.IndexFunc(all, func(r recordSet) bool { return r.of() == rec.Kind })
		if i < 0 {
			return a.corrupt("this program does not know records of kind %c: use a newer one", rec.Kind)
		}
		if err := all[i].restore(rec); err != nil {
			return a.corrupt("%v", err)
		}
	}
	for _, t := range b.Types {
		to := a.typeOf(t.Type)
		t.Counts, t.Queued = to.info.Counts, to.info.Queued
		to.info = t
	}
	for _, k := range b.Keys {
		a.putKey(k, true)
	}
	if b.Mark != events.MarkEnd {
		return nil
	}
	a.causes.countIdle()
	a.loadCircuits()
	a.loadPauses()
	a.drainVersion++
	if b.Meta == nil {
		return a.corrupt("it does not say how the partition is")
	}
	was := a.meta
	a.meta = *b.Meta
	a.meta.Applied, a.meta.Events, a.meta.LastAt, a.meta.Stale, a.meta.Partial = was.Applied, was.Events, was.LastAt, was.Stale, false
	if was.LastAt.After(a.meta.Ahead) { // as it was before this event
		a.meta.Ahead = time.Time{}
	}
	return nil
}

// skips reports whether an event is passed over while not everything is known,
// in the round at the head of a log that has been cut: one of an item that is
// not known yet, since its carried, which comes later, says what has become of
// it; and what the end of the round states in full.
func (a *applier) skips(f *fold) (bool, error) {
	if f.restated {
		return true, nil
	}
	switch b := a.ev.Body.(type) {
	case *events.Owned:
		if !b.Barrier {
			return true, a.corrupt("the log has been cut and begins with a round of snapshots that does not end")
		}
		return true, nil
	case *events.Snapshot, *events.Created:
		return false, nil
	case *events.Carried:
		if b.Part > 1 {
			return false, nil
		}
	}
	if a.ev.ID.IsZero() {
		return false, nil
	}
	e, err := a.entry(a.ev.ID)
	return e == nil && a.ev.Kind != events.KindCarried, err
}

// pages fills payloads up to carriedBytes each.
type pages[T any] struct {
	of   T // what each of them says
	list []*T
	size int // of the last
}

// room returns the payload that has room for so many bytes more.
func (p *pages[T]) room(bytes int) *T {
	if len(p.list) == 0 || p.size > 0 && p.size+bytes > carriedBytes {
		of := p.of
		p.list, p.size = append(p.list, &of), 0
	}
	p.size += bytes
	return p.list[len(p.list)-1]
}

func (d *decider) snapshots(list []*events.Snapshot) (evs []events.Event) {
	for _, s := range list {
		evs = append(evs, d.typeEvent("", s))
	}
	return evs
}

// jsonSize returns the length of v in JSON.
func jsonSize(v any) int {
	data, err := json.Marshal(v)
	if err != nil {
		return 0 // it is found when the event is encoded
	}
	return len(data)
}
