// Package ahead counts the queued items that go before another, by the projection. It
// reads as many index entries as there are such items, within bounds, so it is not for the
// dispatcher's loop.
package ahead

import (
	"fmt"
	"time"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/projector/ready"
)

// Max bounds how many of the items ahead of another are counted.
const Max = 10_000

// MaxRivals bounds the lanes of a Rivals.
const MaxRivals = 100

// Rivals holds the lanes that compete with a type for a limit that is reached.
type Rivals struct {
	Limit string // the limit's name; empty: no shared limit is reached
	Lanes []Rival
	Cut   bool // there are more lanes
}

// Rival is a lane of another type.
type Rival struct {
	Lane    lanes.Key
	AgeStep time.Duration
}

// OfType counts the queued items of its type that go before an item, up to Max.
func OfType(store *projector.Store, it *events.Item, ageStep time.Duration, now time.Time) (all projector.Ahead, err error) {
	for p := range events.MaxPriority + 1 {
		q := ready.Queue{Type: it.Type, Lane: it.Lane(), Priority: p}
		more, err := store.CountAhead(q, it, placeBefore(it, ageStep, p, ageStep), now, Max-all.Items)
		if all.Add(more); err != nil || all.Items >= Max {
			return all, err
		}
	}
	return all, nil
}

// Count counts the queued items of other types that go before an item, up to a limit.
func (c *Rivals) Count(store *projector.Store, it *events.Item, ageStep time.Duration, now time.Time, limit int) (n int, err error) {
	for _, r := range c.Lanes {
		for p := range events.MaxPriority + 1 {
			if n >= limit {
				return n, nil
			}
			q := ready.Queue{Type: r.Lane.Type, Lane: r.Lane.Name, Priority: p}
			k, err := store.CountBefore(q, placeBefore(it, ageStep, p, r.AgeStep), now, limit-n)
			if n += k; err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// Said describes how many items go before one: of its type, and of the types that it shares
// a limit with.
func Said(own, others int, c *Rivals) string {
	n, more, verb := own+others, "", "go"
	if n >= Max || c.Cut {
		more = ", or more,"
	}
	if n == 1 {
		verb = "goes"
	}
	if others == 0 {
		return fmt.Sprintf("%s of its type%s %s first", events.Count(n, "item"), more, verb)
	}
	return fmt.Sprintf("%s%s %s first: %d of its type, %d of other types that share %s", events.Count(n, "item"), more, verb, own, others, c.Limit)
}

// placeBefore returns the OrderAt before which an item of priority p, of a type with age
// step step, goes before it.
func placeBefore(it *events.Item, ageStep time.Duration, p events.Priority, step time.Duration) time.Time {
	return it.OrderAt.Add(time.Duration(readyq.RankOf(p, step, ready.Key{}) - readyq.RankOf(it.Priority, ageStep, ready.Key{})))
}
