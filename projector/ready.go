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
		return v.eachGroup(prefix, from, func(group string, key, place, value []byte) (bool, error) {
			first, err := decodeReady(key, place, value)
			groups = append(groups, ReadyGroup{group, first})
			return len(groups) < limit, err
		})
	})
	return groups, err
}

// readyValue is what the index says of a queued item beside its place: when it
// may run, and how long a run is likely to take, where that is known.
func readyValue(it *events.Item) []byte {
	if it.AvailableAt.IsZero() && it.Estimate == 0 {
		return nil
	}
	value := appendTime(nil, it.AvailableAt)
	if it.Estimate != 0 {
		value = appendNanos(value, int64(it.Estimate))
	}
	return value
}

// readyEstimate is how long a run of the item is likely to take, by its value in
// the index; 0 if its submission does not say.
func readyEstimate(value []byte) time.Duration {
	if len(value) < 16 {
		return 0
	}
	r := keyReader{b: value[8:]}
	return time.Duration(r.nanos())
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

// ReadyLanes calls fn with lanes of a type that have entries, in order of name,
// from one on. fn returns the name to go on from, behind the one that it was
// called with; empty: no more are wanted. It costs one seek for each.
func (s *Store) ReadyLanes(t events.Type, from string, fn func(lane string) (next string)) error {
	ofType := appendText([]byte{prefixReady}, string(t))
	at := func(lane string) []byte { return appendText(bytes.Clone(ofType), lane) }
	return s.lookup(func(v view) error {
		it, err := v.r.NewIter(&pebble.IterOptions{LowerBound: ofType, UpperBound: after(ofType)})
		if err != nil {
			return err
		}
		for ok := it.SeekGE(at(from)); ok; ok = it.SeekGE(at(from)) {
			r := keyReader{b: it.Key()[len(ofType):]}
			lane := r.text()
			if r.err != nil {
				return errors.Join(fmt.Errorf("%s: %w", describeKey(it.Key()), errRecord), it.Close())
			}
			if from = fn(lane); from == "" {
				break
			}
		}
		return errors.Join(it.Error(), it.Close())
	})
}

// eachGroup calls fn with each group of a ready queue, whose prefix that is, from
// a key on, and its first entry: the key, the place that the key says, and the
// value. It does so until fn says no more, and seeks from one to the next.
func (v view) eachGroup(prefix, from []byte, fn func(group string, key, place, value []byte) (more bool, err error)) error {
	it, err := v.r.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: after(prefix)})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; {
		key := it.Key()
		r := keyReader{b: key[len(prefix):]}
		group := r.text()
		share := len(key) - len(r.b)
		if r.err != nil {
			return errors.Join(fmt.Errorf("%s: %w", describeKey(key), errRecord), it.Close())
		}
		value, err := it.ValueAndErr()
		more := false
		if err == nil {
			more, err = fn(group, key, r.b, value)
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
