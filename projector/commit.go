package projector

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/internal/turns"
	"github.com/streamwright/streamwright/projector/internal/layout"
)

// PurgePerCommit bounds the expired keys that one Commit removes from disk. No
// reader sees a key once it has expired.
const PurgePerCommit = 1000

// writer turns Changes into batches. Guarded by Store.commitMu.
type writer struct {
	nextExpiry layout.Expiries
	unflushed  int // events committed since a flush last began
	turn       turns.Turn

	// Memory that is used again by the next Commit.
	old, new      indexSet
	limits        rejectedLimits
	rejectedStart rejectedStart
	key, val      []byte
	event         events.Event
	gathered      gathered
	ops           ops
	batch         batch
}

// Commit writes what a run of decisions has changed, and the position behind
// it, in one atomic step, visible to every query that begins after it returns.
// It does not wait for the disk, unless far too much waits for it already.
//
// The Changes must begin where the store ends: they come from consecutive
// [core.State.TakeChanges] of a State over this store, in order; several only
// if [Gathers] is true of each. After an error none of them is written, and the
// State must be dropped.
func (s *Store) Commit(cs ...*core.Changes) error {
	cs = slices.DeleteFunc(cs, func(c *core.Changes) bool { return c == nil })
	if len(cs) == 0 {
		return nil
	}
	if !gatherable(cs) {
		return fmt.Errorf("project up to event %d: these changes can't be committed together", cs[len(cs)-1].Meta.Applied)
	}
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	at := s.Applied()
	for _, c := range cs {
		if c.Meta.Applied <= at {
			return fmt.Errorf("project up to event %d: the store is at %d already", c.Meta.Applied, at)
		}
		at = c.Meta.Applied
	}
	defer s.writer.gathered.release()
	return s.commit(s.writer.gathered.gather(cs))
}

// commit writes changes. REQUIRES: s.commitMu is held.
func (s *Store) commit(c *core.Changes) error {
	g, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.release(g)
	s.writer.turn.Begin()
	defer s.writer.turn.End()
	s.raiseNewest(c.Items)
	if err := s.writer.write(g.db, c); err != nil {
		return fmt.Errorf("project up to event %d: %w", c.Meta.Applied, err)
	}
	s.noteUnflushed(len(c.History) + 1)
	s.pos.advance(c.Meta.Applied)
	return nil
}

// raiseNewest keeps s.newest. REQUIRES: s.commitMu is held.
func (s *Store) raiseNewest(items []core.ItemChange) {
	newest := *s.newest.Load()
	for _, c := range items {
		if c.Old == nil && c.New != nil && bytes.Compare(c.New.ID[:], newest[:]) > 0 {
			newest = c.New.ID
		}
	}
	if newest != *s.newest.Load() {
		s.newest.Store(&newest)
	}
}

func (s *Store) noteUnflushed(n int) {
	if s.writer.unflushed == 0 {
		nudge.Send(s.flush.dirty)
	}
	if s.writer.unflushed += n; s.writer.unflushed >= s.opts.FlushEvents {
		nudge.Send(s.flush.full)
	}
}

// write makes one batch of the changes and applies it.
func (w *writer) write(db *pebble.DB, c *core.Changes) error {
	w.batch = batch{Batch: db.NewBatchWithSize(batchSize(c)), turn: &w.turn}
	b := &w.batch
	defer b.Close()
	v := layout.View{R: db}
	next := w.nextExpiry
	b.note(w.purge(b, v, c, &next))
	b.note(w.keys(b, v, c, &next))
	b.note(w.items(b, v, c.Items))
	w.documents(b, c.Documents)
	w.histories(b, c.History)
	w.merged(b, c.Merged)
	b.note(w.rejected(b, v, c))
	w.restated(b, c)
	w.records(b, c)
	if b.err != nil {
		return b.err
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return err
	}
	w.nextExpiry = next
	return nil
}

// batchSize estimates a batch's bytes, so that its buffer need not grow often.
func batchSize(c *core.Changes) int {
	n := 1024 + 512*len(c.Items) + 80*len(c.History) + 128*len(c.Keys)
	for _, d := range c.Documents {
		n += len(d.Data) + 32
	}
	for _, r := range c.Records {
		n += len(r.Data) + 128
	}
	return n
}

func (w *writer) items(b *batch, v layout.View, items []core.ItemChange) error {
	defer w.ops.reset()
	for _, c := range items {
		w.old.fill(c.Old)
		w.new.fill(c.New)
		diffIndexes(&w.old, &w.new, &w.ops)
		if c.New == nil {
			if err := forget(b, v, c.Old); err != nil {
				return err
			}
			continue
		}
		w.key = layout.AppendIDKey(w.key[:0], layout.PrefixItem, c.New.ID)
		w.val = layout.AppendItem(w.val[:0], c.New)
		w.ops.add(opItems, w.key, w.val, false)
	}
	w.ops.each(b.singleDelete, b.set)
	return nil
}

