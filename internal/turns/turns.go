// Package turns shares the processors of a process out among namespaces. A goroutine that computes
// for one takes a turn, and gives way each [Slice]: a goroutine that has just been woken
// waits for those that run before it, and the runtime lets each of them run for 10 ms.
//
// While more goroutines compute than there are processors, those of the namespace that has had
// most, for its weight, wait for the others: start-time fair queueing (Goyal, Vin and Cheng,
// 1996), with slices for packets. What nobody else wants, any namespace may have.
package turns

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Slice is the time for which a goroutine computes before it gives way.
	Slice = 200 * time.Microsecond
	// maxPark bounds a wait for a turn, so that one who waits with a lock that others want
	// holds them up no longer. Shares whose weights differ by more than maxPark/Slice
	// times are therefore not exact.
	maxPark = 20 * time.Millisecond
	// quiet is the time after which a goroutine that has not been heard of is taken to wait
	// for something else, such as a disk.
	quiet = 5 * time.Millisecond
)

// Machine is processors that are shared. Its methods may be called by any number of
// goroutines.
type Machine struct {
	processors int
	shares     atomic.Int32 // that are not closed

	mu      sync.Mutex
	active  []*Share // with a goroutine that computes or waits for a turn
	parked  []*parked
	virtual float64 // time: what the active share that has had least has had; it never falls
}

// parked is one goroutine that waits for its turn.
type parked struct {
	of    *Share
	woken chan struct{}
}

// NewMachine makes a Machine of processors.
func NewMachine(processors int) *Machine { return &Machine{processors: processors} }

// Share is one namespace's part.
type Share struct {
	machine *Machine

	// guarded by machine.mu
	weight float64
	used   float64   // nanoseconds, divided by the weight
	runs   int       // goroutines that compute
	waits  int       // goroutines that wait for their turn
	heard  time.Time // of one that computes
}

// Share makes a share, until Close. A weight below 1 is 1.
func (m *Machine) Share(weight int) *Share {
	m.shares.Add(1)
	return &Share{machine: m, weight: atLeast1(weight)}
}

// Another makes another share of the same machine.
func (s *Share) Another(weight int) *Share { return s.machine.Share(weight) }

// Close gives the share up: no turn of it begins any more. Call it once.
func (s *Share) Close() { s.machine.shares.Add(-1) }

// alone reports whether there is nobody to share with. Nothing is counted then.
func (s *Share) alone() bool { return s.machine.shares.Load() < 2 }

// SetWeight sets the weight: see [Machine.Share].
func (s *Share) SetWeight(weight int) {
	s.machine.mu.Lock()
	defer s.machine.mu.Unlock()
	s.weight = atLeast1(weight)
}

func atLeast1(weight int) float64 { return float64(max(weight, 1)) }

// Turn is the turn of one goroutine. The zero value gives way, and has no share. It is not
// safe for concurrent use.
type Turn struct {
	share *Share
	since time.Time
	began bool

	looked     time.Time // when Take last looked at the clock
	skip, left uint8     // calls that don't look: between two that do, and before the next
}

// maxSkip bounds the calls of Take in a row that don't look at the clock. A look takes as long
// as what some callers do between two calls.
const maxSkip = 3

// Turn returns a turn; of the nil Share, the zero Turn.
func (s *Share) Turn() Turn { return Turn{share: s} }

// Begin says that the goroutine computes from here on.
func (t *Turn) Begin() {
	if t.began || t.share == nil || t.share.alone() {
		return
	}
	t.began, t.since = true, time.Now()
	t.share.begin(t.since)
}

// End says that it waits for something else from here on, or is done.
func (t *Turn) End() {
	if !t.began {
		return
	}
	t.began = false
	now := time.Now()
	t.share.end(now, now.Sub(t.since))
}

