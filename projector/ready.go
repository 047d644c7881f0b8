package projector

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/events"
)

// MaxPage is the most entries that one call of Ready or Timers returns.
const MaxPage = 100_000

// ReadyQueue names one ordered set of queued items.
type ReadyQueue struct {
	Type     events.Type
	Lane     string
	Priority events.Priority
}

// ReadyKey is an item's place in its ready queue: first queued, first served.
// The zero ReadyKey lies before any item of our time.
type ReadyKey struct {
	OrderAt int64 // Item.OrderAt, nanoseconds since 1970
	ID      events.ID
}

// ReadyKeyOf is a queued item's place.
func ReadyKeyOf(it *events.Item) ReadyKey { return ReadyKey{nanos(it.OrderAt), it.ID} }

// Compare orders places: -1 if k comes first, +1 if o does, 0 if they are one.
func (k ReadyKey) Compare(o ReadyKey) int {
	if c := cmp.Compare(k.OrderAt, o.OrderAt); c != 0 {
		return c
	}
	return bytes.Compare(k.ID[:], o.ID[:])
}

// Less reports whether k comes before o.
func (k ReadyKey) Less(o ReadyKey) bool { return k.Compare(o) < 0 }

// ReadyEntry is a queued item. It may run from AvailableAt on (zero: at once).
type ReadyEntry struct {
	ReadyKey
	AvailableAt time.Time
}

// Ready returns up to limit entries of one group of a ready queue behind a
// place (the zero one: from the start), in order. Those that may not run yet
// are among them.
func (s *Store) Ready(t events.Type, lane string, p events.Priority, group string, behind ReadyKey, limit int) (page []ReadyEntry, err error) {
	if limit = min(limit, MaxPage); limit <= 0 {
		return nil, nil
	}
	err = s.EachReady(ReadyQueue{t, lane, p}, group, behind, func(e ReadyEntry) bool {
		page = append(page, e)
		return len(page) < limit
	})
	return page, err
}

// EachReady calls fn with the entries of one group of a ready queue behind a
// place (the zero one: from the start), in order, until fn says no more. It
// reads no entry that fn is not called with. Those that may not run yet are
// among them. fn must not call the Store.
func (s *Store) EachReady(q ReadyQueue, group string, behind ReadyKey, fn func(ReadyEntry) (more bool)) error {
	prefix := appendText(appendReadyPrefix(nil, q), group)
	from := prefix
	if behind != (ReadyKey{}) {
		from = append(appendNanos(bytes.Clone(prefix), behind.OrderAt), behind.ID[:]...)
		from = append(from, 0) // the first key behind it
	}
	return s.lookup(func(v view) error {
		return v.scan(prefix, from, func(key, value []byte) (bool, error) {
			e, err := decodeReady(key, key[len(prefix):], value)
			return err == nil && fn(e), err
		})
	})
}

// ReadyGroup is a group of a ready queue, and the first of its entries.
type ReadyGroup struct {
	Name  string
	First ReadyEntry
}

// ReadyGroups lists up to limit groups of a ready queue that have any entries,
// in order of name: those behind a name, or (fromStart) all. It costs one seek
// for each, whatever the groups hold.
func (s *Store) ReadyGroups(q ReadyQueue, behind string, fromStart bool, limit int) (groups []ReadyGroup, err error) {
	prefix := appendReadyPrefix(nil, q)
	from := prefix
	if !fromStart {
		from = after(appendText(bytes.Clone(prefix), behind))
	}
	if limit = min(limit, MaxPage); limit <= 0 {
		return nil, nil
	}
	err = s.lookup(func(v view) error {
		return v.skipReady(prefix, from, true, func(_ ReadyQueue, group string, key, place, value []byte) (bool, error) {
			first, err := decodeReady(key, place, value)
			groups = append(groups, ReadyGroup{group, first})
			return len(groups) < limit, err
		})
	})
	return groups, err
}

func decodeReady(key, place, value []byte) (e ReadyEntry, err error) {
	r := keyReader{b: place}
	e.OrderAt, e.ID = r.nanos(), r.id()
	if len(value) > 0 {
		v := keyReader{b: value}
		e.AvailableAt = fromNanos(v.nanos())
		r.err = errors.Join(r.err, v.err)
	}
	if r.err != nil {
		return e, fmt.Errorf("%s: %w", describeKey(key), errRecord)
	}
	return e, nil
}

