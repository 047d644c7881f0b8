package workers

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/internal/standing"
	"github.com/streamwright/streamwright/wire"
)

func TestStopCancelsAfterDrainTimeout(t *testing.T) {
	r := newRig(t)
	b := newBlocker()
	w := r.worker(Config{DrainTimeout: time.Millisecond})
	HandleRaw(w, "wait", b.run)
	r.start(w)
	id := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	if err := w.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := recv(t, "the cause", b.cause); !errors.Is(err, ErrShutdown) {
		t.Errorf("cause %v", err)
	}
	if got := r.outcome(id, 1); got.Event != wire.ReportRelease || got.Reason != "shutdown" {
		t.Errorf("got %+v", got)
	}
	r.untilIdle()
}

func TestStopBeforeStart(t *testing.T) {
	r := newRig(t)
	w := r.worker(Config{})
	Handle(w, "add", add)
	if err := w.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := w.Start(t.Context()); !errors.Is(err, ErrNotNew) {
		t.Errorf("got %v", err)
	}
}

func TestDrainByEngine(t *testing.T) {
	for name, ask := range map[string]func(r *rig, w *Worker){
		"control":   func(r *rig, w *Worker) { r.control(w, wire.Control{Drain: true}) },
		"heartbeat": func(r *rig, w *Worker) { r.mu.Lock(); r.beatReply.ShouldDrain = true; r.mu.Unlock() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.beat = standing.MinHeartbeat
			b := newBlocker()
			w := r.worker(Config{Concurrency: 2})
			HandleRaw(w, "wait", b.run)
			ended := make(chan error, 1)
			go func() { ended <- w.Run(context.Background()) }()
			r.until("the registration", func() bool { return len(r.workers) == 1 })
			id := r.submit("wait", `{}`)
			recv(t, "the run", b.begun)
			ask(r, w)
			need.Eventually(t, "the drain", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.phase == phaseDraining })
			if got := r.outcome(r.push(w, "wait"), 1); got.Event != wire.ReportRelease || got.Reason != "draining" {
				t.Errorf("an item that came meanwhile: got %+v", got)
			}
			close(b.release)
			if got := r.outcome(id, 1); got.Event != wire.ReportComplete {
				t.Errorf("got %+v", got)
			}
			if err := recv(t, "Run's end", ended); err != nil {
				t.Error(err)
			}
			if !slices.Contains(r.gone, string(w.ID())) {
				t.Error("not unregistered")
			}
		})
	}
}

// A worker with few slots must not keep from others what it can't run.
func TestItemsFollowFreeSlots(t *testing.T) {
	r := newRig(t)
	slow, quick := newBlocker(), newBlocker()
	one := r.worker(Config{Concurrency: 1})
	HandleRaw(one, "wait", slow.run)
	r.start(one)
	r.submit("wait", `{}`)
	recv(t, "the first run", slow.begun)
	for range 5 {
		r.submit("wait", `{}`)
	}
	two := r.worker(Config{Concurrency: 5})
	HandleRaw(two, "wait", quick.run)
	r.start(two)
	for range 5 {
		recv(t, "a run at the second worker", quick.begun)
	}
	if s := one.Stats(); s.Running != 1 || s.Released != 0 {
		t.Errorf("the full worker: %+v", s)
	}
	close(slow.release)
	close(quick.release)
	r.until("all completed", func() bool {
		for _, it := range r.items {
			if it.state != events.StateCompleted {
				return false
			}
		}
		return true
	})
}

func TestLimitPerType(t *testing.T) {
	r := newRig(t)
	b, free := newBlocker(), newBlocker()
	w := r.worker(Config{Concurrency: 4})
	HandleRaw(w, "narrow", b.run, Limit(1))
	HandleRaw(w, "wide", free.run)
	r.start(w)
	for range 3 {
		r.submit("narrow", `{}`)
	}
	recv(t, "the narrow run", b.begun)
	for range 3 {
		r.submit("wide", `{}`)
	}
	for range 3 {
		recv(t, "a wide run", free.begun)
	}
	if n := w.Stats().Running; n != 4 {
		t.Errorf("%d run", n)
	}
	close(b.release)
	close(free.release)
}

// What a full worker is sent nevertheless goes back at once, and so does what is beyond the
// limit of its type.
func TestNoSlotIsHandedBack(t *testing.T) {
	r := newRig(t)
	b := newBlocker()
	w := r.worker(Config{Concurrency: 2})
	HandleRaw(w, "narrow", b.run, Limit(1))
	HandleRaw(w, "wide", b.run)
	r.start(w)
	for _, typ := range []string{"narrow", "wide"} {
		r.submit(typ, `{}`)
		recv(t, "the run", b.begun)
		if got := r.outcome(r.push(w, "narrow"), 1); got.Event != wire.ReportRelease || got.Reason != "no_slot" {
			t.Errorf("got %+v", got)
		}
	}
	close(b.release)
	r.untilIdle()
}

// A worker that waits for its handlers at Stop makes no offer, and hands back what comes
// nevertheless.
func TestStopTakesNothingMore(t *testing.T) {
	r := newRig(t)
	b := newBlocker()
	w := r.worker(Config{Concurrency: 2})
	HandleRaw(w, "wait", b.run)
	r.start(w)
	first := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop(context.Background()) }()
	r.until("the engine is told", func() bool { n := len(r.beats); return n > 0 && r.beats[n-1].Offers })
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
	if got := r.outcome(first, 1); got.Event != wire.ReportComplete {
		t.Errorf("got %+v", got)
	}
	if err := w.Stop(t.Context()); err != nil {
		t.Errorf("the second Stop: %v", err)
	}
}
