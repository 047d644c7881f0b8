package workers

import (
	"sync"
	"time"
)

const (
	// shareEvery is the least time between two divisions of slots.
	shareEvery = 250 * time.Millisecond
	// maxHeld is how long an item waits in this process for a slot before it is handed back.
	maxHeld = time.Second
)

// slots are the slots of a process, shared by the workers of its namespaces. No more runs
// than there are slots go on at once, whatever the engines send.
//
// Each worker offers its engine a share of the slots. While no worker uses its whole share,
// each offers all that are free. Once one does, they are divided anew: what a worker
// doesn't use goes to those that could use more, in equal parts. A worker that doesn't use
// its share keeps one offer open, even if no slot is free, so that it hears of an item; such
// an item is held until a slot is free. An item that is held for longer than maxHeld goes
// back, and its worker makes no offer until a slot is free for it.
type slots struct {
	size int

	mu    sync.Mutex // taken after a Worker's, never before; guards what follows, and the shares
	of    []*share
	line  []*share // who waits for a slot, an entry for each item, oldest first
	turn  int      // who comes first when there are fewer slots than workers that want one
	timer *time.Timer
	ended bool
}

// share is one worker's part of the slots.
type share struct {
	all  *slots
	wake func() // has the worker use its grants; must not block
	tell func() // has the worker tell its engine what it offers; may lock the worker

	busy    int // slots that it has, with grants
	held    int // items that wait for one
	peak    int // the most of both since the last division
	offered int // what its engine is told; 0: no offer
	grants  int // slots given to items that wait, and not used yet
}

// add adds a worker, before any of them takes a slot.
func (p *slots) add(wake, tell func()) *share {
	s := &share{all: p, wake: wake, tell: tell}
	p.of = append(p.of, s)
	for _, s := range p.of {
		s.offered = max(p.size/len(p.of), 1)
	}
	return s
}

// alone reports whether there is one worker, to which all slots belong: its engine then
// keeps count of them.
func (p *slots) alone() bool { return len(p.of) == 1 }

// free returns how many slots nobody has. REQUIRES: mu.
func (p *slots) free() int {
	n := p.size
	for _, s := range p.of {
		n -= s.busy
	}
	return n
}

// offer returns how many slots the worker offers its engine; 0: none.
func (s *share) offer() int {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	return s.offered
}

// take takes a slot for an item, or has the item wait: the worker is woken when there is a
// grant for it.
func (s *share) take() bool {
	p := s.all
	if p.alone() {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ok := p.free() > 0
	if ok {
		s.busy++
	} else {
		s.held++
		p.line = append(p.line, s)
	}
	s.peak = max(s.peak, s.busy+s.held)
	if !ok || s.full() {
		p.divideSoon()
	}
	return ok
}

// give gives a slot back. It goes to the item that has waited the longest.
func (s *share) give() {
	p := s.all
	if p.alone() {
		return
	}
	p.mu.Lock()
	s.busy--
	var next *share
	if len(p.line) > 0 {
		next, p.line = p.line[0], p.line[1:]
		next.held--
		next.busy++
		next.grants++
	}
	p.mu.Unlock()
	if next != nil {
		next.wake()
	}
}

// granted returns the slots that were given to items of this worker since the last call.
func (s *share) granted() (n int) {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	n, s.grants = s.grants, 0
	return n
}

// leave takes an item out of the line. It reports false if the item has been granted a slot
// meanwhile, which the worker must then give back: see granted.
func (s *share) leave() bool {
	p := s.all
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.line) - 1; i >= 0; i-- {
		if p.line[i] == s {
			p.line = append(p.line[:i], p.line[i+1:]...)
			s.held--
			return true
		}
	}
	return false
}

// pass notes that an item has gone back since no slot came free: the worker makes no offer
// until one does. It reports whether it made one.
func (s *share) pass() (changed bool) {
	p := s.all
	p.mu.Lock()
	defer p.mu.Unlock()
	changed, s.offered = s.offered > 0, 0
	p.divideSoon()
	return changed
}

// full reports whether the worker could use more than it offers, as far as is known.
// REQUIRES: mu.
func (s *share) full() bool { return s.held > 0 || s.peak >= s.offered }

// divideSoon divides the slots anew, in a moment. REQUIRES: mu.
func (p *slots) divideSoon() {
	if p.timer == nil && !p.ended {
		p.timer = time.AfterFunc(shareEvery, p.divide)
	}
}

// divide divides the slots, and goes on to do so while a worker wants more than it has.
func (p *slots) divide() {
	p.mu.Lock()
	p.timer = nil
	again, changed := false, []*share{}
	for i, n := range p.parts() {
		s := p.of[i]
		again = again || s.full() || s.offered != n
		if s.offered != n {
			s.offered = n
			changed = append(changed, s)
		}
		s.peak = s.busy + s.held
	}
	p.turn++
	if again {
		p.divideSoon()
	}
	p.mu.Unlock()
	for _, s := range changed {
		s.tell()
	}
}

// parts returns how many slots each worker is to offer. REQUIRES: mu.
func (p *slots) parts() []int {
	want := make([]int, len(p.of))
	for i, s := range p.of {
		if want[i] = s.peak; s.full() {
			want[i] = p.size
		}
	}
	parts, free := fairParts(p.size, want, p.turn), p.free()
	left := p.size
	for _, n := range parts {
		left -= n
	}
	for i, s := range p.of {
		parts[i] = min(parts[i]+left, s.busy+free)
		if !s.full() {
			parts[i] = min(max(parts[i], s.busy+1), p.size)
		}
	}
	return parts
}

// fairParts divides n among those who want some: no one gets more than it wants, and who
// doesn't get what it wants gets no less than any other, but for one. If there are more of
// them than n, those whose turn it is get one each.
func fairParts(n int, want []int, turn int) []int {
	parts := make([]int, len(want))
	some := 0
	for _, w := range want {
		if w > 0 {
			some++
		}
	}
	if some <= n {
		turn = 0
	}
	for gave := true; gave && n > 0; {
		gave = false
		for i := range want {
			if i := (i + turn) % len(want); parts[i] < want[i] && n > 0 {
				parts[i]++
				n--
				gave = true
			}
		}
	}
	return parts
}

// end ends the divisions.
func (p *slots) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
	}
}
