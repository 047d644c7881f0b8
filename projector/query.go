package projector

import (
	"fmt"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// The bounds of what one query returns.
const (
	MaxMergedShown  = 1000   // submissions merged into an item; Item.MergedCount has their number
	MaxHistoryShown = 10_000 // events of an item, the first ones
	MaxHeldShown    = 10_000 // items that a worker holds
)

// Full returns an item with what is kept beside it: params, result, and the
// first MaxMergedShown of the submissions merged into it. All are as of one
// moment. It reports false for an unknown item.
func (s *Store) Full(id events.ID) (full wire.Item, found bool, err error) {
	err = s.snapshot(func(v view) error {
		it, err := v.item(id)
		if it == nil || err != nil {
			return err
		}
		full, err = v.full(it)
		found = true
		return err
	})
	return full, found && err == nil, err
}

// full is an item with what is kept beside it.
func (v view) full(it *events.Item) (full wire.Item, err error) {
	params, err := v.document(prefixParams, it.ID)
	if err != nil {
		return full, err
	}
	var result []byte
	if it.HasResult {
		if result, err = v.document(prefixResult, it.ID); err != nil {
			return full, err
		}
	}
	merged, err := v.mergedInto(it)
	return wire.FromItem(it, params, result, merged), err
}

func (v view) mergedInto(it *events.Item) (merged []events.MergedEntry, err error) {
	if it.MergedCount == 0 {
		return nil, nil
	}
	prefix := idKey(prefixMerged, it.ID)
	err = v.scan(prefix, prefix, func(key, value []byte) (bool, error) {
		r := keyReader{b: key[len(prefix):]}
		seq := r.seq()
		m, err := decodeJSON[mergedRecord](describeKey(key), value)
		merged = append(merged, events.MergedEntry{Into: it.ID, Seq: seq, ID: m.ID, At: m.At, Provenance: m.Provenance})
		return len(merged) < MaxMergedShown, err
	})
	return merged, err
}

// ByIntake returns the id of the item that a message of the intake stream
// became, and whether it became one that is known yet.
func (s *Store) ByIntake(seq uint64) (id events.ID, found bool, err error) {
	err = s.lookup(func(v view) error {
		found, err = v.get(appendIntakeKey(nil, seq), func(data []byte) error {
			id, err = decodeID(data)
			return err
		})
		return err
	})
	return id, found, err
}

// History returns an item's events, oldest first, at most MaxHistoryShown;
// none for an unknown item. Params and result are left out of their data.
func (s *Store) History(id events.ID) (history []wire.HistoryEvent, err error) {
	err = s.snapshot(func(v view) error {
		it, err := v.item(id)
		if it == nil || err != nil {
			return err
		}
		prefix := idKey(prefixHistory, id)
		return v.scan(prefix, prefix, func(key, value []byte) (bool, error) {
			r := keyReader{b: key[len(prefix):]}
			seq := r.seq()
			if r.err != nil {
				return false, fmt.Errorf("%s: %w", describeKey(key), errRecord)
			}
			h, err := decodeHistory(id, it.Type, seq, value)
			history = append(history, h)
			return len(history) < MaxHistoryShown, err
		})
	})
	return history, err
}

// HeldBy returns the items that a worker holds, claimed or running, at most
// MaxHeldShown, in order of id.
func (s *Store) HeldBy(w events.WorkerID) (held []*events.Item, err error) {
	prefix := appendWorkerPrefix(nil, w)
	err = s.snapshot(func(v view) error {
		return v.scan(prefix, prefix, func(key, _ []byte) (bool, error) {
			it, err := v.indexed(key, len(prefix))
			held = append(held, it)
			return len(held) < MaxHeldShown, err
		})
	})
	return held, err
}

// InState calls fn with every item in a state, as of one moment, by type and
// last touched first, until fn errs. It reads those items alone.
func (s *Store) InState(state events.ItemState, fn func(*events.Item) error) error {
	prefix := []byte{prefixList, byte(state)}
	return s.snapshot(func(v view) error {
		return v.scan(prefix, prefix, func(key, _ []byte) (bool, error) {
			it, err := v.indexed(key, len(key)-16)
			if err != nil {
				return false, err
			}
			return true, fn(it)
		})
	})
}

// indexed returns the item whose id stands in an index key at an offset.
func (v view) indexed(key []byte, at int) (*events.Item, error) {
	id, err := decodeID(key[at:])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", describeKey(key), err)
	}
	it, err := v.item(id)
	if it == nil && err == nil {
		err = fmt.Errorf("%s, but there is no such item: %w", describeKey(key), errRecord)
	}
	return it, err
}
