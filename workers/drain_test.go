package workers

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/internal/pull"
	"github.com/streamwright/streamwright/wire"
)

func TestStopHandsBackWhatIsHeld(t *testing.T) {
	r := newRig(t)
	r.lease = 30 * time.Minute // so that nothing is handed back for waiting
	b := newBlocker()
	w := r.worker(Config{Concurrency: 1, Prefetch: 5})
	HandleRaw(w, "wait", b.run)
	w.table.meanRun = 0 // as if handlers had proved short
	r.start(w)
	first := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	var rest []string
	for range 3 {
		rest = append(rest, r.submit("wait", `{}`))
	}
	need.Eventually(t, "items held", func() bool { return w.Stats().Held == 3 })
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop(context.Background()) }()
	for _, id := range rest {
		if got := r.outcome(id, 1); got.Event != wire.ReportRelease {
			t.Errorf("held item: got %+v", got)
		}
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
	r.untilAcked()
	if err := w.Stop(t.Context()); err != nil {
		t.Errorf("the second Stop: %v", err)
	}
}

func TestHeldTooLongIsHandedBack(t *testing.T) {
	slow(t)
	t.Parallel()
	r := newRig(t)
	r.lease = shortLease
	b := newBlocker()
	w := r.worker(Config{Concurrency: 1, Prefetch: 5})
	HandleRaw(w, "wait", b.run)
	w.table.meanRun = 0
	r.start(w)
	r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	waiting := r.submit("wait", `{}`)
	if got := r.outcome(waiting, 1); got.Event != wire.ReportRelease || got.Reason != "no_slot" {
		t.Errorf("got %+v", got)
	}
	close(b.release)
}

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
	r.untilAcked()
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
		"claim": func(r *rig, w *Worker) {
			r.mu.Lock()
			r.refuse = func(rep wire.Report) *wire.Error {
				if rep.Event == wire.ReportClaim {
					return &wire.Error{Code: events.CodeDraining}
				}
				return nil
			}
			r.mu.Unlock()
			r.submit("wait", `{}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.beatMS = pull.MinHeartbeat.Milliseconds()
			b := newBlocker()
			w := r.worker(Config{Concurrency: 2})
			HandleRaw(w, "wait", b.run)
			ended := make(chan error, 1)
			go func() { ended <- w.Run(context.Background()) }()
			r.until("the registration", func() bool { return len(r.workers) == 1 })
			id := r.submit("wait", `{}`)
			recv(t, "the run", b.begun)
			ask(r, w)
			need.Eventually(t, "the drain", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.phase == phaseDraining && w.pulls.closed() })
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
func TestPullsFollowFreeSlots(t *testing.T) {
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
	if s := one.Stats(); s.Running != 1 || s.Held != 0 || s.Released != 0 {
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

// With several types a full worker may be sent one more; it goes back at once.
func TestOverPullIsHandedBack(t *testing.T) {
	r := newRig(t)
	a, b := newBlocker(), newBlocker()
	w := r.worker(Config{Concurrency: 1})
	HandleRaw(w, "a", a.run)
	HandleRaw(w, "b", b.run)
	r.start(w)
	r.submit("a", `{}`)
	recv(t, "the run", a.begun)
	id := r.submit("b", `{}`)
	if got := r.outcome(id, 1); got.Event != wire.ReportRelease {
		t.Errorf("got %+v", got)
	}
	r.redispatch(id)
	close(a.release)
	recv(t, "the second run", b.begun)
	close(b.release)
	r.outcome(id, 2)
}
