// Package shared answers several who ask the same with one request.
package shared

import (
	"context"
	"sync"
)

// Asker has those share a request that ask while another is under way: it begins when that
// one has ended, so after all of them have asked. The zero value is ready. Any goroutine may
// ask.
type Asker[T any] struct {
	mu   sync.Mutex // guards what follows
	busy bool
	next *answer[T] // of the request that begins when the present one has ended; nil: nobody waits
}

type answer[T any] struct {
	done  chan struct{} // closed when the rest is set
	value T
	err   error
}

// Ask returns the result of a call of fn, or of the fn of another who has asked, that begins
// after Ask. It ends early with ctx, but fn goes on.
func (a *Asker[T]) Ask(ctx context.Context, fn func() (T, error)) (T, error) {
	a.mu.Lock()
	if a.next == nil {
		a.next = &answer[T]{done: make(chan struct{})}
	}
	mine := a.next
	if !a.busy {
		a.busy = true
		go a.run(fn)
	}
	a.mu.Unlock()
	select {
	case <-mine.done:
		return mine.value, mine.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

func (a *Asker[T]) run(fn func() (T, error)) {
	for {
		a.mu.Lock()
		now := a.next
		a.next = nil
		a.busy = now != nil
		a.mu.Unlock()
		if now == nil {
			return
		}
		now.value, now.err = fn()
		close(now.done)
	}
}
