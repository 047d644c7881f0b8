package workers_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/faultproxy"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// takeID answers a worker, while it returns true, as if its id were another's.
func (r *rig) takeID(endpoints ...string) *atomic.Bool {
	taken := new(atomic.Bool)
	for _, endpoint := range endpoints {
		r.Judge(endpoint, func([]byte) (f faultproxy.Fault) {
			if taken.Load() {
				f = faultproxy.Refuse(events.Refuse(events.CodeWorkerIDInUse, "it is another's"))
			}
			return f
		})
	}
	return taken
}

// A worker whose id was taken by another stops what it runs at once, hands it
// back, and takes nothing more until the other one has left.
func TestIDTakenStopsRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t, often)
	taken := r.takeID(wire.APIRegister, wire.APIHeartbeat)
	b := newBlocker()
	r.work(workers.Config{ID: "me"}, "wait", b.run)
	id := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	need.Eventually(t, "the start", func() bool { return r.get(id).State == events.StateRunning }) // else it goes back, and rests
	taken.Store(true)
	if err := recv(t, "the cause", b.cause); !errors.Is(err, workers.ErrLeaseLost) {
		t.Errorf("cause %v", err)
	}
	// The engine sends it again.
	for i, reason := range []string{"lease_lost", "replaced"} {
		if got := r.outcome(id, i+1); got.Event != wire.ReportRelease || got.Reason != reason {
			t.Errorf("the run was not handed back: %+v", got)
		}
	}
	taken.Store(false)
	recv(t, "a run once the id is free", b.begun)
	close(b.release)
	r.completed(id)
}

// A start that is refused for the id ends all runs without waiting for a heartbeat.
func TestIDTakenIsToldByAStart(t *testing.T) {
	r := newRig(t)
	taken := r.takeID(wire.APIRegister)
	r.refuse(func(rep *wire.Report) (no *wire.Reported) {
		if taken.Load() && rep.Event == wire.ReportStart {
			no = refused(events.CodeWorkerIDInUse)
		}
		return no
	})
	b := newBlocker()
	r.work(workers.Config{ID: "me", Concurrency: 2}, "wait", b.run)
	first := r.submit("wait", `{}`)
	need.Eventually(t, "the start", func() bool { return r.get(first).State == events.StateRunning })
	taken.Store(true)
	second := r.submit("wait", `{}`)
	for _, id := range []string{first, second} {
		if err := recv(t, "the cause", b.cause); !errors.Is(err, workers.ErrLeaseLost) {
			t.Errorf("cause %v", err)
		}
		if got := r.outcome(id, 1); got.Event != wire.ReportRelease {
			t.Errorf("%s was not handed back: %+v", id, got)
		}
	}
}
