package core

import (
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

// applyRetention folds the events of the log's own life.
func (s *State) applyRetention(ev events.Event) error {
	switch b := ev.Body.(type) {
	case *events.Snapshot:
		return s.applySnapshot(ev, b)
	case *events.Carried:
		return s.applyCarried(ev, b)
	case *events.Pruned:
		return s.applyPruned(ev)
	}
	return s.corrupt(ev, "it is none of the log's own life")
}

// applyPartial handles what can't be folded while not everything is known, in
// the round at the head of a log that has been cut: an event of an item that is
// not known yet, since its carried, which comes later, says what has become of
// it; and what the end of the round states in full.
func (s *State) applyPartial(ev events.Event) (done bool, err error) {
	switch b := ev.Body.(type) {
	case *events.Paused, *events.Resumed, *events.CircuitOpened, *events.CircuitHalfOpened, *events.CircuitClosed, *events.ScheduleSet, *events.ScheduleRemoved, *events.ScheduleFired, *events.CauseNoted, *events.DrainSet, *events.DrainEnded:
		return true, nil
	case *events.Owned:
		if !b.Barrier {
			return true, s.corrupt(ev, "the log has been cut and begins with a round of snapshots that does not end")
		}
		return true, nil
	case *events.Snapshot, *events.Created:
		return false, nil
	case *events.Carried:
		if b.Part > 1 {
			return false, nil
		}
	}
	if ev.ID.IsZero() {
		return false, nil
	}
	e, err := s.entry(ev.ID)
	return e == nil && ev.Kind != events.KindCarried, err
}

// outdate notes that an item which the round under way has carried is changed
// by the event of one that it has not: who begins to read with this round does
// not know the event's item yet and can't tell, so the item is carried again.
func (s *State) outdate(e *entry) {
	if s.actorBase < s.meta.RoundAt && e.id != s.actor && e.cur.BaseSeq >= s.meta.RoundAt {
		e.cur.BaseSeq = 0
		s.again = append(s.again, e.id)
	}
}

// leans notes that what has become of an item depends on another. If the round
// under way has not carried that one yet, who begins to read with this round
// does not know it and may conclude otherwise: the item is carried again.
func (s *State) leans(it *events.Item, on events.ID) error {
	if s.meta.RoundAt == 0 || it.BaseSeq < s.meta.RoundAt {
		return nil
	}
	e, err := s.entry(on)
	if err == nil && e != nil && e.cur.BaseSeq < s.meta.RoundAt {
		it.BaseSeq = 0
		s.again = append(s.again, it.ID)
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

func (s *State) applySnapshot(ev events.Event, b *events.Snapshot) error {
	switch {
	case b.Mark == events.MarkBegin:
		if s.meta.Partial {
			return s.corrupt(ev, "the log has been cut and begins with a round of snapshots that does not end")
		}
		// A log begins with an ownership, unless it has been cut.
		s.meta.Partial = s.meta.Epoch == 0
		s.meta.Round, s.meta.RoundAt = b.Round, ev.Seq
		s.again = nil
		return nil
	case b.Round != s.meta.Round || s.meta.RoundAt == 0:
		return s.corrupt(ev, "it is of round %d, which is not under way", b.Round)
	}
	if s.meta.Partial {
		s.restateRejected(b)
	}
	if b.Mark == events.MarkRejected {
		return nil
	}
	if s.meta.Partial {
		if err := s.restate(ev, b); err != nil {
			return err
		}
	}
	if b.Mark == events.MarkEnd {
		s.cutRejected(b)
		s.meta.CutAt, s.meta.CutEnd, s.meta.CutTime, s.meta.RoundAt = s.meta.RoundAt, ev.Seq, ev.At, 0
		s.again = nil
	}
	return nil
}

// restate takes over what the end of a round says, in place of whatever the
// events since its begin have left.
func (s *State) restate(ev events.Event, b *events.Snapshot) error {
	all := s.recordSets()
	if ev.Tx.N <= 1 {
		for _, r := range all {
			r.removeAll()
		}
	}
	for _, rec := range b.Records {
		i := slices.IndexFunc(all, func(r recordSet) bool { return r.of() == rec.Kind })
		if i < 0 {
			return s.corrupt(ev, "this program does not know records of kind %c: use a newer one", rec.Kind)
		}
		if err := all[i].restore(rec); err != nil {
			return s.corrupt(ev, "%v", err)
		}
	}
	for _, t := range b.Types {
		to := s.typeOf(t.Type)
		t.Counts, t.Queued = to.info.Counts, to.info.Queued
		to.info = t
	}
	for _, k := range b.Keys {
		s.putKey(k, true)
	}
	if b.Mark != events.MarkEnd {
		return nil
	}
	s.countIdleCauses()
	s.loadCircuits()
	s.loadPauses()
	s.drainVersion++
	if b.Meta == nil {
		return s.corrupt(ev, "it does not say how the partition is")
	}
	applied, at := s.meta.Applied, s.meta.LastAt
	s.meta = *b.Meta
	s.meta.Applied, s.meta.LastAt, s.meta.Partial = applied, at, false
	if at.After(s.meta.Ahead) { // as it was before this event
		s.meta.Ahead = time.Time{}
	}
	return nil
}

func (s *State) applyCarried(ev events.Event, b *events.Carried) error {
	e, err := s.entry(ev.ID)
	if err != nil {
		return err
	}
	if s.meta.Partial && b.Part == 1 {
		if e != nil {
			if err := s.loseKeys(e.cur); err != nil {
				return err
			}
			s.forget(e)
		}
		it, keys := *b.Item, slices.Clone(b.Keys)
		for i := range keys {
			if ref := &keys[i].Ref; ref.Kind == events.KeyMsgID && ref.Type == "" { // written when ids were of no type
				it.MsgID, ref.Type = ref.Key, it.Type
			}
		}
		e = s.insert(&it, nil)
		s.count(&it, +1)
		for _, of := range relationsOf(&it).Waits {
			s.setWait(of, it.ID, true)
		}
		for _, k := range keys {
			s.putKey(k, true)
		}
	}
	if e == nil || s.meta.RoundAt == 0 {
		return s.corrupt(ev, "there is no such item, or no round is under way")
	}
	if s.meta.Partial {
		s.restateItem(e, b)
	} else if b.Fold != nil {
		fold := *b.Fold
		fold.ID = ev.ID
		s.folds = append(s.folds, fold)
	}
	if b.Part == b.Parts {
		s.writable(e).BaseSeq = ev.Seq
	}
	s.touch(e, ev.Seq)
	return nil
}

// restateItem keeps what a carried says of what stands beside an item.
func (s *State) restateItem(e *entry, b *events.Carried) {
	for _, d := range b.Documents {
		s.setDocument(d.Kind, e.id, d.Data)
		if d.Kind == events.DocParams {
			e.params = d.Data
			s.cacheBytes += len(d.Data)
		}
	}
	s.merged = append(s.merged, b.Merged...)
	if len(b.History) > 0 {
		s.restated = append(s.restated, Restated{ID: e.id, History: b.History})
	}
}

func (s *State) applyPruned(ev events.Event) error {
	e, err := s.entry(ev.ID)
	if err != nil {
		return err
	}
	if e == nil || !e.cur.State.Terminal() {
		return s.corrupt(ev, "there is no such item, or it has not ended")
	}
	if err := s.loseKeys(e.cur); err != nil {
		return err
	}
	if e.cur.Cause != "" {
		s.leftDead(s.writable(e), ev.At)
	}
	s.forget(e)
	s.touch(e, ev.Seq)
	s.meta.Pruned++
	return nil
}

// loseKeys frees the keys that lead to an item.
func (s *State) loseKeys(it *events.Item) error {
	for _, ref := range allKeys(it) {
		held, has, err := s.Key(ref, s.meta.LastAt)
		if err != nil {
			return err
		}
		if has && held.ID == it.ID {
			s.setKey(events.HeldKey{Ref: ref, ID: it.ID}, false)
		}
	}
	return nil
}

// insert adds an item that does not exist.
func (s *State) insert(it *events.Item, params []byte) *entry {
	e := s.items[it.ID]
	if e == nil {
		e = &entry{id: it.ID}
		s.items[it.ID] = e
	}
	e.cur, e.params, e.fresh, e.reborn = it, params, true, e.prev != nil
	s.markDirty(e)
	s.cacheBytes += len(params)
	s.touch(e, s.meta.Applied)
	return e
}

// forget lets go of an item and of all that stands beside it, but for its keys.
func (s *State) forget(e *entry) {
	s.count(e.cur, -1)
	if e.dirty {
		// What was to be written of it must not come back behind its end.
		s.dirtyDocs = slices.DeleteFunc(s.dirtyDocs, func(d Document) bool { return d.ID == e.id })
		s.history = slices.DeleteFunc(s.history, func(ev events.Event) bool { return ev.ID == e.id })
		s.merged = slices.DeleteFunc(s.merged, func(m events.MergedEntry) bool { return m.Into == e.id })
		s.restated = slices.DeleteFunc(s.restated, func(r Restated) bool { return r.ID == e.id })
		s.folds = slices.DeleteFunc(s.folds, func(f events.Fold) bool { return f.ID == e.id })
	}
	for _, k := range events.DocKinds {
		if k != events.DocParams {
			s.docs.set(docRef{k, e.id}, nil, s.meta.Applied)
		}
	}
	for _, of := range relationsOf(e.cur).Waits {
		s.setWait(of, e.id, false)
	}
	s.cacheBytes -= len(e.params)
	e.cur, e.params, e.fresh = nil, nil, false
	s.markDirty(e)
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
