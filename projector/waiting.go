package projector

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/events"
)

// MaxWaitingReads bounds the index entries that one call of OldestWaiting reads.
const MaxWaitingReads = 20_000

// EachQueued calls begin with a position, then count with the type, priority and
// place of each item that is queued there: the moment from which it waits, in
// nanoseconds since 1970 (its place in the queue, or when it became due if that
// is later). It reads every entry of the ready index. The first error of count
// ends it.
func (s *Store) EachQueued(begin func(events.Seq), count func(t events.Type, p events.Priority, place int64) error) error {
	return s.snapshot(func(v view) error {
		m, err := v.meta()
		if err != nil {
			return err
		}
		begin(m.Applied)
		all := []byte{prefixReady}
		return v.scan(all, all, func(key, value []byte) (bool, error) {
			r := keyReader{b: key[1:]}
			t := events.Type(r.text())
			r.skipText() // lane
			p := events.Priority(r.byte())
			r.skipText() // group
			if r.err != nil || int(p) > int(events.MaxPriority) {
				return false, fmt.Errorf("%s: %w", describeKey(key), errRecord)
			}
			e, err := decodeReady(key, r.b, value)
			if err != nil {
				return false, err
			}
			return true, count(t, p, e.place())
		})
	})
}

// place is the moment from which the entry's item waits.
func (e ReadyEntry) place() int64 { return max(e.OrderAt, nanos(e.AvailableAt)) }

// OldestWaiting is, for each priority of a type, the earliest moment from which
// an item waits that may run by now; zero if none does. It reads an index entry
// for each group of each queue, and those of items in a backoff that have a place
// before the first that may run; exact is false if those are more than
// MaxWaitingReads, and then nothing is found.
func (s *Store) OldestWaiting(t events.Type, now time.Time) (oldest [int(events.MaxPriority) + 1]time.Time, exact bool, err error) {
	w := waitingWalk{by: nanos(now), left: MaxWaitingReads}
	for p := range w.first {
		w.first[p] = math.MaxInt64
	}
	prefix := appendText([]byte{prefixReady}, string(t))
	err = s.lookup(func(v view) error {
		it, err := v.r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
		if err != nil {
			return err
		}
		err = w.walk(it)
		return errors.Join(err, it.Error(), it.Close())
	})
	if err != nil || w.left <= 0 {
		return oldest, false, err
	}
	for p, ns := range w.first {
		if ns != math.MaxInt64 {
			oldest[p] = fromNanos(ns)
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

// walk goes through each group of each queue as far as an entry can still be
// earlier than what is found.
func (w *waitingWalk) walk(it *pebble.Iterator) error {
	for ok := it.First(); ok && w.left > 0; w.left-- {
		key := it.Key()
		r := keyReader{b: key[1:]}
		r.skipText() // type
		r.skipText() // lane
		p := r.byte()
		r.skipText() // group
		share := len(key) - len(r.b)
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if r.err != nil || int(p) >= len(w.first) {
			return fmt.Errorf("%s: %w", describeKey(key), errRecord)
		}
		e, err := decodeReady(key, r.b, value)
		if err != nil {
			return err
		}
		if e.OrderAt <= w.by && e.OrderAt < w.first[p] {
			if place := e.place(); place <= w.by {
				w.first[p] = min(w.first[p], place)
			}
			ok = it.Next()
			continue
		}
		ok = it.SeekGE(after(key[:share]))
	}
	return nil
}

// skipText passes over a text without making one.
func (r *keyReader) skipText() {
	for r.err == nil {
		if r.byte() == 0 && r.byte() == 1 {
			return
		}
	}
}
