package workers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/faultproxy"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

func TestWorkerStartsBeforeTheEngine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Away()
	w := r.work(workers.Config{}, "add", nothing)
	if w.Stats().Registered {
		t.Fatal("registered with nobody")
	}
	r.Back()
	r.completed(r.submit("add", `{}`))
}

func TestOutcomeReachesAnEngineThatWasAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := newBlocker()
	w := r.work(workers.Config{Concurrency: 2}, "wait", b.run)
	id := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	r.Away()
	close(b.release)
	need.Eventually(t, "the outcome under way", func() bool { return w.Stats().Settling == 1 })
	late := r.submit("wait", `{}`) // its outcome must wait as well
	need.Eventually(t, "both outcomes under way", func() bool { return w.Stats().Settling == 2 })
	r.Back()
	for _, id := range []string{id, late} {
		if it := r.completed(id); it.Attempt != 1 {
			t.Errorf("got %+v", it)
		}
	}
}

// An engine that starts again on its port gets its worker back. If it has its log, it also
// completes what ran meanwhile.
func TestEngineRestarts(t *testing.T) {
	for name, o := range map[string]embedded.Options{"it has its log": {Dir: t.TempDir()}, "it has forgotten everything": {Memory: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.NATSListen = need.Address(t).String()
			r := newRigAs(t, o)
			b := newBlocker()
			w := r.work(workers.Config{Concurrency: 2}, "wait", b.run)
			id := r.submit("wait", `{}`)
			recv(t, "the run", b.begun)
			r.end()
			close(b.release)
			need.Eventually(t, "the outcome under way", func() bool { return w.Stats().Settling == 1 })
			r.begin()
			if o.Memory {
				need.Eventually(t, "the outcome refused", func() bool { return w.Stats().Settling == 0 })
			} else if it := r.completed(id); it.Attempt != 1 {
				t.Errorf("got %+v", it)
			}
			r.completed(r.submit("wait", `{}`))
		})
	}
}

func TestUnknownWorkerRegistersAgain(t *testing.T) {
	r := newRig(t)
	r.work(workers.Config{}, "add", nothing)
	for i, code := range []string{"unknown_worker", "worker_id_in_use"} {
		r.Next(wire.APIReport, faultproxy.Reply(`[{"error":{"code":"`+code+`"}}]`))
		if it := r.completed(r.submit("add", `{}`)); it.Attempt != 1 {
			t.Errorf("%s: got %+v", code, it)
		}
		r.Await(wire.APIRegister, i+2)
	}
}

// The engine hears of a worker by its heartbeat, and asks it to register.
func TestRegistersOnRequest(t *testing.T) {
	r := newRig(t)
	r.Next(wire.APIRegister, faultproxy.Reply(`{"heartbeat_ms":600000}`))
	r.work(workers.Config{}, "add", nothing)
	r.Await(wire.APIRegister, 2)
	r.completed(r.submit("add", `{}`))
}

// Reports that are not answered for good are repeated.
func TestReportsAreRepeated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, f := range map[string]faultproxy.Fault{
		"unavailable": faultproxy.Reply(`[{"error":{"code":"unavailable"}}]`),
		"no owner":    faultproxy.Reply(`[{"error":{"code":"not_owner"}}]`),
		"as a whole":  faultproxy.Refuse(events.Refuse(events.CodeUnavailable, "not now")),
		"too few":     faultproxy.Reply(`[]`),
		"nonsense":    faultproxy.Reply(`what?`),
		"nobody":      faultproxy.Nobody,
	} {
		b := newBlocker()
		w := r.work(workers.Config{}, "wait", b.run)
		had := len(r.Requests(wire.APIReport))
		r.Next(wire.APIReport, f, f)
		id := r.submit("wait", `{}`)
		r.Await(wire.APIReport, had+3) // the start
		r.Next(wire.APIReport, f, f)
		close(b.release)
		if it := r.completed(id); it.Attempt != 1 || len(r.told(id)) != 3 {
			t.Errorf("%s: got %+v after %v", name, it, eventsOf(r.told(id)))
		}
		if err := w.Stop(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWorkerIDInUse(t *testing.T) {
	r := newRig(t)
	one := r.work(workers.Config{ID: "me"}, "add", nothing)
	two := r.worker(workers.Config{ID: "me"})
	workers.HandleRaw(two, "add", nothing)
	if err := two.Start(t.Context()); !errors.Is(err, &events.Error{Code: events.CodeWorkerIDInUse}) {
		t.Errorf("got %v", err)
	}
	if err := two.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := one.Start(t.Context()); !errors.Is(err, workers.ErrNotNew) {
		t.Errorf("got %v", err)
	}
}

// A worker that ends while its engine is away still hands in its last outcome when the engine
// is back in time.
func TestStopWhileTheEngineIsAway(t *testing.T) {
	r := newRig(t)
	b := newBlocker()
	w := r.work(workers.Config{}, "wait", b.run)
	id := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	r.Away()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop(context.Background()) }()
	close(b.release)
	need.Eventually(t, "the outcome under way", func() bool { return w.Stats().Settling == 1 })
	r.Back()
	if err := recv(t, "Stop", stopped); err != nil {
		t.Error(err)
	}
	if it := r.get(id); it.State != events.StateCompleted {
		t.Errorf("got %+v", it)
	}
}

// A handler that does not heed its context is given up, and its item is left
// to its lease.
func TestHandlersThatDoNotEndAreAbandoned(t *testing.T) {
	r := newRig(t)
	begun, end := make(chan struct{}), make(chan struct{})
	settled := make(chan workers.Settled, 1)
	w := r.worker(workers.Config{DrainTimeout: time.Millisecond, Settled: func(s workers.Settled) { settled <- s }})
	w.SetAbandonAfter(time.Millisecond)
	workers.HandleRaw(w, "deaf", func(context.Context, *workers.RawItem) (any, error) {
		close(begun)
		<-end
		return nil, nil
	})
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := r.submit("deaf", `{}`)
	recv(t, "the run", begun)
	need.Eventually(t, "the start", func() bool { return r.get(id).State == events.StateRunning })
	if err := w.Stop(context.Background()); !errors.Is(err, workers.ErrAbandoned) {
		t.Errorf("got %v", err)
	}
	close(end)
	if s := recv(t, "what became of the outcome", settled); !errors.Is(s.Err, workers.ErrAbandoned) {
		t.Errorf("got %+v", s)
	}
	if got := r.told(id); len(got) != 0 {
		t.Errorf("an abandoned run was reported: %+v", got)
	}
	if it := r.get(id); it.State != events.StateRunning {
		t.Errorf("the item is %s", it.State)
	}
}

func TestConnectionClosedEndsRun(t *testing.T) {
	r := newRig(t)
	b := newBlocker()
	w := r.worker(workers.Config{})
	workers.HandleRaw(w, "wait", b.run)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.Background()) }()
	r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	w.Conn().Close()
	if err := recv(t, "the cause", b.cause); !errors.Is(err, workers.ErrLeaseLost) {
		t.Errorf("cause %v", err)
	}
	if err := recv(t, "Run's end", ended); !errors.Is(err, workers.ErrConnectionClosed) {
		t.Errorf("got %v", err)
	}
}
