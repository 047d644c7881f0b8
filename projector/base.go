package projector

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/internal/layout"
)

var (
	_ core.Base      = (*Store)(nil)
	_ core.BatchBase = (*Store)(nil)
	_ core.Keeper    = (*Store)(nil)
)

// look returns what read reads, in one lookup.
func look[T any](s *Store, read func(layout.View) (T, error)) (value T, err error) {
	err = s.lookup(func(v layout.View) error { value, err = read(v); return err })
	return value, err
}

// KeepsPruned implements [core.Keeper].
func (s *Store) KeepsPruned() bool { return s.opts.KeepPruned }

// Meta implements [core.Base].
func (s *Store) Meta() (events.Meta, error) { return look(s, layout.View.Meta) }

// Types implements [core.Base]: the types that are known, in order, with
// their counters.
func (s *Store) Types() ([]events.TypeInfo, error) { return look(s, layout.View.Types) }

// Item implements [core.Base].
func (s *Store) Item(id events.ID) (it *events.Item, err error) {
	err = s.lookup(func(v layout.View) error {
		if newest := s.newest.Load(); bytes.Compare(id[:], newest[:]) > 0 {
			return nil
		}
		it, err = v.Item(id)
		return err
	})
	return it, err
}

// Document implements [core.Base].
func (s *Store) Document(kind events.DocKind, id events.ID) ([]byte, error) {
	return look(s, func(v layout.View) ([]byte, error) { return v.Document(layout.DocPrefix(kind), id) })
}

// Records implements [core.Base].
func (s *Store) Records(kind events.RecordKind) ([]events.Record, error) {
	return look(s, func(v layout.View) ([]events.Record, error) { return v.Records(kind) })
}

// Namespaces returns the namespaces by name, without the default one, which has no record.
func (s *Store) Namespaces() ([]events.NamespaceInfo, error) {
	recs, err := s.Records(events.RecordNamespace)
	list := make([]events.NamespaceInfo, len(recs))
	for i := range recs {
		if err == nil {
			err = json.Unmarshal(recs[i].Data, &list[i])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the namespaces: %w", err)
	}
	return list, nil
}

// Waiters implements [core.Base].
func (s *Store) Waiters(of, behind events.ID, limit int) ([]events.ID, error) {
	return look(s, func(v layout.View) ([]events.ID, error) { return v.Related(layout.PrefixWaiter, of, behind, limit) })
}

// RejectedKept implements [core.Base].
func (s *Store) RejectedKept(seq events.Seq) (bool, error) {
	return look(s, func(v layout.View) (bool, error) {
		rec, has, err := v.RejectedAt(seq)
		return has && !rec.Purged, err
	})
}

// Children returns the ids of the items that an item has spawned, in ascending
// order, starting after behind, at most limit of them.
func (s *Store) Children(of, behind events.ID, limit int) ([]events.ID, error) {
	return look(s, func(v layout.View) ([]events.ID, error) { return v.Related(layout.PrefixChild, of, behind, limit) })
}

// FollowUps returns the items that need a follow-up (see
// [events.Item.NeedsFollowUp]), in ascending order, starting after behind, at
// most limit of them.
func (s *Store) FollowUps(behind events.ID, limit int) (ids []events.ID, err error) {
	err = s.lookup(func(v layout.View) error {
		prefix := []byte{layout.PrefixFollowUp}
		return v.Scan(prefix, append(layout.IDKey(layout.PrefixFollowUp, behind), 0), func(key, _ []byte) (bool, error) {
			id, err := layout.DecodeID(key[1:])
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
	err = s.lookup(func(v layout.View) error { h, has, err = v.HeldKey(ref); return err })
	if err != nil || !has || h.Until.IsZero() {
		return h, has, err
	}
	m, err := s.Meta()
	if err != nil || layout.Expired(h, m) {
		return events.HeldKey{}, false, err
	}
	return h, true, nil
}

// Identity returns the text that SetIdentity has set, or an empty one.
func (s *Store) Identity() (string, error) { return look(s, layout.View.Identity) }

// SetIdentity notes which log this store is the projection of: a text that no
// other log has, such as the stream's name with its time of creation. It
// becomes durable with the events committed after it.
func (s *Store) SetIdentity(id string) error {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	return s.lookup(func(v layout.View) error {
		if err := v.R.(*pebble.DB).Set(layout.MetaKey(layout.MetaIdentity), []byte(id), pebble.NoSync); err != nil {
			return fmt.Errorf("note the log's identity: %w", err)
		}
		return nil
	})
}

// ByIntake returns the id of the item that a message of the intake stream
// became, and whether it became one that is known yet.
func (s *Store) ByIntake(seq uint64) (id events.ID, found bool, err error) {
	err = s.lookup(func(v layout.View) error {
		found, err = v.Get(layout.AppendIntakeKey(nil, seq), func(data []byte) error {
			id, err = layout.DecodeID(data)
			return err
		})
		return err
	})
	return id, found, err
}

// InState calls fn with every item in a state, as of one moment, by type and
// last touched first, until fn errs. It reads no other items.
func (s *Store) InState(state events.ItemState, fn func(*events.Item) error) error {
	prefix := []byte{layout.PrefixList, byte(state)}
	return s.Snapshot(func(v layout.View) error {
		return v.Scan(prefix, prefix, func(key, _ []byte) (bool, error) {
			it, err := v.Indexed(key, len(key)-16)
			if err != nil {
				return false, err
			}
			return true, fn(it)
		})
	})
}

// Load implements [core.BatchBase]: two passes over neighbouring keys in place
// of two lookups for each item.
func (s *Store) Load(ids []events.ID, withParams bool, fn func(*events.Item, []byte)) error {
	if len(ids) == 0 {
		return nil
	}
	return s.Snapshot(func(v layout.View) error {
		items := make([]*events.Item, len(ids))
		err := seekEach(v, layout.PrefixItem, ids, func(i int, data []byte) (err error) {
			items[i], err = layout.DecodeItem(ids[i], data)
			return err
		})
		if err != nil {
			return err
		}
		params := make([][]byte, len(ids))
		if withParams {
			err = seekEach(v, layout.PrefixParams, ids, func(i int, data []byte) error {
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

// seekEach calls fn with the value of each id's key under a prefix, if it has
// one. ids are in ascending order, so the iterator only goes forward: to the next key, which
// costs a fraction of a seek among many flushed parts, and is the right one in a backlog.
func seekEach(v layout.View, prefix byte, ids []events.ID, fn func(i int, value []byte) error) error {
	return v.Iterate(layout.IDKey(prefix, ids[0]), layout.After([]byte{prefix}), func(it *pebble.Iterator) error {
		var buf [17]byte
		there := it.First()
		for i, id := range ids {
			key := layout.AppendIDKey(buf[:0], prefix, id)
			if there && bytes.Compare(it.Key(), key) < 0 {
				there = it.Next()
			}
			if there && bytes.Compare(it.Key(), key) < 0 {
				there = it.SeekGE(key)
			}
			if !there {
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
				return err
			}
		}
		return nil
	})
}
