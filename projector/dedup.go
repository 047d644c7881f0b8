package projector

import (
	"context"
	"fmt"

	"github.com/streamwright/streamwright/events"
)

// DedupHeld calls fn with each dedup key that a live item holds, that item and
// its state, as of one position, which it returns. A key that a completed item
// keeps for its window is not among them. It ends with fn's error or ctx's.
func (s *Store) DedupHeld(ctx context.Context, fn func(t events.Type, key string, id events.ID, state events.ItemState) error) (at events.Seq, err error) {
	prefix := []byte{prefixKey, byte(events.KeyDedup)}
	err = s.snapshot(func(v view) error {
		m, err := v.meta()
		if err != nil {
			return err
		}
		at = m.Applied
		return v.scan(prefix, prefix, func(key, value []byte) (bool, error) {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			r := keyReader{b: key[1:]}
			ref := r.ref()
			if r.err != nil {
				return false, fmt.Errorf("%s: %w", describeKey(key), r.err)
			}
			held, err := decodeHeld(ref, value)
			if err != nil {
				return false, err
			}
			if !held.Until.IsZero() {
				return true, nil
			}
			it, err := v.item(held.ID)
			if err != nil {
				return false, err
			}
			if it == nil {
				return false, fmt.Errorf("dedup key %q of type %s leads to item %s, which is not there", ref.Key, ref.Type, held.ID)
			}
			return true, fn(ref.Type, ref.Key, held.ID, it.State)
		})
	})
	return at, err
}

// DedupHolders returns the live items of a type that hold a dedup key with a
// prefix, in order of their keys, at most limit of them.
func (s *Store) DedupHolders(t events.Type, prefix string, limit int) (ids []events.ID, err error) {
	from := appendHeldKey(nil, events.KeyRef{Kind: events.KeyDedup, Type: t, Key: prefix})
	err = s.lookup(func(v view) error {
		return v.scan(from, from, func(key, value []byte) (bool, error) {
			if len(ids) >= limit {
				return false, nil
			}
			r := keyReader{b: key[1:]}
			held, err := decodeHeld(r.ref(), value)
			if err == nil && held.Until.IsZero() {
				ids = append(ids, held.ID)
			}
			return true, err
		})
	})
	return ids, err
}
