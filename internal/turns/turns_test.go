package turns

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// compute takes turns for a while, with a slice of computing between two, and returns how
// many slices it had.
func compute(s *Share, until time.Time) (slices int) {
	t := s.Turn()
	t.Begin()
	defer t.End()
	for time.Now().Before(until) {
		time.Sleep(Slice + 1)
		slices++
		t.Take()
	}
	return slices
}

// shareOut runs goroutines of some shares side by side for a second, and returns how many
// slices each share had.
func shareOut(shares []*Share, goroutines int) []int {
	until := time.Now().Add(time.Second)
	had := make([]int, len(shares))
	var all sync.WaitGroup
	var mu sync.Mutex
	for i, s := range shares {
		for range goroutines {
			all.Go(func() {
				n := compute(s, until)
				mu.Lock()
				defer mu.Unlock()
				had[i] += n
			})
		}
	}
	all.Wait()
	return had
}

func near(got, want int) bool { return got > want*9/10 && got < want*11/10 }

const whole = int(time.Second / (Slice + 1)) // slices of one processor in a second

func TestShares(t *testing.T) {
	for _, test := range []struct {
		name                   string
		processors, goroutines int
		weights, want          []int
	}{
		{"alone it has what there is, and more than the processors if nobody else wants them", 1, 3, []int{1}, []int{3 * whole}},
		{"equal weights", 1, 1, []int{1, 1}, []int{whole / 2, whole / 2}},
		{"equal weights, many goroutines", 2, 4, []int{1, 1, 1, 1}, []int{whole / 2, whole / 2, whole / 2, whole / 2}},
		{"three times the weight", 1, 1, []int{1, 3}, []int{whole / 4, 3 * whole / 4}},
		{"fifty times", 1, 1, []int{1, 50}, []int{whole / 51, 50 * whole / 51}},
		{"enough for both", 2, 1, []int{1, 100}, []int{whole, whole}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := NewMachine(test.processors)
				var shares []*Share
				for _, w := range test.weights {
					shares = append(shares, m.Share(w))
				}
				for i, got := range shareOut(shares, test.goroutines) {
					if !near(got, test.want[i]) {
						t.Errorf("a weight of %d had %d slices, not %d", test.weights[i], got, test.want[i])
					}
				}
				if len(m.active) != 0 || len(m.parked) != 0 {
					t.Errorf("%d active, %d wait", len(m.active), len(m.parked))
				}
			})
		})
	}
}

// What a share did not use while it slept is not paid back, and what it had alone is not
// held against it.
func TestAShareThatSlept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMachine(1)
		a, b := m.Share(1), m.Share(1)
		compute(a, time.Now().Add(10*time.Second))
		for range 2 {
			if had := shareOut([]*Share{a, b}, 1); !near(had[0], whole/2) || !near(had[1], whole/2) {
				t.Error(had)
			}
			time.Sleep(time.Hour)
		}
	})
}

// One who waits for a disk or a lock without a word holds nobody up.
func TestASilentShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMachine(1)
		a, b := m.Share(1), m.Share(1)
		silent := b.Turn()
		silent.Begin()
		if had := compute(a, time.Now().Add(time.Second)); had < whole*95/100 {
			t.Errorf("%d slices of %d", had, whole)
		}
		silent.End()
	})
}

// Whoever is woken while all processors are taken finds one free after a slice.
func TestWokenBesideAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMachine(2)
		flood, quiet := m.Share(1), m.Share(1)
		var all sync.WaitGroup
		until := time.Now().Add(time.Second)
		for range 2 {
			all.Go(func() { compute(flood, until) })
		}
		for range 20 {
			time.Sleep(7 * time.Millisecond)
			turn := quiet.Turn()
			turn.Begin()
			time.Sleep(Slice + 2) // the flood has come to its next turn
			m.mu.Lock()
			runs, waits := flood.runs, flood.waits
			m.mu.Unlock()
			if runs != 1 || waits != 1 {
				t.Errorf("%d of the flood compute, %d wait", runs, waits)
			}
			turn.End()
		}
		all.Wait()
	})
}

// Calls that take long are noticed after a few, also behind many that take no time.
func TestCallsThatBecomeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMachine(2)
		s := m.Share(1)
		m.Share(1) // else nothing is counted
		turn := s.Turn()
		turn.Begin()
		defer turn.End()
		for range 100 {
			turn.Take()
		}
		for range maxSkip + 1 {
			time.Sleep(10 * Slice)
			turn.Take()
		}
		if s.used < float64(10*Slice) {
			t.Errorf("%s are counted", time.Duration(s.used))
		}
		used := s.used
		time.Sleep(2 * Slice)
		if turn.Take(); s.used == used {
			t.Error("the clock is not looked at each time, while calls take long")
		}
	})
}

// Where there is one share, or one is left, nothing is counted.
func TestAlone(t *testing.T) {
	m := NewMachine(1)
	a := m.Share(1)
	begun := func() bool {
		turn := a.Turn()
		turn.Begin()
		defer turn.End()
		return len(m.active) > 0
	}
	if begun() {
		t.Error("a share that is alone is counted")
	}
	b := a.Another(1)
	if !begun() {
		t.Error("one of two is not counted")
	}
	if b.Close(); begun() {
		t.Error("the one that is left is counted")
	}
}

// A turn that has no share gives way, and nothing else.
func TestNoShare(t *testing.T) {
	var none *Share
	for _, turn := range []Turn{{}, none.Turn()} {
		turn.Take()
		turn.Begin()
		turn.Begin()
		turn.Take()
		turn.End()
		turn.End()
	}
}
