package projector

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/events"
)

var _ events.Base = (*Store)(nil)

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

// Params implements [events.Base].
func (s *Store) Params(id events.ID) (doc []byte, err error) {
	err = s.lookup(func(v view) error { doc, err = v.document(prefixParams, id); return err })
	return doc, err
}

// Key implements [events.Base]. A key that had expired by the time of the last
// event is not found.
func (s *Store) Key(ref events.KeyRef) (h events.HeldKey, has bool, err error) {
	err = s.lookup(func(v view) error { h, has, err = v.heldKey(ref); return err })
	if err != nil || !has || h.Until.IsZero() {
		return h, has, err
	}
	m, err := s.Meta()
	if err != nil || expired(h, m.LastAt) {
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
