package seats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
)

var ways = []string{"", events.AssignMostFree, events.AssignRoundRobin, events.PerTenant, events.PerLabel + "customer"}

// workers returns the seats of n workers, w0 to wN.
func workers(n, slots int) (list []Seat) {
	for i := range n {
		list = append(list, Seat{Worker: events.WorkerID(fmt.Sprint("w", i)), Session: "1", Types: []string{"email"}, Slots: slots})
	}
	return list
}

func tenant(i int) *events.Item {
	if i == 0 {
		return &events.Item{}
	}
	name := fmt.Sprint("t", i)
	return &events.Item{Tenant: name, Labels: map[string]string{"customer": name}}
}

func seated(list ...Seat) *Seats {
	s := New()
	s.Set(list, noRuns)
	return s
}

// chosen gives a slot of a worker to an item.
func chosen(s *Seats, key lanes.Key, by string, it *events.Item) events.WorkerID {
	seat := s.Choose(key, by, it)
	if seat == nil {
		return ""
	}
	s.Count(seat.Worker, seat.Session, key.Type, 1)
	return seat.Worker
}

func order(s *Seats, key lanes.Key, by string, n int) (list []events.WorkerID) {
	for range n {
		list = append(list, chosen(s, key, by, tenant(0)))
	}
	return list
}

func TestWorkersTakeTurns(t *testing.T) {
	list := workers(3, 4)
	list[1].Slots = 1
	s := seated(list...)
	if got := fmt.Sprint(order(s, email, events.AssignRoundRobin, 10)); got != "[w0 w1 w2 w0 w2 w0 w2 w0 w2 ]" {
		t.Errorf("in order %s", got)
	}
	s.Count("w1", "1", "email", -1)
	s.Count("w0", "1", "email", -1)
	if got := fmt.Sprint(order(s, email, events.AssignRoundRobin, 2)); got != "[w0 w1]" {
		t.Errorf("then %s", got)
	}
}

// Turns go on behind the worker whose turn was the last, also when that one has gone.
func TestTurnsOutliveTheSeats(t *testing.T) {
	s := seated(workers(4, 9)...)
	order(s, email, events.AssignRoundRobin, 2)
	s.Set(workers(4, 9), noRuns)
	if got := chosen(s, email, events.AssignRoundRobin, tenant(0)); got != "w2" {
		t.Errorf("behind w1 comes %s", got)
	}
	s.Set(slices.Delete(workers(4, 9), 2, 3), noRuns)
	if got := chosen(s, email, events.AssignRoundRobin, tenant(0)); got != "w3" {
		t.Errorf("behind w2, which has gone, comes %s", got)
	}
}

// Types and lanes take their own turns: two types whose items alternate don't each go to
// one worker alone.
func TestEachTypeTakesItsOwnTurns(t *testing.T) {
	list := workers(2, 9)
	for i := range list {
		list[i].Types = []string{"email", "page"}
	}
	s := seated(list...)
	var got []events.WorkerID
	for range 2 {
		got = append(got, order(s, email, events.AssignRoundRobin, 1)[0], order(s, lanes.Key{Type: "page"}, events.AssignRoundRobin, 1)[0])
	}
	if fmt.Sprint(got) != "[w0 w0 w1 w1]" {
		t.Errorf("in order %s", got)
	}
}

// homes returns the worker of each of n tenants while all slots are free.
func homes(s *Seats, by string, n int) (list []events.WorkerID) {
	for i := range n {
		list = append(list, s.Choose(email, by, tenant(i+1)).Worker)
	}
	return list
}

func TestHashesSpread(t *testing.T) {
	const keys, n = 20_000, 10
	count := map[events.WorkerID]int{}
	for _, w := range homes(seated(workers(n, 1)...), events.PerTenant, keys) {
		count[w]++
	}
	share := float64(keys) / n
	for w, got := range count {
		if math.Abs(float64(got)-share) > 5*math.Sqrt(share) {
			t.Errorf("%s has %d of %d keys", w, got, keys)
		}
	}
	if len(count) != n {
		t.Errorf("%d workers have keys", len(count))
	}
}

