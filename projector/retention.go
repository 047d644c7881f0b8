package projector

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/internal/layout"
)

// forget removes everything of an item but its index entries.
func forget(b *batch, v layout.View, it *events.Item) error {
	b.delete(layout.IDKey(layout.PrefixItem, it.ID))
	for _, k := range events.DocKinds {
		b.delete(layout.IDKey(layout.DocPrefix(k), it.ID))
	}
	// One by one: a range tombstone for each pruned item would burden every
	// read near it for longer.
	each := func(key, _ []byte) (bool, error) { b.delete(key); return true, nil }
	history := layout.IDKey(layout.PrefixHistory, it.ID)
	if err := v.Scan(history, history, each); err != nil || it.MergedCount == 0 {
		return err
	}
	merged := layout.IDKey(layout.PrefixMerged, it.ID)
	return v.Scan(merged, merged, each)
}

// restated writes histories as carried events state them, and folds the ones
// that have become too long.
func (w *writer) restated(b *batch, c *core.Changes) {
	for _, r := range c.Restated {
		for _, e := range r.History {
			w.key = layout.AppendSeqKey(w.key[:0], layout.PrefixHistory, r.ID, e.Seq)
			w.val = events.AppendPackedJSON(w.val[:0], r.ID, e.Data)
			b.set(w.key, w.val)
		}
	}
	for _, f := range c.Folds {
		if f.To > 0 {
			from, to := layout.AppendSeqKey(nil, layout.PrefixHistory, f.ID, f.From), layout.AppendSeqKey(nil, layout.PrefixHistory, f.ID, f.To)
			b.deleteRange(from, to)
			w.val = events.AppendPackedJSON(w.val[:0], f.ID, f.Marker)
			b.set(to, w.val)
		}
		if f.MergedTo > 0 {
			b.deleteRange(layout.IDKey(layout.PrefixMerged, f.ID), layout.AppendSeqKey(nil, layout.PrefixMerged, f.ID, f.MergedTo+1))
		}
	}
}

// Uncarried looks at the next scan items after behind, and returns in ascending
// order the ones whose base lies below a position. at is the last id that it
// looked at, and more is false if that was the last of all.
func (s *Store) Uncarried(below events.Seq, behind events.ID, scan int) (ids []events.ID, at events.ID, more bool, err error) {
	at = behind
	err = s.lookup(func(v layout.View) error {
		n := 0
		return v.Scan([]byte{layout.PrefixItem}, append(layout.IDKey(layout.PrefixItem, behind), 0), func(key, value []byte) (bool, error) {
			if n++; n > scan {
				more = true
				return false, nil
			}
			id, err := layout.DecodeID(key[1:])
			if err != nil {
				return false, err
			}
			it, err := layout.DecodeItem(id, value)
			if err != nil {
				return false, err
			}
			if at = id; it.BaseSeq < below {
				ids = append(ids, id)
			}
			return true, nil
		})
	})
	return ids, at, more, err
}

// Kept returns an item's history and the submissions merged into it, in order.
func (s *Store) Kept(id events.ID) (history []events.StoredEvent, merged []events.MergedEntry, err error) {
	err = s.Snapshot(func(v layout.View) error {
		prefix := layout.IDKey(layout.PrefixHistory, id)
		err := v.Scan(prefix, prefix, func(key, value []byte) (bool, error) {
			seq, err := layout.DecodeUint(key[len(prefix):])
			if err != nil {
				return false, err
			}
			data, err := layout.HistoryJSON(id, events.Seq(seq), value)
			history = append(history, events.StoredEvent{Seq: events.Seq(seq), Data: data})
			return true, err
		})
		if err != nil {
			return err
		}
		prefix = layout.IDKey(layout.PrefixMerged, id)
		return v.Scan(prefix, prefix, func(key, value []byte) (bool, error) {
			seq, err := layout.DecodeUint(key[len(prefix):])
			if err != nil {
				return false, err
			}
			m, err := layout.DecodeJSON[layout.MergedRecord](layout.DescribeKey(key), value)
			merged = append(merged, events.MergedEntry{Into: id, Seq: events.Seq(seq), ID: m.ID, At: m.At, Provenance: m.Provenance})
			return true, err
		})
	})
	return history, merged, err
}

