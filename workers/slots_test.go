package workers

import (
	"fmt"
	"testing"
)

func TestFairParts(t *testing.T) {
	for _, c := range []struct {
		n    int
		want []int
		turn int
		is   string
	}{
		{8, []int{0, 0}, 0, "[0 0]"},
		{8, []int{3, 0}, 0, "[3 0]"},
		{8, []int{8, 8}, 0, "[4 4]"},
		{8, []int{2, 8}, 0, "[2 6]"},
		{8, []int{8, 8, 8}, 5, "[3 3 2]"}, // turns don't matter
		{8, []int{8, 1, 8}, 0, "[4 1 3]"},
		{2, []int{2, 2, 0, 2}, 0, "[1 1 0 0]"},
		{2, []int{2, 2, 0, 2}, 1, "[0 1 0 1]"},
		{2, []int{2, 2, 0, 2}, 3, "[1 0 0 1]"},
	} {
		if got := fmt.Sprint(fairParts(c.n, c.want, c.turn)); got != c.is {
			t.Errorf("%d among %v in turn %d: %s, want %s", c.n, c.want, c.turn, got, c.is)
		}
	}
}

// offers divides the slots anew and returns what each worker offers.
func (p *slots) offers() string {
	p.divide()
	var list []int
	for _, s := range p.of {
		list = append(list, s.offer())
	}
	return fmt.Sprint(list)
}

func takes(t *testing.T, s *share, n int, ok bool) {
	t.Helper()
	for range n {
		if s.take() != ok {
			t.Fatalf("take returned %v", !ok)
		}
	}
}

func newSlots(t *testing.T, size, workers int) (*slots, []*share, []int) {
	p, woken := &slots{size: size}, make([]int, workers)
	for i := range workers {
		p.add(func() { woken[i]++ }, func() {})
	}
	t.Cleanup(p.end)
	return p, p.of, woken
}

func TestSlotsAreDivided(t *testing.T) {
	p, of, woken := newSlots(t, 8, 2)
	a, b := of[0], of[1]
	want := func(offers string) {
		t.Helper()
		if got := p.offers(); got != offers {
			t.Errorf("the workers offer %s, want %s", got, offers)
		}
	}
	want("[8 8]") // nobody has anything
	takes(t, a, 8, true)
	want("[8 1]") // b hears of an item
	takes(t, b, 1, false)
	want("[4 0]") // no slot is free; a is to give up four
	a.give()
	if woken[1] != 1 || b.granted() != 1 {
		t.Errorf("b was woken %d times", woken[1])
	}
	want("[4 1]")
	a.give()
	want("[4 2]")
	takes(t, b, 1, true)
	a.give()
	a.give()
	want("[4 4]")
	takes(t, b, 2, true)
	want("[4 4]")
	for range 4 {
		b.give()
	}
	want("[4 4]") // it has used all a moment ago
	want("[8 1]") // a may use what b doesn't
	takes(t, a, 4, true)
	want("[8 1]")
	for range 8 {
		a.give()
	}
	want("[8 1]")
	want("[8 8]")
	if p.free() != 8 {
		t.Errorf("%d slots are free", p.free())
	}
}

// An item that goes back takes the offer with it, until a slot is free.
func TestNoSlotNoOffer(t *testing.T) {
	p, of, woken := newSlots(t, 1, 2)
	a, b := of[0], of[1]
	takes(t, a, 1, true)
	takes(t, b, 2, false)
	left := []bool{b.leave(), b.leave(), b.leave()}
	if !left[0] || !left[1] || left[2] || !b.pass() || b.pass() || b.offer() != 0 {
		t.Error("the item has not left the line")
	}
	if got := p.offers(); got[3:] != "0]" {
		t.Errorf("without a slot the workers offer %s", got)
	}
	a.give()
	if woken[1] != 0 || p.free() != 1 {
		t.Error("who has left was granted a slot")
	}
	for range 2 {
		p.offers()
	}
	if b.offer() != 1 {
		t.Error("b doesn't offer the slot that is free")
	}
}

// With fewer slots than workers that want one, each gets its turn.
func TestTurns(t *testing.T) {
	p, of, _ := newSlots(t, 1, 3)
	var runs [3]int
	busy := -1
	for range 30 {
		for i, s := range of { // each has a backlog
			if s.offer() > 0 && s.busy+s.held == 0 && s.take() {
				busy = i
			}
		}
		for i, s := range of {
			if s.granted() > 0 {
				busy = i
			}
		}
		if busy >= 0 {
			runs[busy]++
			of[busy].give()
			busy = -1
		}
		p.divide()
	}
	for i, n := range runs {
		if n < 5 {
			t.Errorf("worker %d has run %d items", i, n)
		}
	}
}
