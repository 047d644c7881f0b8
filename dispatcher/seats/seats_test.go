package seats

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
)

var email = lanes.Key{Type: "email"}

func noRuns(func(events.WorkerID, string, events.Type, int)) {}

func TestTheMostFreeIsChosen(t *testing.T) {
	s := New()
	if s.Free(email) != 0 || s.FreeAll() != 0 || s.Serve(email) || s.Any() {
		t.Fatal("there are seats before there are any")
	}
	s.Set([]Seat{
		{Worker: "a", Inbox: "1", Types: []string{"email"}, Slots: 2},
		{Worker: "b", Inbox: "2", Types: []string{"email", "page"}, Slots: 3, Offer: lanes.Offer{"gpu"}},
	}, noRuns)
	var order []events.WorkerID
	for seat := s.Choose(email, "", nil); seat != nil; seat = s.Choose(email, "", nil) {
		order = append(order, seat.Worker)
		s.Count(seat.Worker, seat.Inbox, "email", 1)
	}
	if got := fmt.Sprint(order); got != "[b a b a b]" {
		t.Errorf("in order %s", got)
	}
	gpu := lanes.Key{Type: "email", Name: "gpu"}
	s.Count("b", "", "email", -1)
	s.Count("a", "", "email", -1)
	if s.Free(gpu) != 1 || s.Free(email) != 2 || s.FreeAll() != 2 || !s.Shared() {
		t.Errorf("%d with gpu, %d in all, %d of all types", s.Free(gpu), s.Free(email), s.FreeAll())
	}
	if seat := s.Choose(gpu, "", nil); seat == nil || seat.Worker != "b" {
		t.Errorf("for gpu it is %+v", seat)
	}
	if s.Count("nobody", "", "email", 1); s.FreeAll() != 2 {
		t.Error("the runs of a worker without a seat count")
	}
}

func TestBoundsOfTypes(t *testing.T) {
	s := New()
	s.Set([]Seat{{Worker: "a", Inbox: "1", Types: []string{"email", "page"}, Slots: 5, Most: map[string]int{"email": 2}}}, noRuns)
	page := lanes.Key{Type: "page"}
	s.Count("a", "", "email", 1)
	s.Count("a", "", "email", 1)
	if s.Free(email) != 0 || s.Free(page) != 3 || s.Choose(email, "", nil) != nil {
		t.Errorf("free for email %d, for page %d", s.Free(email), s.Free(page))
	}
	s.Count("a", "", "email", 1) // an earlier owner's: more than there should be
	if s.Count("a", "", "page", 1); s.Free(email) != 0 || s.Free(page) != 1 {
		t.Errorf("free for email %d, for page %d", s.Free(email), s.Free(page))
	}
}

func TestWorkersRestAndLeave(t *testing.T) {
	s := New()
	one := Seat{Worker: "a", Inbox: "1", Types: []string{"email"}, Slots: 4}
	if left := s.Set([]Seat{one}, noRuns); left != nil {
		t.Errorf("left %v", left)
	}
	s.Rest("a")
	if s.Free(email) != 0 || s.Choose(email, "", nil) != nil || !s.Of("a").Resting() {
		t.Error("a worker that rests is given something")
	}
	runs := func(fn func(events.WorkerID, string, events.Type, int)) {
		fn("a", "", "email", 3)
		fn("x", "", "email", 1)
	}
	if left := s.Set([]Seat{one}, runs); left != nil || s.Free(email) != 0 {
		t.Errorf("the same life: left %v, free %d", left, s.Free(email))
	}
	if !s.Heard("a") || s.Heard("a") || s.Free(email) != 1 {
		t.Errorf("heard of, it has %d free", s.Free(email))
	}
	s.Rest("a")
	one.Inbox = "2"
	if left := s.Set([]Seat{one}, runs); len(left) != 1 || left[0] != "a" || s.Free(email) != 1 {
		t.Errorf("a new life: left %v, free %d", left, s.Free(email))
	}
	if left := s.Set(nil, runs); len(left) != 1 || s.Free(email) != 0 || s.FreeAll() != 0 {
		t.Errorf("gone: left %v", left)
	}
}