// Take lets others go first if the goroutine has computed for about a Slice since it last did.
// It may be called with locks held that others want: it waits for at most 20 ms.
func (t *Turn) Take() {
	if t.left > 0 {
		t.left--
		return
	}
	now := time.Now()
	switch since := now.Sub(t.looked); {
	case since < Slice/16:
		t.skip = min(2*t.skip+1, maxSkip)
	case since > Slice/4:
		t.skip = 0
	}
	t.looked, t.left = now, t.skip
	took := now.Sub(t.since)
	if took < Slice {
		return
	}
	if !t.began || !t.share.charge(now, took) {
		runtime.Gosched()
	}
	t.since = time.Now()
}

func (s *Share) begin(now time.Time) {
	m := s.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.runs+s.waits == 0 {
		s.used = max(s.used, m.virtual) // what it left while it slept is gone
		m.active = append(m.active, s)
	}
	s.runs++
	s.heard = now
}

func (s *Share) end(now time.Time, took time.Duration) {
	m := s.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	s.use(now, took)
	s.runs--
	s.leave()
	if m.running(now) < m.processors {
		m.wake()
	}
}

// use counts time for which the share's goroutine has computed. REQUIRES: machine.mu.
func (s *Share) use(now time.Time, took time.Duration) {
	s.used += float64(took) / s.weight
	s.heard = now
	least := s.used
	for _, o := range s.machine.active {
		least = min(least, o.used)
	}
	s.machine.virtual = max(s.machine.virtual, least)
}

// leave takes the share off the active ones if it has no goroutine left. REQUIRES: machine.mu.
func (s *Share) leave() {
	if s.runs+s.waits == 0 {
		s.machine.active = slices.DeleteFunc(s.machine.active, func(o *Share) bool { return o == s })
	}
}

// running counts the goroutines that compute. REQUIRES: mu.
func (m *Machine) running(now time.Time) (n int) {
	for _, s := range m.active {
		if now.Sub(s.heard) < quiet {
			n += s.runs
		}
	}
	return n
}

// next returns the one that waits, and whose share has had least. REQUIRES: mu.
func (m *Machine) next() *parked {
	if len(m.parked) == 0 {
		return nil
	}
	return slices.MinFunc(m.parked, func(a, b *parked) int { return cmp.Compare(a.of.used, b.of.used) })
}

// wake ends the wait of the next. REQUIRES: mu.
func (m *Machine) wake() {
	if p := m.next(); p != nil {
		m.unpark(p)
		close(p.woken)
	}
}

// unpark counts one that waited as one that computes. REQUIRES: mu.
func (m *Machine) unpark(p *parked) {
	m.parked = slices.DeleteFunc(m.parked, func(o *parked) bool { return o == p })
	p.of.waits--
	p.of.runs++
	p.of.heard = time.Now()
}

// charge counts a slice, and waits while others go first. It reports whether it has waited.
func (s *Share) charge(now time.Time, took time.Duration) bool {
	m := s.machine
	m.mu.Lock()
	s.use(now, took)
	if !m.othersFirst(s, now) {
		m.mu.Unlock()
		return false
	}
	p := &parked{of: s, woken: make(chan struct{})}
	s.runs--
	s.waits++
	if m.running(now) < m.processors {
		m.wake() // not p, which is not among them yet
	}
	m.parked = append(m.parked, p)
	m.mu.Unlock()
	m.park(p)
	return true
}

// othersFirst reports whether others go before s: those that wait and have had less, or those
// that compute and have had less, if too many compute. REQUIRES: mu.
func (m *Machine) othersFirst(s *Share, now time.Time) bool {
	if p := m.next(); p != nil && p.of.used < s.used {
		return true
	}
	if m.running(now) <= m.processors {
		return false
	}
	return slices.ContainsFunc(m.active, func(o *Share) bool {
		return o != s && o.used < s.used && o.runs > 0 && now.Sub(o.heard) < quiet
	})
}

// park waits until p is woken.
func (m *Machine) park(p *parked) {
	timer := time.NewTimer(maxPark)
	defer timer.Stop()
	select {
	case <-p.woken:
		return
	case <-timer.C:
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-p.woken: // meanwhile
	default:
		m.unpark(p)
	}
}
