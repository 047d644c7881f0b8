package workers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/faultproxy"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

func TestStopCancelsAfterDrainTimeout(t *testing.T) {
	r := newRig(t)
	b := newBlocker()
	w := r.work(workers.Config{DrainTimeout: time.Millisecond}, "wait", b.run)
	id := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	if err := w.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := recv(t, "the cause", b.cause); !errors.Is(err, workers.ErrShutdown) {
		t.Errorf("cause %v", err)
	}
	if got := r.outcome(id, 1); got.Event != wire.ReportRelease || got.Reason != "shutdown" {
		t.Errorf("got %+v", got)
	}
	if it := r.get(id); it.State != events.StateQueued {
		t.Errorf("the item is %s", it.State)
	}
}

func TestDrainByEngine(t *testing.T) {
	for name, ask := range map[string]func(r *rig, w *workers.Worker) error{
		"control": func(r *rig, w *workers.Worker) error { return r.c.Workers().Drain(r.t.Context(), string(w.ID())) },
		"heartbeat": func(r *rig, w *workers.Worker) error {
			r.Judge(wire.APIHeartbeat, func([]byte) faultproxy.Fault { return faultproxy.Reply(`{"should_drain":true}`) })
			r.control(w, wire.Control{Register: true}) // a heartbeat follows
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newOpenRig(t)
			b := newBlocker()
			w := r.worker(workers.Config{Concurrency: 2})
			workers.HandleRaw(w, "wait", b.run)
			ended := make(chan error, 1)
			go func() { ended <- w.Run(context.Background()) }()
			id := r.submit("wait", `{}`)
			recv(t, "the run", b.begun)
			if err := ask(r, w); err != nil {
				t.Error(err)
			}
			need.Eventually(t, "the drain", w.Draining)
			if got := r.outcome(r.push(w, "wait"), 1); got.Event != wire.ReportRelease || got.Reason != "draining" {
				t.Errorf("an item that came meanwhile: got %+v", got)
			}
			close(b.release)
			r.completed(id)
			if err := recv(t, "Run's end", ended); err != nil {
				t.Error(err)
			}
			if left := r.workers(); len(left) != 0 {
				t.Errorf("still registered: %+v", left)
			}
		})
	}
}

// A worker with few slots must not keep from others what it can't run.
func TestItemsFollowFreeSlots(t *testing.T) {
	r := newRig(t)
	slow, quick := newBlocker(), newBlocker()
	one := r.work(workers.Config{Concurrency: 1}, "wait", slow.run)
	ids := []string{r.submit("wait", `{}`)}
	recv(t, "the first run", slow.begun)
	for range 5 {
		ids = append(ids, r.submit("wait", `{}`))
	}
	r.work(workers.Config{Concurrency: 5}, "wait", quick.run)
	for range 5 {
		recv(t, "a run at the second worker", quick.begun)
	}
	if s := one.Stats(); s.Running != 1 || s.Released != 0 {
		t.Errorf("the full worker: %+v", s)
	}
	close(slow.release)
	close(quick.release)
	for _, id := range ids {
		r.completed(id)
	}
}

// What a full worker is sent nevertheless goes back at once, and so does what is beyond the
// limit of its type.
func TestNoSlotIsHandedBack(t *testing.T) {
	t.Parallel()
	r := newOpenRig(t)
	b := newBlocker()
	w := r.worker(workers.Config{Concurrency: 2})
	workers.HandleRaw(w, "narrow", b.run, workers.Limit(1))
	workers.HandleRaw(w, "wide", b.run)
	r.start(w)
	for _, typ := range []string{"narrow", "wide"} {
		r.submit(typ, `{}`)
		recv(t, "the run", b.begun)
		if got := r.outcome(r.push(w, typ), 1); got.Event != wire.ReportRelease || got.Reason != "no_slot" {
			t.Errorf("got %+v", got)
		}
	}
}

// A worker that waits for its handlers at Stop makes no offer, and hands back what comes
// nevertheless.
func TestStopTakesNothingMore(t *testing.T) {
	t.Parallel()
	r := newOpenRig(t)
	b := newBlocker()
	w := r.work(workers.Config{Concurrency: 2}, "wait", b.run)
	first := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop(context.Background()) }()
	need.Eventually(t, "the engine is told", func() bool { return r.lastBeat().Offers })
	if got := r.outcome(r.push(w, "wait"), 1); got.Event != wire.ReportRelease || got.Reason != "shutdown" {
		t.Errorf("got %+v", got)
	}
	select {
	case err := <-stopped:
		t.Fatalf("Stop did not wait for the handler: %v", err)
	default:
	}
	close(b.release)
	if err := recv(t, "Stop", stopped); err != nil {
		t.Error(err)
	}
	r.completed(first)
	if err := w.Stop(t.Context()); err != nil {
		t.Errorf("the second Stop: %v", err)
	}
}

// Stop ends a worker at any moment of its Start: its loops end, and the engine no longer
// knows it.
func TestStopDuringStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	begin := func(when func(stop func())) (err error) {
		w := r.worker(workers.Config{Concurrency: 1, Probe: true})
		defer w.Conn().Close()
		workers.HandleRaw(w, "wait", nothing)
		stopped := make(chan error, 1)
		when(func() { stopped <- w.Stop(context.Background()) })
		err = w.Start(t.Context())
		if !errors.Is(err, workers.ErrStopped) && !errors.Is(err, workers.ErrNotNew) && err != nil {
			t.Errorf("Start: %v", err)
		}
		if err := recv(t, "Stop", stopped); err != nil {
			t.Errorf("Stop: %v", err)
		}
		if !w.Ended() && !errors.Is(err, workers.ErrNotNew) {
			t.Errorf("the loops of the worker go on after Stop; Start returned %v", err)
		}
		if left := r.workers(); len(left) != 0 {
			t.Errorf("the engine knows %+v after Stop; Start returned %v", left, err)
		}
		return err
	}
	if err := begin(func(stop func()) { stop() }); !errors.Is(err, workers.ErrNotNew) {
		t.Errorf("Start after Stop: %v", err)
	}
	for range 300 {
		_ = begin(func(stop func()) { go stop() })
	}
	_ = begin(func(stop func()) {
		r.Judge(wire.APIRegister, func([]byte) (f faultproxy.Fault) { go stop(); return f })
	})
}
