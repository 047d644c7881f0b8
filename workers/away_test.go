package workers

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/natscluster"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

func TestWorkerStartsBeforeTheEngine(t *testing.T) {
	r := newRig(t)
	r.away()
	w := r.worker(Config{})
	Handle(w, "add", add)
	r.start(w)
	if w.Stats().Registered {
		t.Fatal("registered with nobody")
	}
	r.back()
	r.until("the registration", func() bool { return len(r.workers) == 1 })
	r.outcome(r.submit("add", `{}`), 1)
}

func TestOutcomeReachesAnEngineThatWasAway(t *testing.T) {
	r := newRig(t)
	b := newBlocker()
	w := r.worker(Config{Concurrency: 2})
	HandleRaw(w, "wait", b.run)
	r.start(w)
	id := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	r.away()
	close(b.release)
	need.Eventually(t, "the outcome under way", func() bool { return w.Stats().Settling == 1 })
	late := r.push(w, "wait") // its outcome must wait as well
	need.Eventually(t, "both outcomes under way", func() bool { return w.Stats().Settling == 2 })
	r.back()
	for _, id := range []string{id, late} {
		if got := r.outcome(id, 1); got.Event != wire.ReportComplete {
			t.Errorf("got %+v", got)
		}
	}
	r.untilIdle()
}

func TestEngineForgotEverything(t *testing.T) {
	r := newRig(t)
	b := newBlocker()
	w := r.worker(Config{Concurrency: 2})
	HandleRaw(w, "wait", b.run)
	r.start(w)
	id := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	r.mu.Lock()
	clear(r.workers)
	r.mu.Unlock()
	r.until("the registration", func() bool { return len(r.workers) == 1 })
	r.outcomeAfter(r.submit("wait", `{}`), b)
	if got := r.outcome(id, 1); got.Event != wire.ReportComplete {
		t.Errorf("got %+v", got)
	}
}

// outcomeAfter waits for a run, releases all, and waits for the outcome.
func (f *fakeEngine) outcomeAfter(id string, b *blocker) {
	f.t.Helper()
	recv(f.t, "the run", b.begun)
	close(b.release)
	f.outcome(id, 1)
}

func TestServerRestartsOnTheSamePort(t *testing.T) {
	slow(t)
	t.Parallel()
	port := need.Address(t).Port
	s := natscluster.Alone(t, port)
	r := &rig{fakeEngine: newFakeEngine(t, s.ClientURL()), t: t, url: s.ClientURL()}
	b := newBlocker()
	w := r.worker(Config{Concurrency: 2})
	HandleRaw(w, "wait", b.run)
	r.start(w)
	id := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	s.Shutdown()
	s.WaitForShutdown()
	close(b.release)
	need.Eventually(t, "the outcome under way", func() bool { return w.Stats().Settling == 1 })
	natscluster.Alone(t, port)
	need.Eventually(t, "the engine's connection", r.nc.IsConnected)
	if got := r.outcome(id, 1); got.Event != wire.ReportComplete {
		t.Errorf("got %+v", got)
	}
	r.outcome(r.submit("wait", `{}`), 1)
	r.untilIdle()
}

func TestUnknownWorkerRegistersAgain(t *testing.T) {
	for _, code := range []events.Code{events.CodeUnknownWorker, events.CodeWorkerIDInUse} {
		t.Run(string(code), func(t *testing.T) { testRegistersAgain(t, code) })
	}
}

func testRegistersAgain(t *testing.T, code events.Code) {
	r := newRig(t)
	var refused atomic.Bool
	w := r.worker(Config{})
	Handle(w, "add", add)
	r.start(w)
	r.mu.Lock()
	clear(r.workers)
	r.refuse = func(rep wire.Report) *wire.Error {
		if r.workers[rep.Worker] == "" {
			refused.Store(true)
			return &wire.Error{Code: code}
		}
		return nil
	}
	r.mu.Unlock()
	r.outcome(r.push(w, "add"), 1)
	if !refused.Load() {
		t.Error("nothing was refused")
	}
}

