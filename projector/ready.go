package projector

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/internal/layout"
	"github.com/streamwright/streamwright/projector/ready"
)

// MaxPage is the most entries that one call of ReadyGroups or Timers returns.
const MaxPage = 100_000

// EachReady calls fn with the entries of one group of a ready queue behind a
// place (the zero one: from the start), in order, until fn says no more. It
// reads no entry that fn is not called with. Those that may not run yet are
// among them. fn must not call the Store.
func (s *Store) EachReady(q ready.Queue, group string, behind ready.Key, fn func(ready.Entry) (more bool)) error {
	prefix := layout.AppendText(appendReadyPrefix(nil, q), group)
	from := prefix
	if behind != (ready.Key{}) {
		from = append(layout.AppendNanos(bytes.Clone(prefix), behind.OrderAt), behind.ID[:]...)
		from = append(from, 0) // the first key behind it
	}
	return s.lookup(func(v layout.View) error {
		return v.Scan(prefix, from, func(key, value []byte) (bool, error) {
			e, err := decodeReady(key, key[len(prefix):], value)
			return err == nil && fn(e), err
		})
	})
}

// ReadyGroups lists up to limit groups of a ready queue that have any entries,
// in order of name, starting after behind, or with fromStart from the first. It
// costs one seek for each group, whatever its size.
func (s *Store) ReadyGroups(q ready.Queue, behind string, fromStart bool, limit int) (groups []ready.Group, err error) {
	prefix := appendReadyPrefix(nil, q)
	from := prefix
	if !fromStart {
		from = layout.After(layout.AppendText(bytes.Clone(prefix), behind))
	}
	if limit = min(limit, MaxPage); limit <= 0 {
		return nil, nil
	}
	err = s.lookup(func(v layout.View) error {
		return eachGroup(v, prefix, from, func(group string, key, place, value []byte) (bool, error) {
			first, err := decodeReady(key, place, value)
			groups = append(groups, ready.Group{Name: group, First: first})
			return len(groups) < limit, err
		})
	})
	return groups, err
}

// readyValue returns the value of a queued item's index entry: when it may run,
// and how long a run is likely to take, where that is known.
func readyValue(it *events.Item) []byte {
	if it.AvailableAt.IsZero() && it.Estimate == 0 {
		return nil
	}
	value := layout.AppendTime(nil, it.AvailableAt)
	if it.Estimate != 0 {
		value = layout.AppendNanos(value, int64(it.Estimate))
	}
	return value
}

// readyEstimate returns the likely duration of a run of the item, from its
// value in the index; 0 if its submission does not say.
func readyEstimate(value []byte) time.Duration {
	if len(value) < 16 {
		return 0
	}
	r := layout.KeyReader{B: value[8:]}
	return time.Duration(r.Nanos())
}

func decodeReady(key, place, value []byte) (e ready.Entry, err error) {
	r := layout.KeyReader{B: place}
	e.OrderAt, e.ID = r.Nanos(), r.ID()
	if len(value) > 0 {
		v := layout.KeyReader{B: value}
		e.AvailableAt = layout.FromNanos(v.Nanos())
		r.Err = errors.Join(r.Err, v.Err)
	}
	if r.Err != nil {
		return e, fmt.Errorf("%s: %w", layout.DescribeKey(key), layout.ErrRecord)
	}
	return e, nil
}

// ReadyLanes calls fn with lanes of a type that have entries, in order of name,
// from one on. fn returns the name to go on from, behind the one that it was
// called with; empty: no more are wanted. It costs one seek for each.
func (s *Store) ReadyLanes(t events.Type, from string, fn func(lane string) (next string)) error {
	ofType := layout.AppendText([]byte{layout.PrefixReady}, string(t))
	at := func(lane string) []byte { return layout.AppendText(bytes.Clone(ofType), lane) }
	return s.lookup(func(v layout.View) error {
		return v.Iterate(ofType, layout.After(ofType), func(it *pebble.Iterator) error {
			for ok := it.SeekGE(at(from)); ok; ok = it.SeekGE(at(from)) {
				r := layout.KeyReader{B: it.Key()[len(ofType):]}
				lane := r.Text()
				if r.Err != nil {
					return fmt.Errorf("%s: %w", layout.DescribeKey(it.Key()), layout.ErrRecord)
				}
				if from = fn(lane); from == "" {
					break
				}
			}
			return nil
		})
	})
}

// eachGroup calls fn with each group of a ready queue, whose prefix that is, from
// a key on, and its first entry: the key, the place that the key says, and the
// value. It does so until fn says no more, and seeks from one to the next.
func eachGroup(v layout.View, prefix, from []byte, fn func(group string, key, place, value []byte) (more bool, err error)) error {
	return v.Iterate(from, layout.After(prefix), func(it *pebble.Iterator) error {
		for ok := it.First(); ok; {
			key := it.Key()
			r := layout.KeyReader{B: key[len(prefix):]}
			group := r.Text()
			share := len(key) - len(r.B)
			if r.Err != nil {
				return fmt.Errorf("%s: %w", layout.DescribeKey(key), layout.ErrRecord)
			}
			value, err := it.ValueAndErr()
			if err != nil {
				return err
			}
			if more, err := fn(group, key, r.B, value); !more || err != nil {
				return err
			}
			ok = it.SeekGE(layout.After(key[:share]))
		}
		return nil
	})
}

