package workers

import (
	"errors"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/internal/pull"
	"github.com/streamwright/streamwright/wire"
)

// takeID has another session take a worker's id, or gives the id free again.
func (f *fakeEngine) takeID(id, session string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if session == "" {
		delete(f.workers, id)
	} else {
		f.workers[id] = session
	}
	f.signal()
}

// A worker whose id was taken by another stops what it runs at once, hands it
// back, and takes nothing more until the other one has left.
func TestIDTakenStopsRuns(t *testing.T) {
	slow(t)
	t.Parallel()
	r := newRig(t)
	r.beatMS = pull.MinHeartbeat.Milliseconds()
	r.putsBack = true
	b := newBlocker()
	w := r.worker(Config{ID: "me", Concurrency: 2})
	HandleRaw(w, "wait", b.run)
	r.start(w)
	id := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	r.takeID("me", "another")
	if err := recv(t, "the cause", b.cause); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("cause %v", err)
	}
	if got := r.outcome(id, 1); got.Event != wire.ReportRelease {
		t.Errorf("the run was not handed back: %+v", got)
	}
	need.Eventually(t, "the lanes closed", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.pulls.closed()
	})
	// What comes now is another's.
	next := r.submit("wait", `{}`)
	if got := r.item(next); got.state != events.StateQueued {
		t.Errorf("it runs %+v", got)
	}

	r.takeID("me", "")
	if got := recv(t, "a run once the id is free", b.begun); got.String() != next {
		t.Errorf("it runs %s, want %s", got, next)
	}
	close(b.release)
	if got := r.outcome(next, 1); got.Event != wire.ReportComplete {
		t.Errorf("got %+v", got)
	}
}

// A claim that is refused for the id is handed back at once, and its refusal ends
// the other runs without waiting for a heartbeat.
func TestIDTakenIsToldByAClaim(t *testing.T) {
	r := newRig(t)
	b := newBlocker()
	w := r.worker(Config{ID: "me", Concurrency: 2})
	HandleRaw(w, "wait", b.run)
	r.start(w)
	first := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	r.mu.Lock()
	r.workers["me"] = "another"
	r.refuse = func(rep wire.Report) *wire.Error {
		if rep.Event == wire.ReportClaim {
			return &wire.Error{Code: events.CodeWorkerIDInUse, Message: "it is another's"}
		}
		return nil
	}
	r.mu.Unlock()
	second := r.submit("wait", `{}`)
	for _, id := range []string{first, second} {
		if got := r.outcome(id, 1); got.Event != wire.ReportRelease {
			t.Errorf("%s was not handed back: %+v", id, got)
		}
	}
	if err := recv(t, "the cause", b.cause); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("cause %v", err)
	}
	r.untilAcked()
}