func TestRegistersOnRequest(t *testing.T) {
	r := newRig(t)
	w := r.worker(Config{})
	Handle(w, "add", add)
	r.start(w)
	r.mu.Lock()
	clear(r.workers)
	r.mu.Unlock()
	r.control(w, wire.Control{Register: true})
	r.until("the registration", func() bool { return len(r.workers) == 1 })
	r.outcome(r.submit("add", `{}`), 1)
}

func TestUnavailableIsAskedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.worker(Config{})
	Handle(w, "add", add)
	refusals := 0
	r.refuse = func(rep wire.Report) *wire.Error {
		if refusals++; refusals <= 3 || rep.Event == wire.ReportComplete && refusals <= 6 {
			return &wire.Error{Code: events.CodeUnavailable}
		}
		return nil
	}
	r.start(w)
	if got := r.outcome(r.submit("add", `{}`), 1); got.Event != wire.ReportComplete {
		t.Errorf("got %+v", got)
	}
	r.untilIdle()
}

func TestWorkerIDInUse(t *testing.T) {
	r := newRig(t)
	one, two := r.worker(Config{ID: "me"}), r.worker(Config{ID: "me"})
	Handle(one, "add", add)
	Handle(two, "add", add)
	r.start(one)
	err := two.Start(t.Context())
	if !errors.Is(err, &events.Error{Code: events.CodeWorkerIDInUse}) {
		t.Errorf("got %v", err)
	}
	if err := two.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := one.Start(t.Context()); !errors.Is(err, ErrNotNew) {
		t.Errorf("got %v", err)
	}
}

// A worker that ends while its engine is away still hands in its last outcome
// when the engine is back in time, one that has lost its registry included.
func TestStopWhileTheEngineIsAway(t *testing.T) {
	r := newRig(t)
	b := newBlocker()
	w := r.worker(Config{})
	HandleRaw(w, "wait", b.run)
	r.start(w)
	id := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	r.away()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop(context.Background()) }()
	close(b.release)
	need.Eventually(t, "the outcome under way", func() bool { return w.Stats().Settling == 1 })
	r.back()
	if err := recv(t, "Stop", stopped); err != nil {
		t.Error(err)
	}
	if got := r.outcome(id, 1); got.Event != wire.ReportComplete {
		t.Errorf("got %+v", got)
	}
}

// A handler that does not heed its context is given up, and its item is left
// to its lease.
func TestHandlersThatDoNotEndAreAbandoned(t *testing.T) {
	r := newRig(t)
	begun, end := make(chan struct{}), make(chan struct{})
	w := r.worker(Config{DrainTimeout: time.Millisecond})
	w.abandonAfter = time.Millisecond
	HandleRaw(w, "deaf", func(context.Context, *RawItem) (any, error) {
		close(begun)
		<-end
		return nil, nil
	})
	r.start(w)
	id := r.submit("deaf", `{}`)
	recv(t, "the run", begun)
	if err := w.Stop(context.Background()); !errors.Is(err, ErrAbandoned) {
		t.Errorf("got %v", err)
	}
	close(end)
	w.handlers.Wait()
	if n := len(r.item(id).reports); n != 0 {
		t.Errorf("%d reports of an abandoned run", n)
	}
}

func TestConnectionClosedEndsRun(t *testing.T) {
	r := newRig(t)
	b := newBlocker()
	w := r.worker(Config{})
	HandleRaw(w, "wait", b.run)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.Background()) }()
	r.until("the registration", func() bool { return len(r.workers) == 1 })
	r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	w.nc.Close()
	if err := recv(t, "the cause", b.cause); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("cause %v", err)
	}
	if err := recv(t, "Run's end", ended); !errors.Is(err, ErrConnectionClosed) {
		t.Errorf("got %v", err)
	}
}
