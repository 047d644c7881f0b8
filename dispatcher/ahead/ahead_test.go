package ahead

import (
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/projector/ready"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// store returns a store that holds queued items.
func store(t *testing.T, items []*events.Item) *projector.Store {
	t.Helper()
	s, err := projector.Open("", projector.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &core.Changes{Meta: events.Meta{Applied: 1}}
	for _, it := range items {
		c.Items = append(c.Items, core.ItemChange{New: it})
	}
	if err := s.Commit(c); err != nil {
		t.Fatal(err)
	}
	return s
}

func queued(n int, typ events.Type) *events.Item {
	return &events.Item{ID: events.ID{byte(n >> 16), byte(n >> 8), byte(n)}, Type: typ, State: events.StateQueued, CreatedAt: noon, OrderAt: noon}
}

// What is counted is what ranks before the item: that may run, in its lane, or in that of a
// rival, whose age step is another.
func TestCountsAreByRank(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	steps := map[events.Type]time.Duration{"a": time.Minute, "b": 10 * time.Second}
	var all []*events.Item
	for i := range 150 {
		it := queued(i+1, []events.Type{"a", "b"}[rng.IntN(2)])
		it.Priority = events.Priority(rng.IntN(int(events.MaxPriority) + 1))
		it.Capabilities = [][]string{nil, {"gpu"}}[rng.IntN(2)]
		it.OrderAt = noon.Add(-time.Duration(rng.IntN(300)) * time.Second) // now and then at one rank
		if it.Estimate = time.Duration(rng.IntN(2)) * time.Second; rng.IntN(4) == 0 {
			it.AvailableAt = noon.Add(time.Duration(rng.IntN(20)-10) * time.Second)
		}
		all = append(all, it)
	}
	s := store(t, all)
	rank := func(it *events.Item) readyq.Rank {
		return readyq.RankOf(it.Priority, steps[it.Type], ready.KeyOf(it))
	}
	for _, it := range all {
		own, others := projector.Ahead{}, 0
		for _, o := range all {
			if o.AvailableAt.After(noon) || rank(o) <= rank(it) {
				continue
			}
			switch {
			case o.Type == it.Type && o.Lane() == it.Lane():
				if own.Items++; o.Estimate > 0 {
					own.Estimated++
					own.Work += o.Estimate
				}
			case it.Type == "a" && o.Type == "b" && o.Lane() == "":
				others++
			}
		}
		got, err := OfType(s, it, steps[it.Type], noon)
		if err != nil || got != own {
			t.Fatalf("ahead of %+v: %+v, %v, want %+v", it, got, err, own)
		}
		if it.Type != "a" {
			continue
		}
		rivals := Rivals{Limit: "the pool", Lanes: []Rival{{Lane: lanes.Key{Type: "b"}, AgeStep: steps["b"]}}}
		for _, limit := range []int{Max, others, 3, 0} {
			if n, err := rivals.Count(s, it, steps["a"], noon, limit); err != nil || n != min(others, limit) {
				t.Fatalf("of a rival, up to %d: %d, %v, want %d", limit, n, err, others)
			}
		}
	}
}

// A group's items take turns with those of another, which counts for one more at most.
func TestGroupsTakeTurns(t *testing.T) {
	var all []*events.Item
	for i := range 12 {
		it := queued(i+1, "a")
		it.OrderAt = noon.Add(time.Duration(i-12) * time.Second)
		if it.Group = "g"; i >= 9 {
			it.Group = "h"
		}
		all = append(all, it)
	}
	s := store(t, all)
	for i, want := range []int{9: 1, 10: 1 + 2, 11: 2 + 3} {
		if want == 0 {
			continue
		}
		if got, err := OfType(s, all[i], time.Minute, noon); err != nil || got.Items != want {
			t.Errorf("ahead of item %d: %+v, %v, want %d", i, got, err, want)
		}
	}
}

// The count ends at Max, whatever the priorities.
func TestOfTypeIsBounded(t *testing.T) {
	var all []*events.Item
	for i := range Max + 20 {
		it := queued(i+1, "a")
		it.Priority, it.OrderAt = events.Priority(i%2), noon.Add(-time.Hour)
		all = append(all, it)
	}
	last := queued(len(all)+1, "a")
	s := store(t, append(all, last))
	if got, err := OfType(s, last, time.Second, noon); err != nil || got.Items != Max {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestSaid(t *testing.T) {
	pool := &Rivals{Limit: "the pool x"}
	for _, c := range []struct {
		own, others int
		rivals      *Rivals
		want        string
	}{
		{1, 0, &Rivals{}, "1 item of its type goes first"},
		{2, 0, &Rivals{}, "2 items of its type go first"},
		{Max, 0, &Rivals{}, "10000 items of its type, or more, go first"},
		{2, 0, &Rivals{Cut: true}, "2 items of its type, or more, go first"},
		{0, 1, pool, "1 item goes first: 0 of its type, 1 of other types that share the pool x"},
		{1, 2, pool, "3 items go first: 1 of its type, 2 of other types that share the pool x"},
		{1, Max - 1, pool, "10000 items, or more, go first: 1 of its type, 9999 of other types that share the pool x"},
	} {
		if got := Said(c.own, c.others, c.rivals); got != c.want {
			t.Errorf("%d and %d: %s, want %s", c.own, c.others, got, c.want)
		}
	}
}