// LooseKeys returns the held keys that follow from no item (see
// [events.KeyKind.Unowned]), expired ones among them, in order.
func (s *Store) LooseKeys() (keys []events.HeldKey, err error) {
	err = s.Snapshot(func(v layout.View) error {
		for kind := range 256 {
			if !events.KeyKind(kind).Unowned() {
				continue
			}
			prefix := []byte{layout.PrefixKey, byte(kind)}
			err := v.Scan(prefix, prefix, func(key, value []byte) (bool, error) {
				r := layout.KeyReader{B: key[1:]}
				ref := r.Ref()
				if r.Err != nil {
					return false, fmt.Errorf("%s: %w", layout.DescribeKey(key), r.Err)
				}
				held, err := layout.DecodeHeld(ref, value)
				keys = append(keys, held)
				return true, err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return keys, err
}

// EndedPlace is a place among the items of a state and type; the zero one is
// in front of all.
type EndedPlace struct{ place layout.ListPlace }

// Ended returns items of a state and type, the least recently touched first,
// starting after behind, at most limit of them, and the place of the last.
func (s *Store) Ended(state events.ItemState, t events.Type, behind EndedPlace, limit int) (items []*events.Item, last EndedPlace, err error) {
	last = behind
	err = s.Snapshot(func(v layout.View) error {
		prefix := layout.AppendListPrefix(nil, state, t)
		upper := layout.After(prefix)
		if behind != (EndedPlace{}) {
			upper = layout.AppendListPlace(bytes.Clone(prefix), behind.place)
		}
		if limit <= 0 {
			return nil
		}
		return v.Backward(prefix, upper, func(key, _ []byte) (bool, error) {
			r := layout.KeyReader{B: key[len(prefix):]}
			last = EndedPlace{r.Place()}
			if r.Err != nil {
				return false, fmt.Errorf("%s: %w", layout.DescribeKey(key), r.Err)
			}
			item, err := v.Item(last.place.ID)
			if item != nil && err == nil {
				items = append(items, item)
			}
			return len(items) < limit, err
		})
	})
	return items, last, err
}

// The bounds of one batch of changes that no event makes, for which commits wait: the items
// that it changes, and those that it looks at.
const (
	changeBatch = 1000
	changeScan  = 10_000
)

// DropPruned removes the items that were pruned before a position, if that is the end of
// a round, and then has cut drop the log in front of that round. The rest is the
// projection of the rest of the log: who replays that forgets what is pruned before the
// round's end. While a Rebuild or Verify is under way it fails with [ErrProving].
func (s *Store) DropPruned(before events.Seq, cut func() error) error {
	if err := s.beginProof(); err != nil {
		return err
	}
	defer s.proof.Unlock()
	for behind, more := (events.ID{}), true; more; {
		var err error
		behind, more, err = s.change(behind, func(it *events.Item) (core.ItemChange, bool) {
			return core.ItemChange{Old: it}, it.PrunedSeq != 0 && it.PrunedSeq < before
		})
		if err != nil {
			return fmt.Errorf("drop what was pruned before event %d: %w", before, err)
		}
	}
	if err := s.Flush(); err != nil { // else a crash would bring them back
		return err
	}
	return cut()
}

// change looks at the items behind an id, and makes a change of some of them.
func (s *Store) change(behind events.ID, how func(*events.Item) (core.ItemChange, bool)) (at events.ID, more bool, err error) {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	g, err := s.acquire()
	if err != nil {
		return at, false, err
	}
	defer s.release(g)
	v, n := layout.View{R: g.db}, 0
	var changes []core.ItemChange
	err = v.Scan([]byte{layout.PrefixItem}, append(layout.IDKey(layout.PrefixItem, behind), 0), func(key, value []byte) (bool, error) {
		id, err := layout.DecodeID(key[1:])
		if err != nil {
			return false, err
		}
		it, err := layout.DecodeItem(id, value)
		if err != nil {
			return false, err
		}
		if c, is := how(it); is {
			changes = append(changes, c)
		}
		at, n = id, n+1
		more = len(changes) == changeBatch || n == changeScan
		return !more, nil
	})
	if err != nil || len(changes) == 0 {
		return at, more, err
	}
	s.writer.turn.Begin()
	defer s.writer.turn.End()
	s.writer.batch = batch{Batch: g.db.NewBatch(), turn: &s.writer.turn}
	b := &s.writer.batch
	defer b.Close()
	if b.note(s.writer.items(b, v, changes)); b.err != nil {
		return at, false, b.err
	}
	return at, more, b.Commit(pebble.NoSync)
}

// statedAnew are the prefixes of what belongs to no item, which a round states in full.
var statedAnew = [...]byte{layout.PrefixKey, layout.PrefixExpiry, layout.PrefixType, layout.PrefixRecord, layout.PrefixRejected, layout.PrefixAnswer}

// pruneAll keeps every item as pruned at a position, and forgets all else, for a log that
// begins anew there with a round; before is the number of events in front of it. If it is
// interrupted it may be done again.
func (s *Store) pruneAll(at events.Seq, before uint64) error {
	for behind, more := (events.ID{}), true; more; {
		var err error
		behind, more, err = s.change(behind, func(it *events.Item) (core.ItemChange, bool) {
			kept := *it
			kept.PrunedSeq = at
			return core.ItemChange{Old: it, New: &kept}, it.PrunedSeq == 0
		})
		if err != nil {
			return err
		}
	}
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	g, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.release(g)
	b := batch{Batch: g.db.NewBatch(), turn: &s.writer.turn}
	defer b.Close()
	for _, p := range statedAnew {
		b.deleteRange([]byte{p}, []byte{p + 1})
	}
	b.delete(layout.MetaKey(layout.MetaRejected))
	b.setJSON(layout.MetaKey(layout.MetaState), layout.StoredMeta(events.Meta{Applied: s.Applied(), Events: before}))
	if b.err != nil {
		return b.err
	}
	s.writer.nextExpiry, s.writer.rejectedStart = layout.Expiries{}, rejectedStart{}
	return b.Commit(pebble.NoSync)
}

// ErrBeforeCut is wrapped by the error about a position of the past that can't
// be told any more, since the log has been cut behind it.
var ErrBeforeCut = errors.New("the log has been cut behind this position")

// whole reports whether a replay has come past the round at the head of a log
// that has been cut: before its end not everything is known.
func whole(state *core.State) error {
	if m := state.Meta(); m.Partial {
		return fmt.Errorf("position %d: %w: it reaches back to the end of the round of snapshots that begins at %d: ask for a later position", m.Applied, ErrBeforeCut, m.RoundAt)
	}
	return nil
}

// cutRetries bounds how often a proof begins anew because the log was cut under
// it.
const cutRetries = 5

// untilUncut calls fn again when the log was cut while it read: the live store
// is past the cut by then.
func untilUncut(fn func() error) (err error) {
	for range cutRetries {
		err = fn()
		if !errors.Is(err, eventlog.ErrTrimmed) && !errors.Is(err, ErrBeforeCut) {
			return err
		}
	}
	return err
}

// Renew makes the store anew from the log as it is now, up to through, for when
// the log has been cut in front of the store's position: the events in between
// are lost, but the log states their outcome. Nobody may commit meanwhile; any
// State over the store must be dropped.
func (s *Store) Renew(ctx context.Context, log Log, through events.Seq, progress Progress) error {
	if err := s.beginProof(); err != nil {
		return err
	}
	defer s.proof.Unlock()
	return s.makeAnew("renew", func(b *Store, number int) (*generation, error) {
		if err := fill(ctx, b, log, moment{through: through}, progress); err != nil {
			return nil, err
		}
		s.commitMu.Lock()
		defer s.commitMu.Unlock()
		old, err := s.replace(b, number)
		if err == nil {
			s.pos.advance(b.Applied())
		}
		return old, err
	})
}
