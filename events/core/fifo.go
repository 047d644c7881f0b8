package core

// fifo is a queue in a ring that grows as needed.
type fifo[T any] struct {
	ring []T // its length is a power of two, or 0
	head int
	n    int
}

func (f *fifo[T]) len() int { return f.n }

func (f *fifo[T]) push(v T) {
	if f.n == len(f.ring) {
		f.grow()
	}
	f.ring[(f.head+f.n)&(len(f.ring)-1)] = v
	f.n++
}

func (f *fifo[T]) peek() (v T, ok bool) {
	if f.n == 0 {
		return v, false
	}
	return f.ring[f.head], true
}

func (f *fifo[T]) pop() {
	var zero T
	f.ring[f.head] = zero
	f.head = (f.head + 1) & (len(f.ring) - 1)
	f.n--
}

func (f *fifo[T]) grow() {
	ring := make([]T, max(16, 2*len(f.ring)))
	for i := range f.n {
		ring[i] = f.ring[(f.head+i)&(len(f.ring)-1)]
	}
	f.ring, f.head = ring, 0
}
