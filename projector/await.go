package projector

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/nudge"
)

// ErrClosed is returned by everything after Close.
var ErrClosed = errors.New("the store is closed")

// position is the store's position, with the callers that wait for it to
// advance. Safe for many goroutines.
type position struct {
	mu      sync.Mutex
	at      events.Seq
	closed  bool
	waiters []waiter      // one for each blocked call of await
	awaited chan struct{} // somebody has begun to wait
}

type waiter struct {
	seq events.Seq
	ch  chan struct{}
}

func (p *position) get() events.Seq {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

func (p *position) waited() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiters) > 0
}

// advance moves the position and wakes the goroutines that waited for it.
func (p *position) advance(seq events.Seq) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = seq
	if len(p.waiters) > 0 {
		p.wake(func(w waiter) bool { return w.seq <= seq })
	}
}

func (p *position) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.wake(func(waiter) bool { return true })
}

// wake wakes and forgets some waiters. REQUIRES: p.mu is held.
func (p *position) wake(which func(waiter) bool) {
	p.waiters = slices.DeleteFunc(p.waiters, func(w waiter) bool {
		if which(w) {
			close(w.ch)
			return true
		}
		return false
	})
}

func (p *position) await(ctx context.Context, seq events.Seq) error {
	p.mu.Lock()
	if p.at >= seq || p.closed {
		defer p.mu.Unlock()
		if p.at < seq {
			return ErrClosed
		}
		return nil
	}
	w := waiter{seq, make(chan struct{})}
	p.waiters = append(p.waiters, w)
	p.mu.Unlock()
	nudge.Send(p.awaited)
	select {
	case <-w.ch:
		return p.await(ctx, seq)
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waiters = slices.DeleteFunc(p.waiters, func(o waiter) bool { return o.ch == w.ch })
		return ctx.Err()
	}
}