func (w *writer) documents(b *batch, docs []core.Document) {
	for _, kind := range events.DocKinds { // kind by kind: see ops
		for _, d := range docs {
			if d.Kind != kind {
				continue
			}
			w.key = layout.AppendIDKey(w.key[:0], layout.DocPrefix(d.Kind), d.ID)
			if d.Data == nil {
				b.delete(w.key)
			} else {
				b.set(w.key, d.Data)
			}
		}
	}
}

func (w *writer) histories(b *batch, history []events.Event) {
	ev := &w.event
	for i := range history {
		if *ev = history[i]; ev.ID.IsZero() {
			continue // it belongs to no item
		}
		var err error
		w.key = layout.AppendSeqKey(w.key[:0], layout.PrefixHistory, ev.ID, ev.Seq)
		w.val, err = layout.AppendHistory(w.val[:0], ev)
		b.note(err)
		b.set(w.key, w.val)
	}
}

func (w *writer) merged(b *batch, merged []events.MergedEntry) {
	for _, m := range merged {
		w.key = layout.AppendSeqKey(w.key[:0], layout.PrefixMerged, m.Into, m.Seq)
		b.setJSON(w.key, layout.MergedRecord{ID: m.ID, At: m.At, Provenance: m.Provenance})
	}
}

// keys writes the held keys that have changed hands. One that has expired
// already is not written.
func (w *writer) keys(b *batch, v layout.View, c *core.Changes, next *layout.Expiries) error {
	for _, k := range c.Keys {
		ref := k.Key.Ref
		old, had, err := v.HeldKey(ref)
		if err != nil {
			return err
		}
		if had && !old.Until.IsZero() {
			w.key = layout.AppendExpiryKey(w.key[:0], old.Until, ref)
			b.delete(w.key)
		}
		w.key = layout.AppendHeldKey(w.key[:0], ref)
		if !k.Has || layout.Expired(k.Key, c.Meta) {
			if had {
				b.delete(w.key)
			}
			continue
		}
		w.val = layout.AppendHeld(w.val[:0], k.Key)
		b.set(w.key, w.val)
		if k.Key.Until.IsZero() {
			continue
		}
		clock := layout.ClockOf(ref.Kind)
		next[clock] = min(next[clock], layout.Nanos(k.Key.Until))
		w.key = layout.AppendExpiryKey(w.key[:0], k.Key.Until, ref)
		b.set(w.key, nil)
	}
	return nil
}

// purge removes some of the keys that have expired, and all that had before the
// clock was set back. It comes before keys in a batch: a name may be held anew.
func (w *writer) purge(b *batch, v layout.View, c *core.Changes, next *layout.Expiries) error {
	left := PurgePerCommit
	for clock := range layout.NumClocks {
		at := clock.At(c.Meta)
		if back := clock.Of(c.SetBack); back.After(at) {
			// These would exist again at the time that it is now: all of them go.
			at, left = back, math.MaxInt
		}
		if w.nextExpiry[clock] > layout.Nanos(at) {
			continue
		}
		next[clock] = layout.NoExpiry
		// What was purged before lies in front of nextExpiry; not to look there
		// saves stepping over what it left behind.
		err := v.Expiries(clock, w.nextExpiry[clock], func(h events.HeldKey, entry []byte) (bool, error) {
			if h.Until.After(at) || left == 0 {
				next[clock] = layout.Nanos(h.Until)
				return false, nil
			}
			left--
			b.delete(entry)
			w.key = layout.AppendHeldKey(w.key[:0], h.Ref)
			b.delete(w.key)
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// records writes the records, the types, the partition's own and the position.
func (w *writer) records(b *batch, c *core.Changes) {
	for _, r := range c.Records {
		w.key = layout.AppendRecordKey(w.key[:0], r)
		if r.Data == nil {
			b.delete(w.key)
		} else {
			b.set(w.key, r.Data)
		}
	}
	for _, t := range c.Forgotten {
		b.delete(layout.AppendTypeKey(nil, t))
	}
	for _, t := range c.Types {
		w.key = layout.AppendTypeKey(w.key[:0], t.Type)
		b.setJSON(w.key, t)
	}
	b.setJSON(layout.MetaKey(layout.MetaState), layout.StoredMeta(c.Meta))
	w.val = layout.AppendUint(w.val[:0], c.Checksum)
	b.set(layout.MetaKey(layout.MetaChecksum), w.val)
}
