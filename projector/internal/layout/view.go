package layout

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/turns"
)

// View reads the store: the Pebble database itself, for one lookup, or a
// snapshot of it, where several must agree. What it returns is the caller's.
type View struct {
	R     pebble.Reader
	Turns *turns.Share // of the processors, for what reads much; nil: it gives way to nobody in particular
}

// Get calls fn with the value of a key, which is valid until fn returns, and
// reports whether there is one.
func (v View) Get(key []byte, fn func(value []byte) error) (bool, error) {
	value, closer, err := v.R.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", DescribeKey(key), err)
	}
	return true, errors.Join(fn(value), closer.Close())
}

// Scan calls fn for each key from from up to the end of prefix, until fn says
// no more. Key and value are valid until fn returns.
func (v View) Scan(prefix, from []byte, fn func(key, value []byte) (more bool, err error)) error {
	it, err := v.R.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: After(prefix)})
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

// Iterate calls fn with an iterator over the keys from lower up to upper (nil:
// all), and closes it.
func (v View) Iterate(lower, upper []byte, fn func(*pebble.Iterator) error) error {
	it, err := v.R.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	err = fn(it)
	return errors.Join(err, it.Error(), it.Close())
}

func (v View) Meta() (m events.Meta, err error) {
	_, err = v.Get(MetaKey(MetaState), func(data []byte) error {
		m, err = DecodeMeta(data)
		return err
	})
	return m, err
}

func (v View) Types() (types []events.TypeInfo, err error) {
	prefix := []byte{PrefixType}
	err = v.Scan(prefix, prefix, func(key, value []byte) (bool, error) {
		t, err := DecodeJSON[events.TypeInfo](DescribeKey(key), value)
		types = append(types, t)
		return true, err
	})
	return types, err
}

func (v View) Item(id events.ID) (it *events.Item, err error) {
	var buf [17]byte
	_, err = v.Get(AppendIDKey(buf[:0], PrefixItem, id), func(data []byte) error {
		it, err = DecodeItem(id, data)
		return err
	})
	return it, err
}

// NewestID is the last id of all items, the zero id for none.
func (v View) NewestID() (id events.ID, err error) {
	prefix := []byte{PrefixItem}
	err = v.Iterate(prefix, After(prefix), func(it *pebble.Iterator) (err error) {
		if it.Last() {
			id, err = DecodeID(it.Key()[1:])
		}
		return err
	})
	return id, err
}

// Document returns an item's params or result, nil for none.
func (v View) Document(prefix byte, id events.ID) (doc []byte, err error) {
	var buf [17]byte
	_, err = v.Get(AppendIDKey(buf[:0], prefix, id), func(data []byte) error {
		doc = append([]byte{}, data...)
		return nil
	})
	return doc, err
}

// Related returns the second ids of the keys of a prefix that begin with an id.
func (v View) Related(prefix byte, of, behind events.ID, limit int) (ids []events.ID, err error) {
	all := IDKey(prefix, of)
	from := append(append(IDKey(prefix, of), behind[:]...), 0)
	err = v.Scan(all, from, func(key, _ []byte) (bool, error) {
		id, err := DecodeID(key[len(all):])
		if err != nil {
			return false, err
		}
		ids = append(ids, id)
		return len(ids) < limit, nil
	})
	return ids, err
}

func (v View) Records(kind events.RecordKind) (recs []events.Record, err error) {
	prefix := []byte{PrefixRecord, byte(kind)}
	err = v.Scan(prefix, prefix, func(key, value []byte) (bool, error) {
		recs = append(recs, events.Record{Kind: kind, Key: string(key[len(prefix):]), Data: bytes.Clone(value)})
		return true, nil
	})
	return recs, err
}

// HeldKey reads a key as it is on disk, expired or not.
func (v View) HeldKey(ref events.KeyRef) (h events.HeldKey, has bool, err error) {
	has, err = v.Get(AppendHeldKey(nil, ref), func(data []byte) error {
		h, err = DecodeHeld(ref, data)
		return err
	})
	return h, has, err
}

// Expiries calls fn with the keys on disk that expire by a clock, from a time on
// (only Ref and Until are set), in order of Until.
func (v View) Expiries(c keyClock, from int64, fn func(h events.HeldKey, entry []byte) (bool, error)) error {
	prefix := []byte{PrefixExpiry, byte(c)}
	return v.Scan(prefix, AppendNanos(bytes.Clone(prefix), from), func(key, _ []byte) (bool, error) {
		r := KeyReader{B: key[len(prefix):]}
		until := r.Nanos()
		ref := r.Ref()
		if r.Err != nil {
			return false, fmt.Errorf("%s: %w", DescribeKey(key), r.Err)
		}
		return fn(events.HeldKey{Ref: ref, Until: FromNanos(until)}, bytes.Clone(key))
	})
}

func (v View) FirstExpiries() (first Expiries, err error) {
	for c := range NumClocks {
		first[c] = NoExpiry
		err = errors.Join(err, v.Expiries(c, NoTime, func(h events.HeldKey, _ []byte) (bool, error) {
			first[c] = Nanos(h.Until)
			return false, nil
		}))
	}
	return first, err
}

func (v View) Checksum() (sum uint64, err error) {
	_, err = v.Get(MetaKey(MetaChecksum), func(data []byte) error {
		sum, err = DecodeUint(data)
		return err
	})
	return sum, err
}

func (v View) Identity() (id string, err error) {
	_, err = v.Get(MetaKey(MetaIdentity), func(data []byte) error {
		id = string(data)
		return nil
	})
	return id, err
}

// Backward calls fn for each key of a prefix before end, the last first, until
// fn says no more.
func (v View) Backward(prefix, end []byte, fn func(key, value []byte) (more bool, err error)) error {
	return v.Iterate(prefix, end, func(it *pebble.Iterator) error {
		for ok := it.Last(); ok; ok = it.Prev() {
			value, err := it.ValueAndErr()
			if err != nil {
				return err
			}
			if more, err := fn(it.Key(), value); !more || err != nil {
				return err
			}
		}
		return nil
	})
}

// Indexed returns the item whose id stands in an index key at an offset.
func (v View) Indexed(key []byte, at int) (*events.Item, error) {
	id, err := DecodeID(key[at:])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", DescribeKey(key), err)
	}
	it, err := v.Item(id)
	if it == nil && err == nil {
		err = fmt.Errorf("%s, but there is no such item: %w", DescribeKey(key), ErrRecord)
	}
	return it, err
}
