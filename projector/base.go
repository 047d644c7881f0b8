package projector

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/events"
)

var (
	_ events.Base   = (*Store)(nil)
	_ events.Loader = (*Store)(nil)
)

// Meta implements [events.Base].
func (s *Store) Meta() (m events.Meta, err error) {
	err = s.lookup(func(v view) error { m, err = v.meta(); return err })
	return m, err
}

// Types implements [events.Base]: the types that are known, in order, with
// their counters.
func (s *Store) Types() (types []events.TypeInfo, err error) {
	err = s.lookup(func(v view) error { types, err = v.types(); return err })
	return types, err
}

// Item implements [events.Base].
func (s *Store) Item(id events.ID) (it *events.Item, err error) {
	err = s.lookup(func(v view) error {
		if newest := s.newest.Load(); bytes.Compare(id[:], newest[:]) > 0 {
			return nil
		}
		it, err = v.item(id)
		return err
	})
	return it, err
}

// Document implements [events.Base].
func (s *Store) Document(kind events.DocKind, id events.ID) (doc []byte, err error) {
	err = s.lookup(func(v view) error { doc, err = v.document(docPrefix(kind), id); return err })
	return doc, err
}

// Records implements [events.Base].
func (s *Store) Records(kind events.RecordKind) (recs []events.Record, err error) {
	err = s.lookup(func(v view) error { recs, err = v.records(kind); return err })
	return recs, err
}

// Waiters implements [events.Base].
func (s *Store) Waiters(of, behind events.ID, limit int) (ids []events.ID, err error) {
	err = s.lookup(func(v view) error {
		ids, err = v.related(prefixWaiter, of, behind, limit)
		return err
	})
	return ids, err
}

// Children returns the items that an item has spawned, in ascending order of
// their ids, those behind one, at most limit of them.
func (s *Store) Children(of, behind events.ID, limit int) (ids []events.ID, err error) {
	err = s.lookup(func(v view) error {
		ids, err = v.related(prefixChild, of, behind, limit)
		return err
	})
	return ids, err
}

// FollowUps returns the items that need a follow-up (see
// [events.Item.NeedsFollowUp]), in ascending order, those behind one, at most
// limit of them.
func (s *Store) FollowUps(behind events.ID, limit int) (ids []events.ID, err error) {
	err = s.lookup(func(v view) error {
		prefix := []byte{prefixFollowUp}
		return v.scan(prefix, append(idKey(prefixFollowUp, behind), 0), func(key, _ []byte) (bool, error) {
			id, err := decodeID(key[1:])
			if err != nil {
				return false, err
			}
			ids = append(ids, id)
			return len(ids) < limit, nil
		})
	})
	return ids, err
}

// Key implements [events.Base]. A key that had expired by the last event is
// not found.
func (s *Store) Key(ref events.KeyRef) (h events.HeldKey, has bool, err error) {
	err = s.lookup(func(v view) error { h, has, err = v.heldKey(ref); return err })
	if err != nil || !has || h.Until.IsZero() {
		return h, has, err
	}
	m, err := s.Meta()
	if err != nil || expired(h, m) {
		return events.HeldKey{}, false, err
	}
	return h, true, nil
}

// Identity is what SetIdentity has set, empty for nothing.
func (s *Store) Identity() (id string, err error) {
	err = s.lookup(func(v view) error { id, err = v.identity(); return err })
	return id, err
}

// Checksum is that of the event at Applied.
func (s *Store) Checksum() (sum uint64, err error) {
	err = s.lookup(func(v view) error { sum, err = v.checksum(); return err })
	return sum, err
}

// SetIdentity notes which log this store is the projection of: a text that no
// other log has, such as the stream's name with its time of creation. It
// becomes durable with the events committed after it.
func (s *Store) SetIdentity(id string) error {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	return s.lookup(func(v view) error {
		if err := v.r.(*pebble.DB).Set(metaKey(metaIdentity), []byte(id), pebble.NoSync); err != nil {
			return fmt.Errorf("note the log's identity: %w", err)
		}
		return nil
	})
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

// InState calls fn with every item in a state, as of one moment, by type and
// last touched first, until fn errs. It reads those items alone.
func (s *Store) InState(state events.ItemState, fn func(*events.Item) error) error {
	prefix := []byte{prefixList, byte(state)}
	return s.Snapshot(func(v view) error {
		return v.scan(prefix, prefix, func(key, _ []byte) (bool, error) {
			it, err := v.indexed(key, len(key)-16)
			if err != nil {
				return false, err
			}
			return true, fn(it)
		})
	})
}

// Load implements [events.Loader]: two passes over neighbouring keys in place
// of two lookups for each item.
func (s *Store) Load(ids []events.ID, withParams bool, fn func(*events.Item, []byte)) error {
	if len(ids) == 0 {
		return nil
	}
	return s.Snapshot(func(v view) error {
		items := make([]*events.Item, len(ids))
		err := seekEach(v, prefixItem, ids, func(i int, data []byte) (err error) {
			items[i], err = decodeItem(ids[i], data)
			return err
		})
		if err != nil {
			return err
		}
		params := make([][]byte, len(ids))
		if withParams {
			err = seekEach(v, prefixParams, ids, func(i int, data []byte) error {
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
func seekEach(v view, prefix byte, ids []events.ID, fn func(i int, value []byte) error) error {
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
