package projector

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

var _ core.Base = (*Store)(nil)

// Meta implements [core.Base].
func (s *Store) Meta() (m events.Meta, err error) {
	err = s.lookup(func(v view) error { m, err = v.meta(); return err })
	return m, err
}

// Types implements [core.Base]: the types that are known, in order, with
// their counters.
func (s *Store) Types() (types []events.TypeInfo, err error) {
	err = s.lookup(func(v view) error { types, err = v.types(); return err })
	return types, err
}

// Item implements [core.Base].
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

// Document implements [core.Base].
func (s *Store) Document(kind events.DocKind, id events.ID) (doc []byte, err error) {
	err = s.lookup(func(v view) error { doc, err = v.document(docPrefix(kind), id); return err })
	return doc, err
}

// Records implements [core.Base].
func (s *Store) Records(kind events.RecordKind) (recs []events.Record, err error) {
	err = s.lookup(func(v view) error { recs, err = v.records(kind); return err })
	return recs, err
}

// Waiters implements [core.Base].
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

// Key implements [core.Base]. A key that had expired by the last event is
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
