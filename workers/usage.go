package workers

import (
	"sync"
	"time"
)

// Usage is what a run uses outside the worker's own process, such as a child
// process and its descendants.
type Usage struct {
	Memory uint64        // bytes of the system's memory that it holds now
	CPU    time.Duration // processor time that it has used since it began; does not shrink
}

// Measure has the worker's heartbeats count what read returns, until done is called,
// which reads once more. read may be called from another goroutine, one call at a
// time, and must be quick.
func (it *RawItem) Measure(read func() Usage) (done func()) {
	if it.OnMeasure == nil {
		return func() {}
	}
	return it.OnMeasure(read)
}

// outside counts what runs use outside this process.
type outside struct {
	mu    sync.Mutex                 // guards what follows, and calls of the meters
	live  map[*func() Usage]struct{} // of the runs that measure; bounded by those
	ended time.Duration              // CPU of those that have ended
}

func (o *outside) measure(read func() Usage) (done func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.live == nil {
		o.live = map[*func() Usage]struct{}{}
	}
	key := &read
	o.live[key] = struct{}{}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if _, ok := o.live[key]; ok {
			delete(o.live, key)
			o.ended += read().CPU
		}
	}
}

// total is what all runs hold now and have used so far.
func (o *outside) total() (sum Usage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	sum.CPU = o.ended
	for read := range o.live {
		u := (*read)()
		sum.Memory += u.Memory
		sum.CPU += u.CPU
	}
	return sum
}
