package measure

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Tally counts each of n items once, whatever their order, and notes when its handler
// started. Saw and Count are safe for concurrent use.
type Tally struct {
	begun   time.Time
	from    []time.Duration // since begun: when a latency begins to count
	handled []atomic.Int64  // since begun, in ns: the first line of the handler; 0: not yet
	seen    atomic.Int64    // by Count
	left    atomic.Int64
	more    atomic.Int64 // handled again: allowed, where delivery is at least once
	strange atomic.Int64 // never submitted
	all     chan struct{}
}

// NewTally returns a tally of the items from 0 to n-1.
func NewTally(n int) *Tally {
	t := &Tally{begun: time.Now(), from: make([]time.Duration, n), handled: make([]atomic.Int64, n), all: make(chan struct{})}
	t.left.Store(int64(n))
	return t
}

// Saw notes that the handler of an item has started.
func (t *Tally) Saw(seq int) {
	switch {
	case seq < 0 || seq >= len(t.handled):
		t.strange.Add(1)
	case !t.handled[seq].CompareAndSwap(0, max(1, int64(time.Since(t.begun)))):
		t.more.Add(1)
	case t.left.Add(-1) == 0:
		close(t.all)
	}
}

// Count notes an item, whichever it is; those beyond n are ignored.
func (t *Tally) Count() {
	if n := int(t.seen.Add(1)); n <= len(t.handled) {
		t.Saw(n - 1)
	}
}

// From sets the time from which the latency of an item counts.
func (t *Tally) From(seq int, at time.Time) { t.from[seq] = at.Sub(t.begun) }

// More is the number of times that items were handled again.
func (t *Tally) More() float64 { return float64(t.more.Load()) }

// Wait waits until each item has been handled.
func (t *Tally) Wait(ctx context.Context) error {
	select {
	case <-t.all:
	case <-ctx.Done():
		return fmt.Errorf("%d of %d items were never handled: %w", t.left.Load(), len(t.handled), ctx.Err())
	}
	if t.strange.Load() > 0 {
		return errors.New("items were handled that nobody submitted")
	}
	return nil
}

// Late returns the latencies. REQUIRES: Wait has returned nil.
func (t *Tally) Late() []time.Duration {
	late := make([]time.Duration, len(t.handled))
	for i := range late {
		late[i] = time.Duration(t.handled[i].Load()) - t.from[i]
	}
	return late
}
