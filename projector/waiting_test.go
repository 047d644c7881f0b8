package projector

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// queuedAt are items of many queues and groups, in backoffs and delayed.
func queuedAt(now time.Time, n int) *core.Changes {
	rnd := rand.New(rand.NewPCG(1, 2))
	c := &core.Changes{Meta: events.Meta{Applied: 7}}
	lanes := [][]string{nil, {"gpu"}, {"a\x00b"}}
	groups := []string{"", "x", "y\x00z", "\xff"}
	for i := range n {
		it := &events.Item{ID: events.ID{1, byte(i >> 8), byte(i)}, Type: "email", State: events.StateQueued, Priority: events.Priority(rnd.IntN(4)),
			Group: groups[rnd.IntN(4)], Capabilities: lanes[rnd.IntN(3)], CreatedAt: now, OrderAt: now.Add(-time.Duration(rnd.IntN(3600)) * time.Second)}
		switch rnd.IntN(3) {
		case 0:
			it.AvailableAt = now.Add(time.Duration(rnd.IntN(7200)-3600) * time.Second)
		case 1:
			it.AvailableAt = now.Add(time.Duration(rnd.IntN(7200)-3600) * time.Second)
			it.OrderAt = it.AvailableAt
		}
		if i%10 == 0 {
			it.Type = "other"
		}
		c.Items = append(c.Items, core.ItemChange{New: it})
	}
	return c
}

func openFilled(t *testing.T, c *core.Changes) *Store {
	t.Helper()
	s, err := Open("", Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Commit(c); err != nil {
		t.Fatal(err)
	}
	return s
}

func placeOf(it *events.Item) time.Time {
	if it.AvailableAt.After(it.OrderAt) {
		return it.AvailableAt
	}
	return it.OrderAt
}

func TestOldestWaiting(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	c := queuedAt(now, 500)
	s := openFilled(t, c)
	for _, at := range []time.Time{now, now.Add(-59 * time.Minute), now.Add(-2 * time.Hour), now.Add(2 * time.Hour)} {
		for _, typ := range []events.Type{"email", "other", "none"} {
			var want [int(events.MaxPriority) + 1]time.Time
			for _, ch := range c.Items {
				place := placeOf(ch.New)
				if w := &want[ch.New.Priority]; ch.New.Type == typ && !place.After(at) && (w.IsZero() || place.Before(*w)) {
					*w = place
				}
			}
			got, exact, err := s.OldestWaiting(typ, at)
			if err != nil || !exact || got != want {
				t.Errorf("%s at %v: %v, %v, %v\nwant %v", typ, at, got, exact, err, want)
			}
		}
	}
}

// Items in a backoff, in front of the first that may run, are read up to a bound.
func TestOldestWaitingIsBounded(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	c := &core.Changes{Meta: events.Meta{Applied: 1}}
	for i := range MaxWaitingReads + 1 {
		c.Items = append(c.Items, core.ItemChange{New: &events.Item{ID: events.ID{1, byte(i >> 16), byte(i >> 8), byte(i)}, Type: "email", State: events.StateQueued,
			CreatedAt: now, OrderAt: now.Add(-time.Hour), AvailableAt: now.Add(time.Hour)}})
	}
	s := openFilled(t, c)
	if got, exact, err := s.OldestWaiting("email", now); exact || err != nil || !got[0].IsZero() {
		t.Errorf("%v %v %v", got[0], exact, err)
	}
	if got, exact, err := s.OldestWaiting("email", now.Add(-2*time.Hour)); !exact || err != nil || !got[0].IsZero() {
		t.Errorf("before all of them: %v %v %v", got[0], exact, err)
	}
}

func TestEachQueued(t *testing.T) {
	type counted struct {
		typ   events.Type
		p     events.Priority
		place int64
	}
	c := queuedAt(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), 300)
	s := openFilled(t, c)
	var want, got []counted
	for _, ch := range c.Items {
		want = append(want, counted{ch.New.Type, ch.New.Priority, placeOf(ch.New).UnixNano()})
	}
	at := events.Seq(0)
	err := s.EachQueued(func(seq events.Seq) { at = seq }, func(typ events.Type, p events.Priority, place int64) error {
		got = append(got, counted{typ, p, place})
		return nil
	})
	order := func(a, b counted) int {
		return cmp.Or(cmp.Compare(a.typ, b.typ), cmp.Compare(a.p, b.p), cmp.Compare(a.place, b.place))
	}
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if err != nil || at != 7 || !slices.Equal(got, want) {
		t.Errorf("%d entries at %d, %v; want %d", len(got), at, err, len(want))
	}
}
