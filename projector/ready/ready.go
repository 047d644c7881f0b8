// Package ready has the order of the items that wait to run: the queues, and the
// places in them. The projection indexes items by it, and package readyq holds what
// goes next. It imports no store, so the playground of the documentation orders items
// as the engine does.
package ready

import (
	"bytes"
	"cmp"
	"math"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Queue names one ordered set of queued items.
type Queue struct {
	Type     events.Type
	Lane     string
	Priority events.Priority
}

// Key is an item's place in its ready queue: first queued, first served.
// The zero Key lies before any item of our time.
type Key struct {
	OrderAt int64 // Item.OrderAt, nanoseconds since 1970
	ID      events.ID
}

// KeyOf is a queued item's place.
func KeyOf(it *events.Item) Key { return Key{Nanos(it.OrderAt), it.ID} }

// Compare orders places: -1 if k comes first, +1 if o does, 0 if they are one.
func (k Key) Compare(o Key) int {
	if c := cmp.Compare(k.OrderAt, o.OrderAt); c != 0 {
		return c
	}
	return bytes.Compare(k.ID[:], o.ID[:])
}

// Less reports whether k comes before o.
func (k Key) Less(o Key) bool { return k.Compare(o) < 0 }

// Entry is a queued item. It may run from AvailableAt on (zero: at once).
type Entry struct {
	Key
	AvailableAt time.Time
}

// Since returns the moment from which the entry's item waits.
func (e Entry) Since() int64 { return max(e.OrderAt, Nanos(e.AvailableAt)) }

// Group is a group of a ready queue, and the first of its entries.
type Group struct {
	Name  string
	First Entry
}

// NoTime is the form of the zero time: before any other.
const NoTime = math.MinInt64

// Nanos is t in nanoseconds since 1970, NoTime for the zero time. Times of the
// log lie well inside what 64 bits hold (the years 1678 to 2262): they are
// clock readings, or at most events.MaxDelay past one.
func Nanos(t time.Time) int64 {
	if t.IsZero() {
		return NoTime
	}
	return t.UnixNano()
}
