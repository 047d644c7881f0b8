package workers_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/faultproxy"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

func TestCancelByControl(t *testing.T) {
	r := newRig(t)
	b := newBlocker()
	w := r.work(workers.Config{}, "wait", b.run)
	id := r.submit("wait", `{}`)
	need.Eventually(t, "the start", func() bool { return r.get(id).State == events.StateRunning }) // else it might be refused
	if _, _, err := r.c.Cancel(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	if err := recv(t, "the cause", b.cause); !errors.Is(err, workers.ErrCancelled) {
		t.Errorf("cause %v", err)
	}
	if err := w.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	// The engine is told that the run has let go, and of no outcome.
	if got := r.told(id); len(got) != 1 || got[0].Event != wire.ReportRelease {
		t.Errorf("a cancelled run was reported: %+v", got)
	}
}

func TestTimeout(t *testing.T) {
	r := newRig(t)
	r.Judge(wire.APIReport, func(request []byte) faultproxy.Fault { // else the engine's own timer might come first
		if decode[[]wire.Report](t, request)[0].Event == wire.ReportStart {
			return faultproxy.Nobody
		}
		return faultproxy.Fault{}
	})
	b := newBlocker()
	r.work(workers.Config{}, "wait", b.run)
	it := r.ended(r.submit("wait", `{}`, func(it *streamwright.Item) { it.Timeout, it.MaxAttempts = 30*time.Millisecond, 1 }), events.StateDead)
	if it.Error.Code != events.FailTimeout || r.outcome(it.ID, 1).Retryable != nil {
		t.Errorf("got %+v", it)
	}
	if err := recv(t, "the cause", b.cause); !errors.Is(err, workers.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cause %v", err)
	}
}

func TestLeaseLostByHeartbeat(t *testing.T) {
	t.Parallel()
	r := newRig(t, often)
	r.Judge(wire.APIHeartbeat, func(request []byte) faultproxy.Fault {
		h := decode[wire.Heartbeat](t, request)
		if len(h.InFlight) == 0 || h.Session == "" {
			return faultproxy.Fault{}
		}
		reply, _ := json.Marshal(wire.HeartbeatReply{Cancel: h.InFlight})
		return faultproxy.Reply(string(reply))
	})
	b := newBlocker()
	w := r.work(workers.Config{}, "wait", b.run)
	id := r.submit("wait", `{}`)
	if err := recv(t, "the cause", b.cause); !errors.Is(err, workers.ErrLeaseLost) {
		t.Errorf("cause %v", err)
	}
	if err := w.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if got := r.told(id); len(got) != 0 {
		t.Errorf("a lost run was reported: %+v", got)
	}
}

func TestLeaseLostWithoutConnection(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	r := newRig(t, func(c *config.Config) {
		c.Types = map[events.Type]config.Type{"wait": {Patch: config.Patch{"lease": 2 * time.Second}}}
	})
	b := newBlocker()
	w := r.worker(workers.Config{})
	workers.HandleRaw(w, "wait", b.run)
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	r.end()
	if err := recv(t, "the cause", b.cause); !errors.Is(err, workers.ErrLeaseLost) {
		t.Errorf("cause %v", err)
	}
	need.Eventually(t, "the report under way", func() bool { return w.Stats().Settling == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.Conn().Close() // else Stop waits for an engine that may come back
	if err := w.Stop(ctx); !errors.Is(err, workers.ErrUnanswered) {
		t.Errorf("of the report that nobody answered Stop says %v", err)
	}
}

// Settled is told what became of each outcome.
func TestStaleOutcomeIsDropped(t *testing.T) {
	r := newRig(t)
	r.Next(wire.APIReport, faultproxy.Reply(`[{"error":{"code":"stale_token"}}]`))
	settled := make(chan workers.Settled, 4)
	w := r.work(workers.Config{Settled: func(s workers.Settled) { settled <- s }}, "add", nothing)
	for i, refusal := range []error{&events.Error{Code: events.CodeStaleToken}, nil} {
		id := r.submit("add", `{}`)
		s := recv(t, "what became of an outcome", settled)
		if s.ID.String() != id || s.Event != wire.ReportComplete || s.Attempt != 1 || !errors.Is(s.Err, refusal) || (s.State == events.StateCompleted) != (refusal == nil) {
			t.Errorf("got %+v", s)
		}
		if n := w.Stats().Completed; n != uint64(i) {
			t.Errorf("%d completed", n)
		}
		if got := r.told(id); len(got) != 1 {
			t.Errorf("reported %v", eventsOf(got))
		}
	}
}
