package projector

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/events"
)

// view reads the store: the Pebble database itself, for one lookup, or a
// snapshot of it, where several must agree. What it returns is the caller's.
type view struct{ r pebble.Reader }

// lookup calls fn with a view for one lookup.
func (s *Store) lookup(fn func(view) error) error {
	g, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.release(g)
	return fn(view{g.db})
}

// Snapshot calls fn with a view that stays as it is.
func (s *Store) Snapshot(fn func(view) error) error {
	g, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.release(g)
	snap := g.db.NewSnapshot()
	return errors.Join(fn(view{snap}), snap.Close())
}

// get calls fn with the value of a key, which is valid until fn returns, and
// reports whether there is one.
func (v view) get(key []byte, fn func(value []byte) error) (bool, error) {
	value, closer, err := v.r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", describeKey(key), err)
	}
	return true, errors.Join(fn(value), closer.Close())
}

// scan calls fn for each key from from up to the end of prefix, until fn says
// no more. Key and value are valid until fn returns.
func (v view) scan(prefix, from []byte, fn func(key, value []byte) (more bool, err error)) error {
	it, err := v.r.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: after(prefix)})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return errors.Join(err, it.Close())
		}
		more, err := fn(it.Key(), value)
		if err != nil {
			return errors.Join(err, it.Close())
		}
		if !more {
			break
		}
	}
	return errors.Join(it.Error(), it.Close())
}

func (v view) meta() (m events.Meta, err error) {
	_, err = v.get(metaKey(metaState), func(data []byte) error {
		m, err = decodeJSON[events.Meta]("the partition's record", data)
		return err
	})
	return m, err
}

func (v view) types() (types []events.TypeInfo, err error) {
	prefix := []byte{prefixType}
	err = v.scan(prefix, prefix, func(key, value []byte) (bool, error) {
		t, err := decodeJSON[events.TypeInfo](describeKey(key), value)
		types = append(types, t)
		return true, err
	})
	return types, err
}

func (v view) item(id events.ID) (it *events.Item, err error) {
	var buf [17]byte
	_, err = v.get(appendIDKey(buf[:0], prefixItem, id), func(data []byte) error {
		it, err = decodeItem(id, data)
		return err
	})
	return it, err
}

// newestID is the last id of all items, the zero id for none.
func (v view) newestID() (id events.ID, err error) {
	prefix := []byte{prefixItem}
	it, err := v.r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return id, err
	}
	if it.Last() {
		id, err = decodeID(it.Key()[1:])
	}
	return id, errors.Join(err, it.Error(), it.Close())
}

// document returns an item's params or result, nil for none.
func (v view) document(prefix byte, id events.ID) (doc []byte, err error) {
	var buf [17]byte
	_, err = v.get(appendIDKey(buf[:0], prefix, id), func(data []byte) error {
		doc = append([]byte{}, data...)
		return nil
	})
	return doc, err
}

// related returns the second ids of the keys of a prefix that begin with an id.
func (v view) related(prefix byte, of, behind events.ID, limit int) (ids []events.ID, err error) {
	all := idKey(prefix, of)
	from := append(append(idKey(prefix, of), behind[:]...), 0)
	err = v.scan(all, from, func(key, _ []byte) (bool, error) {
		id, err := decodeID(key[len(all):])
		if err != nil {
			return false, err
		}
		ids = append(ids, id)
		return len(ids) < limit, nil
	})
	return ids, err
}

func (v view) records(kind events.RecordKind) (recs []events.Record, err error) {
	prefix := []byte{prefixRecord, byte(kind)}
	err = v.scan(prefix, prefix, func(key, value []byte) (bool, error) {
		recs = append(recs, events.Record{Kind: kind, Key: string(key[len(prefix):]), Data: bytes.Clone(value)})
		return true, nil
	})
	return recs, err
}

// heldKey reads a key as it is on disk, expired or not.
func (v view) heldKey(ref events.KeyRef) (h events.HeldKey, has bool, err error) {
	has, err = v.get(appendHeldKey(nil, ref), func(data []byte) error {
		h, err = decodeHeld(ref, data)
		return err
	})
	return h, has, err
}

// expiries calls fn with the keys on disk that expire by a clock, from a time on
// (only Ref and Until are set), in order of Until.
func (v view) expiries(c keyClock, from int64, fn func(h events.HeldKey, entry []byte) (bool, error)) error {
	prefix := []byte{prefixExpiry, byte(c)}
	return v.scan(prefix, appendNanos(bytes.Clone(prefix), from), func(key, _ []byte) (bool, error) {
		r := keyReader{b: key[len(prefix):]}
		until := r.nanos()
		ref := r.ref()
		if r.err != nil {
			return false, fmt.Errorf("%s: %w", describeKey(key), r.err)
		}
		return fn(events.HeldKey{Ref: ref, Until: fromNanos(until)}, bytes.Clone(key))
	})
}

func (v view) firstExpiries() (first expiries, err error) {
	for c := range numClocks {
		first[c] = noExpiry
		err = errors.Join(err, v.expiries(c, noTime, func(h events.HeldKey, _ []byte) (bool, error) {
			first[c] = nanos(h.Until)
			return false, nil
		}))
	}
	return first, err
}

func (v view) checksum() (sum uint64, err error) {
	_, err = v.get(metaKey(metaChecksum), func(data []byte) error {
		sum, err = decodeUint(data)
		return err
	})
	return sum, err
}

func (v view) identity() (id string, err error) {
	_, err = v.get(metaKey(metaIdentity), func(data []byte) error {
		id = string(data)
		return nil
	})
	return id, err
}

// backward calls fn for each key of a prefix before end, the last first, until
// fn says no more.
func (v view) backward(prefix, end []byte, fn func(key, value []byte) (more bool, err error)) error {
	it, err := v.r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: end})
	if err != nil {
		return err
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		value, err := it.ValueAndErr()
		more := false
		if err == nil {
			more, err = fn(it.Key(), value)
		}
		if err != nil {
			return errors.Join(err, it.Close())
		}
		if !more {
			break
		}
	}
	return errors.Join(it.Error(), it.Close())
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
