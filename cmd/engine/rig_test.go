package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/faultproxy"
	"github.com/streamwright/streamwright/workers"
)

// rig is an engine in memory, and in front of it what forges its replies. NATS_URL leads
// there.
type rig struct {
	*faultproxy.Proxy
	t      *testing.T
	engine *embedded.Engine
}

func start(t *testing.T) *rig {
	t.Helper()
	e, err := embedded.Start(t.Context(), embedded.Options{Memory: true, NATSListen: "127.0.0.1:0", HTTP: config.Off})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r := &rig{faultproxy.New(t, e.URL()), t, e}
	t.Setenv("NATS_URL", r.URL)
	return r
}

// work runs a worker with the handler of a type until the test ends.
func (r *rig) work(id, typ string, h workers.Handler) {
	r.t.Helper()
	nc, err := r.engine.Connect()
	if err != nil {
		r.t.Fatal(err)
	}
	w, err := workers.New(nc, workers.Config{ID: events.WorkerID(id), Concurrency: 4, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		r.t.Fatal(err)
	}
	workers.HandleRaw(w, typ, h)
	if err := w.Start(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := w.Stop(ctx); err != nil {
			r.t.Error(err)
		}
		nc.Close()
	})
}

// returns is a handler that returns this at once.
func returns(result any, err error) workers.Handler {
	return func(context.Context, *workers.RawItem) (any, error) { return result, err }
}

// fails is a handler that fails for good.
func fails(code, text string) workers.Handler {
	return returns(nil, workers.Permanent(workers.WithCode(errors.New(text), code)))
}

// blocks runs a worker with a handler that lasts until it is cancelled or the test ends, and
// awaits its first run.
func (r *rig) blocks(id, typ string) {
	r.t.Helper()
	began, ended := make(chan struct{}, 8), make(chan struct{})
	r.work(id, typ, func(ctx context.Context, _ *workers.RawItem) (any, error) {
		began <- struct{}{}
		select {
		case <-ended:
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	})
	r.t.Cleanup(func() { close(ended) })
	select {
	case <-began:
	case <-time.After(2 * time.Minute):
		r.t.Fatal("nothing runs")
	}
}