// ReadyQueues lists the ready queues that have any entries, in order of type,
// lane and priority. It costs one seek for each.
func (s *Store) ReadyQueues() (queues []ReadyQueue, err error) {
	all := []byte{prefixReady}
	err = s.lookup(func(v view) error {
		return v.skipReady(all, all, false, func(q ReadyQueue, _ string, _, _, _ []byte) (bool, error) {
			queues = append(queues, q)
			return true, nil
		})
	})
	return queues, err
}

// skipReady calls fn with each ready queue (or, groups, with each group of
// each) under a prefix, from a key on, and its first entry: the key, the place
// that the key says, and the value. It does so until fn says no more, and seeks
// from one to the next.
func (v view) skipReady(prefix, from []byte, groups bool, fn func(q ReadyQueue, group string, key, place, value []byte) (more bool, err error)) error {
	it, err := v.r.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: after(prefix)})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; {
		key := it.Key()
		r := keyReader{b: key[1:]}
		q := ReadyQueue{Type: events.Type(r.text()), Lane: r.text(), Priority: events.Priority(r.byte())}
		share := len(key) - len(r.b)
		group := r.text()
		if groups {
			share = len(key) - len(r.b)
		}
		if r.err != nil {
			return errors.Join(fmt.Errorf("%s: %w", describeKey(key), errRecord), it.Close())
		}
		value, err := it.ValueAndErr()
		more := false
		if err == nil {
			more, err = fn(q, group, key, r.b, value)
		}
		if err != nil || !more {
			return errors.Join(err, it.Close())
		}
		ok = it.SeekGE(after(key[:share]))
	}
	return errors.Join(it.Error(), it.Close())
}

// TimerKey is the place of something due: at which moment, for which item. The
// zero TimerKey lies before anything of our time.
type TimerKey struct {
	At int64 // Item.TimerAt or Item.ExpiryAt, nanoseconds since 1970
	ID events.ID
}

// TimerKeysOf are the places of what is due for an item: of its timer and of its
// expiry, the zero key for none. When both are for one moment, the first stands
// for both.
func TimerKeysOf(it *events.Item) (keys [2]TimerKey) {
	due, expiry := it.TimerAt(), it.ExpiryAt()
	if !due.IsZero() {
		keys[0] = TimerKey{nanos(due), it.ID}
	}
	if !expiry.IsZero() && !expiry.Equal(due) {
		keys[1] = TimerKey{nanos(expiry), it.ID}
	}
	return keys
}

// Compare orders places: -1 if k comes first, +1 if o does, 0 if they are one.
func (k TimerKey) Compare(o TimerKey) int {
	if c := cmp.Compare(k.At, o.At); c != 0 {
		return c
	}
	return bytes.Compare(k.ID[:], o.ID[:])
}

// Less reports whether k comes before o.
func (k TimerKey) Less(o TimerKey) bool { return k.Compare(o) < 0 }

// TimerEntry is something due for an item in a state.
type TimerEntry struct {
	TimerKey
	State events.ItemState
}

// Timers returns up to limit of what is due behind a place (the zero one: from
// the start), in order of time, however far away.
func (s *Store) Timers(behind TimerKey, limit int) (page []TimerEntry, err error) {
	prefix := []byte{prefixTimer}
	from := prefix
	if behind != (TimerKey{}) {
		from = append(appendNanos(bytes.Clone(prefix), behind.At), behind.ID[:]...)
		from = append(from, 0)
	}
	limit = min(limit, MaxPage)
	err = s.lookup(func(v view) error {
		return v.scan(prefix, from, func(key, value []byte) (bool, error) {
			if len(page) >= limit {
				return false, nil
			}
			r := keyReader{b: key[1:]}
			e := TimerEntry{TimerKey: TimerKey{r.nanos(), r.id()}}
			if r.err != nil || len(value) != 1 {
				return false, fmt.Errorf("%s: %w", describeKey(key), errRecord)
			}
			e.State = events.ItemState(value[0])
			page = append(page, e)
			return true, nil
		})
	})
	return page, err
}
