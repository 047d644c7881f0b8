package figures

import "time"

// window counts what happens, in steps of time, and forgets what is older than its
// last step. The zero window counts nothing: see newWindow.
type window struct {
	step  int64 // seconds
	steps []step
}

// step is one step of a window: at is its number since 1970.
type step struct{ at, n int64 }

// newWindow returns a window over a time, in steps of another.
func newWindow(over, each time.Duration) window {
	return window{step: int64(each / time.Second), steps: make([]step, over/each+1)}
}

// add counts something that happened at a time; what is older than the window is
// left out.
func (w *window) add(at time.Time) {
	n := at.Unix() / w.step
	s := &w.steps[uint64(n)%uint64(len(w.steps))]
	switch {
	case s.at > n:
		return
	case s.at < n:
		*s = step{at: n}
	}
	s.n++
}

// since returns how much has happened within a time before now, right to a step.
func (w *window) since(now time.Time, over time.Duration) (sum int64) {
	from := (now.Unix() - int64(over/time.Second)) / w.step
	for _, s := range w.steps {
		if s.at > from {
			sum += s.n
		}
	}
	return sum
}
