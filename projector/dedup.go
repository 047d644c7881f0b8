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
