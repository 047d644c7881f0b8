package projector

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

var _ core.Loader = (*Store)(nil)

// Load implements [core.Loader]: two passes over neighbouring keys in place
// of two lookups for each item.
func (s *Store) Load(ids []events.ID, withParams bool, fn func(*events.Item, []byte)) error {
	if len(ids) == 0 {
		return nil
	}
	return s.snapshot(func(v view) error {
		items := make([]*events.Item, len(ids))
		err := v.seekEach(prefixItem, ids, func(i int, data []byte) (err error) {
			items[i], err = decodeItem(ids[i], data)
			return err
		})
		if err != nil {
			return err
		}
		params := make([][]byte, len(ids))
		if withParams {
			err = v.seekEach(prefixParams, ids, func(i int, data []byte) error {
				params[i] = bytes.Clone(data)
				return nil
			})
			if err != nil {
				return err
			}
		}
		for i, it := range items {
			if it != nil {
				fn(it, params[i])
			}
		}
		return nil
	})
}

// seekEach calls fn with the value of each id's key under a prefix, for those
// that have one. ids are in ascending order, so the iterator only goes forward.
func (v view) seekEach(prefix byte, ids []events.ID, fn func(i int, value []byte) error) error {
	it, err := v.r.NewIter(&pebble.IterOptions{LowerBound: idKey(prefix, ids[0]), UpperBound: after([]byte{prefix})})
	if err != nil {
		return err
	}
	var buf [17]byte
	for i, id := range ids {
		key := appendIDKey(buf[:0], prefix, id)
		if !it.SeekGE(key) {
			break
		}
		if !bytes.Equal(it.Key(), key) {
			continue
		}
		value, err := it.ValueAndErr()
		if err == nil {
			err = fn(i, value)
		}
		if err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return errors.Join(it.Error(), it.Close())
}