// TimerKey is the place of something due: at which moment, for which item. The
// zero TimerKey lies before anything of our time.
type TimerKey struct {
	At int64 // Item.TimerAt or Item.ExpiryAt, nanoseconds since 1970
	ID events.ID
}

// TimerKeysOf returns the places of an item's timer and of its expiry, the zero
// key for none. If both are due at one moment, the first stands for both.
func TimerKeysOf(it *events.Item) (keys [2]TimerKey) {
	due, expiry := it.TimerAt(), it.ExpiryAt()
	if !due.IsZero() {
		keys[0] = TimerKey{layout.Nanos(due), it.ID}
	}
	if !expiry.IsZero() && !expiry.Equal(due) {
		keys[1] = TimerKey{layout.Nanos(expiry), it.ID}
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

// Timers returns up to limit timers and expiries after a place (the zero one:
// from the start), in order of time, however far away.
func (s *Store) Timers(behind TimerKey, limit int) (page []TimerEntry, err error) {
	prefix := []byte{layout.PrefixTimer}
	from := prefix
	if behind != (TimerKey{}) {
		from = append(layout.AppendNanos(bytes.Clone(prefix), behind.At), behind.ID[:]...)
		from = append(from, 0)
	}
	limit = min(limit, MaxPage)
	err = s.lookup(func(v layout.View) error {
		return v.Scan(prefix, from, func(key, value []byte) (bool, error) {
			if len(page) >= limit {
				return false, nil
			}
			r := layout.KeyReader{B: key[1:]}
			e := TimerEntry{TimerKey: TimerKey{r.Nanos(), r.ID()}}
			if r.Err != nil || len(value) != 1 {
				return false, fmt.Errorf("%s: %w", layout.DescribeKey(key), layout.ErrRecord)
			}
			e.State = events.ItemState(value[0])
			page = append(page, e)
			return true, nil
		})
	})
	return page, err
}

// MaxWaitingReads bounds the index entries that one call of OldestWaiting reads.
const MaxWaitingReads = 20_000

// EachQueued calls begin with a position, then count with the type, priority and
// place of each item that is queued there: the moment from which it waits, in
// nanoseconds since 1970 (its place in the queue, or when it became due if that
// is later). It reads every entry of the ready index. The first error of count
// ends it.
func (s *Store) EachQueued(begin func(events.Seq), count func(t events.Type, p events.Priority, place int64) error) error {
	return s.Snapshot(func(v layout.View) error {
		m, err := v.Meta()
		if err != nil {
			return err
		}
		begin(m.Applied)
		all := []byte{layout.PrefixReady}
		return v.Scan(all, all, func(key, value []byte) (bool, error) {
			r := layout.KeyReader{B: key[1:]}
			t := events.Type(r.Text())
			r.SkipText() // lane
			p := events.Priority(r.Byte())
			r.SkipText() // group
			if r.Err != nil || int(p) > int(events.MaxPriority) {
				return false, fmt.Errorf("%s: %w", layout.DescribeKey(key), layout.ErrRecord)
			}
			e, err := decodeReady(key, r.B, value)
			if err != nil {
				return false, err
			}
			return true, count(t, p, e.Since())
		})
	})
}

// EachAwaiting calls begin with a position, then count for each item that waited for signals then,
// in no order. It ends with the first error of count.
func (s *Store) EachAwaiting(begin func(events.Seq), count func(it *events.Item) error) error {
	return s.Snapshot(func(v layout.View) error {
		m, err := v.Meta()
		if err != nil {
			return err
		}
		begin(m.Applied)
		all := []byte{layout.PrefixTimer} // each of them has a deadline
		return v.Scan(all, all, func(key, value []byte) (bool, error) {
			r := layout.KeyReader{B: key[1:]}
			at, id := r.Nanos(), r.ID()
			if r.Err != nil || len(value) != 1 {
				return false, fmt.Errorf("%s: %w", layout.DescribeKey(key), layout.ErrRecord)
			}
			if events.ItemState(value[0]) != events.StateWaiting {
				return true, nil
			}
			it, err := v.Item(id)
			if err != nil || it == nil {
				return err == nil, err
			}
			if w := it.Wait(); w == nil || layout.Nanos(w.Until) != at { // it has an expiry as well
				return true, nil
			}
			return true, count(it)
		})
	})
}

// OldestWaiting returns, for each priority of a type, the earliest moment from
// which an item that may run by now has been waiting; zero if there is none. It
// reads an index entry for each group of each queue, and the entries of items
// in a backoff that come before the first that may run. If these are more than
// MaxWaitingReads, exact is false and nothing is found.
func (s *Store) OldestWaiting(t events.Type, now time.Time) (oldest [int(events.MaxPriority) + 1]time.Time, exact bool, err error) {
	w := waitingWalk{by: layout.Nanos(now), left: MaxWaitingReads}
	for p := range w.first {
		w.first[p] = math.MaxInt64
	}
	prefix := layout.AppendText([]byte{layout.PrefixReady}, string(t))
	err = s.lookup(func(v layout.View) error { return v.Iterate(prefix, layout.After(prefix), w.walk) })
	if err != nil || w.left <= 0 {
		return oldest, false, err
	}
	for p, ns := range w.first {
		if ns != math.MaxInt64 {
			oldest[p] = layout.FromNanos(ns)
		}
	}
	return oldest, true, nil
}

// waitingWalk looks for the earliest places of a type's ready queues.
type waitingWalk struct {
	by    int64
	left  int // entries that may still be read
	first [int(events.MaxPriority) + 1]int64
}

// walk reads each group of each queue while an entry can still be earlier than
// the earliest found.
func (w *waitingWalk) walk(it *pebble.Iterator) error {
	for ok := it.First(); ok && w.left > 0; w.left-- {
		key := it.Key()
		r := layout.KeyReader{B: key[1:]}
		r.SkipText() // type
		r.SkipText() // lane
		p := r.Byte()
		r.SkipText() // group
		share := len(key) - len(r.B)
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if r.Err != nil || int(p) >= len(w.first) {
			return fmt.Errorf("%s: %w", layout.DescribeKey(key), layout.ErrRecord)
		}
		e, err := decodeReady(key, r.B, value)
		if err != nil {
			return err
		}
		if e.OrderAt <= w.by && e.OrderAt < w.first[p] {
			if place := e.Since(); place <= w.by {
				w.first[p] = min(w.first[p], place)
			}
			ok = it.Next()
			continue
		}
		ok = it.SeekGE(layout.After(key[:share]))
	}
	return nil
}

// appendReadyPrefix appends the common prefix of one ready queue's entries.
func appendReadyPrefix(b []byte, q ready.Queue) []byte {
	b = layout.AppendText(append(b, layout.PrefixReady), string(q.Type))
	return append(layout.AppendText(b, q.Lane), byte(q.Priority))
}

func appendReadyKey(b []byte, it *events.Item) []byte {
	b = layout.AppendText(appendReadyPrefix(b, ready.Queue{Type: it.Type, Lane: it.Lane(), Priority: it.Priority}), it.Group)
	return append(layout.AppendTime(b, it.OrderAt), it.ID[:]...)
}

// maxAheadGroups bounds the groups of a queue that CountAhead looks at.
const maxAheadGroups = 1000

// Ahead counts the items ahead of an item.
type Ahead struct {
	Items int
	// Estimated counts the items whose submission says how long a run is likely
	// to take, and Work is the sum of these times.
	Estimated int
	Work      time.Duration
}

// Add adds further items that go before the item.
func (a *Ahead) Add(o Ahead) {
	a.Items += o.Items
	a.Estimated += o.Estimated
	a.Work += o.Work
}

// CountAhead counts the items of a ready queue that go before the item it, up
// to limit: they may run at now and have a place before the time before. Groups
// take turns, so another group counts for at most one item more than the item's
// own. It reads an index entry for each, of at most maxAheadGroups groups.
func (s *Store) CountAhead(q ready.Queue, it *events.Item, before, now time.Time, limit int) (Ahead, error) {
	own, err := countReady(s, q, it.Group, before, now, limit)
	if err != nil || own.Items >= limit {
		return own, err
	}
	groups, err := s.ReadyGroups(q, "", true, maxAheadGroups)
	all := own
	for _, g := range groups {
		if g.Name == it.Group || err != nil || all.Items >= limit {
			continue
		}
		var more Ahead
		more, err = countReady(s, q, g.Name, before, now, min(own.Items+1, limit-all.Items))
		all.Add(more)
	}
	return all, err
}

// CountBefore counts the items of a ready queue that may run at now and have a
// place before a time, up to limit, of at most maxAheadGroups groups.
func (s *Store) CountBefore(q ready.Queue, before, now time.Time, limit int) (n int, err error) {
	groups, err := s.ReadyGroups(q, "", true, maxAheadGroups)
	for _, g := range groups {
		if err != nil || n >= limit {
			break
		}
		var more Ahead
		more, err = countReady(s, q, g.Name, before, now, limit-n)
		n += more.Items
	}
	return n, err
}

func countReady(s *Store, q ready.Queue, group string, before, now time.Time, limit int) (a Ahead, err error) {
	if limit <= 0 {
		return a, nil
	}
	prefix := layout.AppendText(appendReadyPrefix(nil, q), group)
	err = s.lookup(func(v layout.View) error {
		return v.Scan(prefix, prefix, func(key, value []byte) (bool, error) {
			e, err := decodeReady(key, key[len(prefix):], value)
			if err != nil || e.OrderAt >= layout.Nanos(before) {
				return false, err
			}
			if !e.AvailableAt.After(now) {
				a.Items++
				if d := readyEstimate(value); d > 0 {
					a.Estimated++
					a.Work += d
				}
			}
			return a.Items < limit, nil
		})
	})
	return a, err
}
