package workers

import (
	"errors"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/standing"
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
	r.beat = standing.MinHeartbeat
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
	// What comes now goes back.
	next := r.push(w, "wait")
	if got := r.outcome(next, 1); got.Event != wire.ReportRelease || got.Reason != "replaced" {
		t.Errorf("got %+v", got)
	}

	r.takeID("me", "")
	recv(t, "a run once the id is free", b.begun)
	close(b.release)
	if got := r.outcome(next, 2); got.Event != wire.ReportComplete {
		t.Errorf("got %+v", got)
	}
}

// A start that is refused for the id ends all runs without waiting for a heartbeat.
func TestIDTakenIsToldByAStart(t *testing.T) {
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
		if rep.Event == wire.ReportStart {
			return &wire.Error{Code: events.CodeWorkerIDInUse, Message: "it is another's"}
		}
		return nil
	}
	r.mu.Unlock()
	it := r.add("wait", `{}`)
	second := it.id
	r.mu.Lock()
	r.send(it, w.session.id)
	r.mu.Unlock()
	for _, id := range []string{first, second} {
		if got := r.outcome(id, 1); got.Event != wire.ReportRelease {
			t.Errorf("%s was not handed back: %+v", id, got)
		}
	}
	if err := recv(t, "the cause", b.cause); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("cause %v", err)
	}
	r.untilIdle()
}
