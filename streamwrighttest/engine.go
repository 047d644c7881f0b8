package streamwrighttest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/workers"
)

const (
	// patience bounds Drain's wait for something to happen while items are due.
	patience = 30 * time.Second
	// look is the time between two looks at what is left.
	look = 2 * time.Millisecond
)

// Engine is an engine in memory for one test. Its methods fail that test, and are
// to be called from its goroutine.
type Engine struct {
	t        testing.TB
	engine   *embedded.Engine
	client   *streamwright.Client
	handlers []func(*workers.Worker)
}

// New starts an engine, which ends with the test. The functions register the
// handlers of what [Engine.Drain] runs; each Drain calls them with a worker of its
// own.
func New(t testing.TB, handlers ...func(*workers.Worker)) *Engine {
	t.Helper()
	o := embedded.Options{Memory: true}
	o.Config.Server.MaxClockJump = -1 // Advance goes as far as it likes
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e, err := embedded.Start(ctx, o)
	if err != nil {
		t.Fatalf("start an engine: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			t.Errorf("stop the engine: %v", err)
		}
	})
	c, err := e.Client(ctx)
	if err != nil {
		t.Fatalf("connect to the engine: %v", err)
	}
	t.Cleanup(c.Close)
	return &Engine{t: t, engine: e, client: c, handlers: handlers}
}

// Client returns the client to give to the code under test. It is closed with the
// test.
func (e *Engine) Client() *streamwright.Client { return e.client }

// Now returns the engine's time, which [Engine.Advance] moves.
func (e *Engine) Now() time.Time { return e.engine.Now() }

// Advance moves the engine's time ahead by d, as after a pause of the whole
// machine: what is due by then becomes due, ready for [Engine.Drain]. A schedule
// makes up for the ticks that it has missed as its settings say. Timeouts of
// running handlers keep real time.
func (e *Engine) Advance(d time.Duration) {
	e.t.Helper()
	if err := e.engine.Advance(e.t.Context(), d); err != nil {
		e.t.Fatalf("%v", err)
	}
}

// Drain runs the items that are due, and the items that result from them, one at a time
// until none is left, and returns the number of runs. Items that are due later stay: see
// [Engine.Advance]. So do items of types without a handler. A failed run does not fail
// the test; look at the item, or at what the handler has done.
//
// The test fails if an item is due but the engine holds it back, for instance
// since its type is paused; the message says why.
func (e *Engine) Drain() (runs int) {
	e.t.Helper()
	ctx := e.t.Context()
	w, ran := e.worker()
	if err := w.Start(ctx); err != nil {
		e.t.Fatalf("drain: %v", err)
	}
	defer func() {
		if err := w.Stop(context.WithoutCancel(ctx)); err != nil {
			e.t.Errorf("drain: %v", err)
		}
	}()
	types := w.Types()
	var last state
	since := time.Now()
	for quiet := 0; quiet < 2; {
		now := e.look(ctx, w, types)
		switch {
		case now != last:
			last, since, quiet = now, time.Now(), 0
		case now.pending == "":
			quiet++ // the second time, nothing was under way the first time
		case time.Since(since) > patience:
			e.t.Fatalf("drain: nothing has happened for %s, with an item left: %s", patience, e.why(ctx, now.pending))
		}
		if err := sleep.For(ctx, look); err != nil {
			e.t.Fatalf("drain: %v", err)
		}
	}
	return int(ran.Load())
}

// worker makes a worker with all handlers, and a count of its runs.
func (e *Engine) worker() (*workers.Worker, *atomic.Int64) {
	e.t.Helper()
	w, err := streamwright.NewWorker(e.client, workers.Config{Concurrency: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		e.t.Fatalf("drain: %v", err)
	}
	var ran atomic.Int64
	w.Use(func(next workers.Handler) workers.Handler {
		return func(ctx context.Context, item *workers.RawItem) (any, error) {
			ran.Add(1)
			return next(ctx, item)
		}
	})
	for _, register := range e.handlers {
		register(w)
	}
	return w, &ran
}

// state is a snapshot that Drain takes of the engine.
type state struct {
	position string
	stats    workers.Stats
	pending  string // an item that is due or running; empty: none
}

// look sees everything that the engine has decided so far.
func (e *Engine) look(ctx context.Context, w *workers.Worker, types []events.Type) (s state) {
	e.t.Helper()
	s.stats = w.Stats()
	e.sync(ctx)
	s.position = string(e.client.Position())
	now := e.Now()
	for _, st := range []events.ItemState{events.StateRunning, events.StateClaimed, events.StateQueued, events.StateFailed, events.StateWaiting} {
		for it, err := range e.client.All(ctx, streamwright.Filter{State: st.String()}) {
			if err != nil {
				e.t.Fatalf("look at the %s items: %v", st, err)
			}
			if slices.Contains(types, events.Type(it.Type)) && goesOn(&it, now) {
				s.pending = it.ID
				return s
			}
		}
	}
	if st := s.stats; s.pending == "" && st.Running+st.Settling > 0 {
		s.pending = "of the worker's"
	}
	return s
}

// goesOn reports whether something is to happen to an item at once.
func goesOn(it *streamwright.WorkItem, now time.Time) bool {
	switch it.State {
	case events.StateQueued, events.StateFailed:
		return !it.AvailableAt.After(now)
	case events.StateWaiting:
		return it.Batch == nil && it.WaitsLeft == 0 && it.Children != nil && it.Children.Live == 0
	}
	return true
}

// sync has the client's queries see all that the engine has decided.
func (e *Engine) sync(ctx context.Context) {
	e.t.Helper()
	info, err := e.client.Engine().Info(ctx)
	if err != nil {
		e.t.Fatalf("ask the engine how far it is: %v", err)
	}
	e.client.ObservePosition(info.Position)
}

// why explains what keeps an item from running.
func (e *Engine) why(ctx context.Context, id string) string {
	why, err := e.client.Why(ctx, id)
	if err != nil {
		return id
	}
	var reasons []string
	for _, r := range why.Reasons {
		reasons = append(reasons, fmt.Sprintf("%s (%s)", r.Message, r.Code))
	}
	return fmt.Sprintf("%s is %s: %s", id, why.State, strings.Join(reasons, "; "))
}