// Whatever happens, what is said to be free is what the seats have free.
func TestFreeIsTheSum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	s, runs := New(), map[string]map[string]int{}
	var list []Seat
	types := []string{"email", "page", "sms"}
	sum := func(typ string) (n int) {
		for _, seat := range list {
			w := string(seat.Worker)
			all := runs[w]["email"] + runs[w]["page"] + runs[w]["sms"]
			left := max(seat.Slots-all, 0)
			if most, bound := seat.Most[typ]; bound {
				left = max(min(left, most-runs[w][typ]), 0)
			}
			if s.Of(seat.Worker).Resting() {
				left = 0
			}
			if seat.Types[0] == typ || len(seat.Types) > 1 && seat.Types[1] == typ {
				n += left
			}
		}
		return n
	}
	for range 5000 {
		switch rng.IntN(12) {
		case 0:
			list = nil
			for i := range rng.IntN(5) {
				at := rng.IntN(3)
				list = append(list, Seat{Worker: events.WorkerID(fmt.Sprint("w", i)), Inbox: fmt.Sprint(rng.IntN(3)), Types: []string{types[at], types[(at+1)%3]}, Slots: rng.IntN(5), Most: map[string]int{types[at]: 1 + rng.IntN(3)}})
			}
			s.Set(list, func(fn func(events.WorkerID, string, events.Type, int)) {
				for w, of := range runs {
					for typ, n := range of {
						fn(events.WorkerID(w), "", events.Type(typ), n)
					}
				}
			})
		case 1:
			s.Rest(events.WorkerID(fmt.Sprint("w", rng.IntN(5))))
		case 2:
			s.Heard(events.WorkerID(fmt.Sprint("w", rng.IntN(5))))
		default:
			w, typ, by := fmt.Sprint("w", rng.IntN(5)), types[rng.IntN(3)], 1
			if runs[w] == nil {
				runs[w] = map[string]int{}
			}
			if runs[w][typ] > 0 && rng.IntN(2) == 0 {
				by = -1
			}
			runs[w][typ] += by
			s.Count(events.WorkerID(w), "", events.Type(typ), by)
		}
		for _, typ := range types {
			key := lanes.Key{Type: events.Type(typ)}
			if got, want := s.Free(key), sum(typ); got != want {
				t.Fatalf("%d free for %s, want %d", got, typ, want)
			}
			by := ways[rng.IntN(len(ways))]
			if seat := s.Choose(key, by, tenant(rng.IntN(5))); (seat != nil) != (sum(typ) > 0) || seat != nil && seat.leftOf(typ) == 0 {
				t.Fatalf("%d free for %s, and the choice by %s is %+v", sum(typ), typ, by, seat)
			}
		}
	}
}

func TestFresh(t *testing.T) {
	var f Fresh
	id := func(n byte) events.ID { return events.ID{n} }
	f.Add(id(1), 10)
	f.Add(id(2), 12)
	if got := slices.Collect(f.All()); len(got) != 2 || got[0] != id(1) || f.None() {
		t.Errorf("all: %v", got)
	}
	f.Durable(11)
	if got := slices.Collect(f.All()); len(got) != 1 || got[0] != id(2) {
		t.Errorf("behind 11: %v", got)
	}
	for n := range maxFresh + 1 {
		f.Add(id(3), events.Seq(20+n))
	}
	if f.Whole(20) {
		t.Error("one for which there was no room is passed")
	}
}

// The runs of an earlier life take no slot of the present one; those of which the life is
// not known do.
func TestLivesHaveTheirOwnSlots(t *testing.T) {
	s := New()
	runs := func(fn func(events.WorkerID, string, events.Type, int)) {
		fn("a", "1", "email", 2)
		fn("a", "2", "email", 1)
		fn("a", "", "email", 1)
	}
	s.Set([]Seat{{Worker: "a", Inbox: "2", Types: []string{"email"}, Slots: 4}}, runs)
	if got := s.Free(email); got != 2 {
		t.Errorf("%d free, want 2", got)
	}
	if s.Count("a", "1", "email", -1); s.Free(email) != 2 {
		t.Errorf("%d free after the end of a run of an earlier life", s.Free(email))
	}
	if s.Count("a", "2", "email", -1); s.Free(email) != 3 {
		t.Errorf("%d free after the end of a run", s.Free(email))
	}
}

// A seat that offers takes what it has offered, within its slots; each item uses one.
func TestOffers(t *testing.T) {
	s := New()
	key := lanes.Key{Type: "email"}
	list := []Seat{{Worker: "w", Inbox: "s", Types: []string{"email"}, Slots: 3, Offers: true}}
	none := func(func(events.WorkerID, string, events.Type, int)) {}
	s.Set(list, none)
	want := func(n int) {
		t.Helper()
		if got := s.Free(key); got != n || s.FreeAll() != n {
			t.Fatalf("%d and %d free, want %d", got, s.FreeAll(), n)
		}
	}
	want(0)
	if !s.Offered("w", 2) || s.Offered("w", 2) || s.Offered("other", 2) {
		t.Error("more is offered once")
	}
	want(2)
	s.Use(s.Of("w"))
	s.Count("w", "s", "email", 1)
	want(1)
	s.Count("w", "s", "email", -1) // a slot that is free again is no offer
	want(1)
	s.Set(list, none) // another worker has come, say
	want(1)
	if s.Offered("w", 0) {
		t.Error("less was taken for more")
	}
	want(0)
	s.Offered("w", 9)
	want(3)
	list[0].Inbox = "s2" // a new life has offered nothing
	s.Set(list, none)
	want(0)
}