// A worker that comes takes its share, from all; one that goes, or has no slot free, gives
// its keys to all others. No other key moves.
func TestOnlyItsShareMoves(t *testing.T) {
	const keys, n = 20_000, 10
	for _, by := range []string{events.PerTenant, events.PerLabel + "customer"} {
		s := seated(workers(n, 1)...)
		before := homes(s, by, keys)
		moved := func(after []events.WorkerID, from, to events.WorkerID) {
			t.Helper()
			others, total := map[events.WorkerID]bool{}, 0
			for i := range after {
				if after[i] == before[i] {
					continue
				}
				total++
				switch {
				case before[i] == from:
					others[after[i]] = true
				case after[i] == to:
					others[before[i]] = true
				default:
					t.Fatalf("key %d moved from %s to %s", i, before[i], after[i])
				}
			}
			if total < keys/n/2 || total > 2*keys/n || len(others) < n-1 {
				t.Errorf("%d of %d keys moved, to or from %d workers", total, keys, len(others))
			}
		}
		s.Count("w4", "1", "email", 1)
		moved(homes(s, by, keys), "w4", "")
		s.Count("w4", "1", "email", -1)
		if !slices.Equal(homes(s, by, keys), before) {
			t.Error("a worker that has a slot free again doesn't have its keys again")
		}
		s.Set(workers(n+1, 1), noRuns)
		moved(homes(s, by, keys), "", "w10")
		s.Set(slices.Delete(workers(n, 1), 4, 5), noRuns)
		moved(homes(s, by, keys), "w4", "")
		s.Set(workers(n, 1), noRuns)
		if !slices.Equal(homes(s, by, keys), before) {
			t.Error("a worker that has come back doesn't have its keys again")
		}
	}
}

// Only the workers that serve an item's lane count. As long as one of them has a slot free,
// no item waits.
func TestHashesStayInTheLane(t *testing.T) {
	list := workers(8, 1)
	for i := range 3 {
		list[i*2].Offer = lanes.Offer{"gpu"}
	}
	s, gpu := seated(list...), lanes.Key{Type: "email", Name: "gpu"}
	var got []events.WorkerID
	for range 4 {
		got = append(got, chosen(s, gpu, events.PerTenant, tenant(7)))
	}
	if got[3] != "" {
		t.Errorf("without a slot free it is %s", got[3])
	}
	if slices.Sort(got); fmt.Sprint(got) != "[ w0 w2 w4]" {
		t.Errorf("for gpu it is %s", got)
	}
}

// Items without the label or tenant go to the worker with the most free slots.
func TestNothingToHash(t *testing.T) {
	for _, by := range []string{events.PerTenant, events.PerLabel + "customer", events.PerLabel + "other"} {
		list := workers(3, 1)
		list[1].Slots = 3
		it := tenant(0)
		if by == events.PerLabel+"other" {
			it = tenant(1)
		}
		s := seated(list...)
		if a, b := chosen(s, email, by, it), chosen(s, email, by, it); a != "w1" || b != "w1" {
			t.Errorf("by %s: %s and %s", by, a, b)
		}
	}
}

// The choice of an owner is that of the next one, whatever the order in which it has come to
// know the workers. Weights are part of that: values keep their workers over releases too.
func TestTheChoiceIsTheSameEverywhere(t *testing.T) {
	run := func(seed uint64) (got []events.WorkerID) {
		list := workers(7, 3)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		s := seated(list...)
		for i := range 21 {
			got = append(got, chosen(s, email, ways[i%len(ways)], tenant(i)))
		}
		return got
	}
	want := run(0)
	for seed := range uint64(20) {
		if got := run(seed); !slices.Equal(got, want) {
			t.Fatalf("%s and %s", got, want)
		}
	}
	if got := fmt.Sprint(homes(seated(workers(5, 1)...), events.PerTenant, 8)); got != "[w1 w1 w2 w4 w0 w3 w2 w3]" {
		t.Errorf("the workers of the tenants are %s", got)
	}
}
