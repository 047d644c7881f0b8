package workers

import (
	"context"
	"errors"
	"testing"

	"github.com/streamwright/streamwright/wire"
)

// A Stop at any moment of a Start ends the worker: the engine knows of none afterwards, and
// no loop of it goes on.
func TestStopDuringStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var during func() // called in the middle of the registration
	r.onRegister = func(wire.Register) *wire.Error {
		if during != nil {
			during()
		}
		return nil
	}
	begin := func(when func(stop func())) {
		w := r.worker(Config{Concurrency: 1, Probe: true})
		HandleRaw(w, "wait", func(context.Context, *RawItem) (any, error) { return nil, nil })
		stopped := make(chan error, 1)
		stop := func() { go func() { stopped <- w.Stop(context.Background()) }() }
		when(stop)
		err := w.Start(t.Context())
		if !errors.Is(err, ErrStopped) && !errors.Is(err, ErrNotNew) && err != nil {
			t.Errorf("Start: %v", err)
		}
		if err := recv(t, "Stop", stopped); err != nil {
			t.Errorf("Stop: %v", err)
		}
		select {
		case <-w.life.Done():
		default:
			if !errors.Is(err, ErrNotNew) {
				t.Errorf("the loops of the worker go on after Stop; Start returned %v", err)
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if n := len(r.workers); n != 0 {
			t.Errorf("the engine knows %d workers after Stop; Start returned %v", n, err)
			clear(r.workers)
		}
	}
	for range 300 {
		begin(func(stop func()) { stop() })
	}
	begin(func(stop func()) {
		during = func() { during = nil; stop() }
	})
}
