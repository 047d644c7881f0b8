package core

import (
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

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

// outdate notes that an item which the round under way has carried is changed
// by the event of one that it has not: who begins to read with this round does
// not know the event's item yet and can't tell, so the item is carried again.
func (a *applier) outdate(e *entry) {
	if a.base < a.meta.RoundAt && e.id != a.ev.ID && e.cur.BaseSeq >= a.meta.RoundAt {
		e.cur.BaseSeq = 0
		a.again = append(a.again, e.id)
	}
}

// leans notes that what has become of an item depends on another. If the round
// under way has not carried that one yet, who begins to read with this round
// does not know it and may conclude otherwise: the item is carried again.
func (a *applier) leans(it *events.Item, on events.ID) error {
	if a.meta.RoundAt == 0 || it.BaseSeq < a.meta.RoundAt {
		return nil
	}
	e, err := a.entry(on)
	if err == nil && e != nil && e.cur.BaseSeq < a.meta.RoundAt {
		it.BaseSeq = 0
		a.again = append(a.again, it.ID)
	}
	return err
}

// TakeCarryAgain returns the items that were carried in the round under way and
// must be so once more, by what was applied since the last call.
func (s *State) TakeCarryAgain() []events.ID {
	ids := s.again
	s.again = nil
	return ids
}

func applySnapshot(a *applier, b *events.Snapshot) error {
	switch {
	case b.Mark == events.MarkBegin:
		if a.meta.Partial {
			return a.corrupt("the log has been cut and begins with a round of snapshots that does not end")
		}
		// A log begins with an ownership, unless it has been cut.
		a.meta.Partial = a.meta.Epoch == 0
		a.meta.Round, a.meta.RoundAt = b.Round, a.ev.Seq
		a.again = nil
		return nil
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
		a.meta.CutAt, a.meta.CutEnd, a.meta.CutTime, a.meta.RoundAt = a.meta.RoundAt, a.ev.Seq, a.ev.At, 0
		a.again = nil
	}
	return nil
}

// restate takes over what the end of a round says, in place of whatever the
// events since its begin have left.
func (a *applier) restate(b *events.Snapshot) error {
	all := a.recordSets()
	if a.ev.Tx.N <= 1 {
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
	applied, at := a.meta.Applied, a.meta.LastAt
	a.meta = *b.Meta
	a.meta.Applied, a.meta.LastAt, a.meta.Partial = applied, at, false
	if at.After(a.meta.Ahead) { // as it was before this event
		a.meta.Ahead = time.Time{}
	}
	return nil
}

func applyCarried(a *applier, b *events.Carried) error {
	e, err := a.entry(a.ev.ID)
	if err != nil {
		return err
	}
	if a.meta.Partial && b.Part == 1 {
		if e != nil {
			if err := a.loseKeys(e.cur); err != nil {
				return err
			}
			a.forget(e)
		}
		it, keys := *b.Item, slices.Clone(b.Keys)
		for i := range keys {
			if ref := &keys[i].Ref; ref.Kind == events.KeyMsgID && ref.Type == "" { // written when ids were of no type
				it.MsgID, ref.Type = ref.Key, it.Type
			}
		}
		e = a.insert(&it, nil)
		a.count(&it, +1)
		for _, of := range relationsOf(&it).Waits {
			a.setWait(of, it.ID, true)
		}
		for _, k := range keys {
			a.putKey(k, true)
		}
	}
	if e == nil || a.meta.RoundAt == 0 {
		return a.corrupt("there is no such item, or no round is under way")
	}
	if a.meta.Partial {
		a.restateItem(e, b)
	} else if b.Fold != nil {
		fold := *b.Fold
		fold.ID = a.ev.ID
		a.folds = append(a.folds, fold)
	}
	if b.Part == b.Parts {
		a.writable(e).BaseSeq = a.ev.Seq
	}
	a.touch(e, a.ev.Seq)
	return nil
}

// restateItem keeps what a carried says of what stands beside an item.
func (a *applier) restateItem(e *entry, b *events.Carried) {
	for _, d := range b.Documents {
		a.setDocument(d.Kind, e.id, d.Data)
		if d.Kind == events.DocParams {
			e.params = d.Data
			a.cacheBytes += len(d.Data)
		}
	}
	a.merged = append(a.merged, b.Merged...)
	if len(b.History) > 0 {
		a.restated = append(a.restated, Restated{ID: e.id, History: b.History})
	}
}

func applyPruned(a *applier, _ *events.Pruned) error {
	e, err := a.entry(a.ev.ID)
	if err != nil {
		return err
	}
	if e == nil || !e.cur.State.Terminal() {
		return a.corrupt("there is no such item, or it has not ended")
	}
	if err := a.loseKeys(e.cur); err != nil {
		return err
	}
	if e.cur.Cause != "" {
		a.causes.leftDead(a.writable(e), a.ev.At)
	}
	a.forget(e)
	a.touch(e, a.ev.Seq)
	a.meta.Pruned++
	return nil
}

// loseKeys frees the keys that lead to an item.
func (a *applier) loseKeys(it *events.Item) error {
	for _, ref := range allKeys(it) {
		held, has, err := a.Key(ref, a.meta.LastAt)
		if err != nil {
			return err
		}
		if has && held.ID == it.ID {
			a.setKey(events.HeldKey{Ref: ref, ID: it.ID}, false)
		}
	}
	return nil
}

// insert adds an item that does not exist.
func (a *applier) insert(it *events.Item, params []byte) *entry {
	e := a.items[it.ID]
	if e == nil {
		e = &entry{id: it.ID}
		a.items[it.ID] = e
	}
	e.cur, e.params, e.fresh, e.reborn = it, params, true, e.prev != nil
	a.markDirty(e)
	a.cacheBytes += len(params)
	a.touch(e, a.meta.Applied)
	return e
}

// forget lets go of an item and of all that stands beside it, but for its keys.
func (a *applier) forget(e *entry) {
	a.count(e.cur, -1)
	if e.dirty {
		// What was to be written of it must not come back behind its end.
		a.dirtyDocs = slices.DeleteFunc(a.dirtyDocs, func(d Document) bool { return d.ID == e.id })
		a.history = slices.DeleteFunc(a.history, func(ev events.Event) bool { return ev.ID == e.id })
		a.merged = slices.DeleteFunc(a.merged, func(m events.MergedEntry) bool { return m.Into == e.id })
		a.restated = slices.DeleteFunc(a.restated, func(r Restated) bool { return r.ID == e.id })
		a.folds = slices.DeleteFunc(a.folds, func(f events.Fold) bool { return f.ID == e.id })
	}
	for _, k := range events.DocKinds {
		if k != events.DocParams {
			a.docs.set(docRef{k, e.id}, nil, a.meta.Applied)
		}
	}
	for _, of := range relationsOf(e.cur).Waits {
		a.setWait(of, e.id, false)
	}
	a.cacheBytes -= len(e.params)
	e.cur, e.params, e.fresh = nil, nil, false
	a.markDirty(e)
}

// appendChanges appends what has become of the item since the last call.
func (e *entry) appendChanges(to []ItemChange) []ItemChange {
	switch {
	case e.cur == nil && e.prev == nil:
		return to
	case e.reborn && e.prev != nil:
		return append(to, ItemChange{Old: e.prev}, ItemChange{New: e.cur})
	}
	return append(to, ItemChange{Old: e.prev, New: e.cur})
}

// Settled reports whether the base will have all that has become of an item
// once it has come to the position that State has been told of by
// [State.Projected]: only then is what it holds beside the item complete.
func (s *State) Settled(id events.ID) bool {
	e := s.items[id]
	return e == nil || !e.dirty && e.seq <= s.projected && (e.cur == nil || e.cur.Seq <= s.projected)
}
