package query

import (
	"fmt"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/internal/layout"
	"github.com/streamwright/streamwright/wire"
)

// Snapshotter has a store's content to read; *projector.Store is one.
type Snapshotter interface {
	// Snapshot calls fn with a view that stays as it is.
	Snapshot(fn func(layout.View) error) error
}

// Reader answers questions about a store. It may be used by many goroutines.
type Reader struct{ of Snapshotter }

// Of returns a Reader of a store.
func Of(store Snapshotter) Reader { return Reader{store} }

func (s Reader) snapshot(fn func(layout.View) error) error { return s.of.Snapshot(fn) }

// The bounds of one query's result.
const (
	MaxMergedShown  = 1000   // submissions merged into an item; Item.MergedCount has their number
	MaxHistoryShown = 10_000 // events of an item, the first ones
)

// Full returns an item with its params, result, and the first MaxMergedShown of
// the submissions merged into it. All are as of one moment. It reports false
// for an unknown item.
func (s Reader) Full(id events.ID) (full wire.Item, found bool, err error) {
	err = s.snapshot(func(v layout.View) error {
		it, err := v.Item(id)
		if it == nil || err != nil {
			return err
		}
		full, err = fullItem(v, it)
		found = true
		return err
	})
	return full, found && err == nil, err
}

// fullItem returns an item with its params, result and merged submissions.
func fullItem(v layout.View, it *events.Item) (full wire.Item, err error) {
	params, err := v.Document(layout.PrefixParams, it.ID)
	if err != nil {
		return full, err
	}
	var result []byte
	if it.HasResult {
		if result, err = v.Document(layout.PrefixResult, it.ID); err != nil {
			return full, err
		}
	}
	merged, err := mergedInto(v, it)
	return wire.FromItem(it, params, result, merged), err
}

func mergedInto(v layout.View, it *events.Item) (merged []events.MergedEntry, err error) {
	if it.MergedCount == 0 {
		return nil, nil
	}
	prefix := layout.IDKey(layout.PrefixMerged, it.ID)
	err = v.Scan(prefix, prefix, func(key, value []byte) (bool, error) {
		r := layout.KeyReader{B: key[len(prefix):]}
		seq := r.Seq()
		m, err := layout.DecodeJSON[layout.MergedRecord](layout.DescribeKey(key), value)
		merged = append(merged, events.MergedEntry{Into: it.ID, Seq: seq, ID: m.ID, At: m.At, Provenance: m.Provenance})
		return len(merged) < MaxMergedShown, err
	})
	return merged, err
}

// History returns an item's events, oldest first, at most MaxHistoryShown;
// none for an unknown item. Params and result are left out of their data.
func (s Reader) History(id events.ID) (history []wire.HistoryEvent, err error) {
	err = s.snapshot(func(v layout.View) error {
		it, err := v.Item(id)
		if it == nil || err != nil {
			return err
		}
		prefix := layout.IDKey(layout.PrefixHistory, id)
		return v.Scan(prefix, prefix, func(key, value []byte) (bool, error) {
			r := layout.KeyReader{B: key[len(prefix):]}
			seq := r.Seq()
			if r.Err != nil {
				return false, fmt.Errorf("%s: %w", layout.DescribeKey(key), layout.ErrRecord)
			}
			h, err := layout.DecodeHistory(id, it.Type, seq, value)
			history = append(history, h)
			return len(history) < MaxHistoryShown, err
		})
	})
	return history, err
}
