package workers

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/natscluster"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/internal/standing"
	"github.com/streamwright/streamwright/wire"
)

// shortLease is a lease whose end a test waits for: many times what the worker takes to
// begin a run, on a slow machine too.
const shortLease = 3 * time.Second

// blocker is a handler that says when it has begun and lasts until released or
// until its context ends.
type blocker struct {
	begun   chan events.ID
	release chan struct{}
	cause   chan error
}

func newBlocker() *blocker {
	return &blocker{make(chan events.ID, 1000), make(chan struct{}), make(chan error, 1000)}
}

func (b *blocker) run(ctx context.Context, it *RawItem) (any, error) {
	b.begun <- it.ID
	select {
	case <-b.release:
		return "done", nil
	case <-ctx.Done():
		b.cause <- context.Cause(ctx)
		return nil, ctx.Err()
	}
}

func recv[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(2 * time.Minute):
		t.Fatalf("waited in vain for: %s", what)
		panic("unreachable")
	}
}

func TestCancelByControl(t *testing.T) {
	r := newRig(t)
	b := newBlocker()
	w := r.worker(Config{})
	HandleRaw(w, "wait", b.run)
	r.start(w)
	id := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	r.control(w, wire.Control{Cancel: []wire.RunRef{r.ref(id)}})
	if err := recv(t, "the cause", b.cause); !errors.Is(err, ErrCancelled) {
		t.Errorf("cause %v", err)
	}
	r.untilIdle()
	// The engine is told that the run has let go, and of no outcome.
	if it := r.item(id); len(it.reports) != 1 || it.reports[0].Event != wire.ReportRelease {
		t.Errorf("a cancelled run was reported: %+v", it.reports)
	}
}

func TestTimeout(t *testing.T) {
	r := newRig(t)
	r.timeout = 30 * time.Millisecond
	b := newBlocker()
	w := r.worker(Config{})
	HandleRaw(w, "wait", b.run)
	r.start(w)
	id := r.submit("wait", `{}`)
	got := r.outcome(id, 1)
	if got.Event != wire.ReportFail || got.Code != events.FailTimeout || got.Retryable != nil {
		t.Errorf("got %+v", got)
	}
	if err := recv(t, "the cause", b.cause); !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cause %v", err)
	}
}

func TestLeaseLostByHeartbeat(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.beat = standing.MinHeartbeat
	b := newBlocker()
	w := r.worker(Config{})
	HandleRaw(w, "wait", b.run)
	r.start(w)
	id := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	ref := r.ref(id)
	r.until("a heartbeat with the run in flight", func() bool {
		return slices.ContainsFunc(r.beats, func(h wire.Heartbeat) bool {
			return slices.Contains(h.InFlight, ref) && h.Session != ""
		})
	})
	r.mu.Lock()
	r.beatReply.Cancel = []wire.RunRef{ref}
	r.mu.Unlock()
	if err := recv(t, "the cause", b.cause); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("cause %v", err)
	}
	r.untilIdle()
	if it := r.item(id); len(it.reports) != 0 {
		t.Errorf("a lost run was reported: %+v", it.reports)
	}
}

func TestLeaseLostWithoutConnection(t *testing.T) {
	slow(t)
	t.Parallel()
	s := natscluster.Alone(t, 0)
	r := &rig{fakeEngine: newFakeEngine(t, s.ClientURL()), t: t, url: s.ClientURL()}
	r.lease = shortLease
	b := newBlocker()
	w := r.worker(Config{})
	HandleRaw(w, "wait", b.run)
	r.start(w)
	r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	s.Shutdown()
	s.WaitForShutdown()
	if err := recv(t, "the cause", b.cause); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("cause %v", err)
	}
	need.Eventually(t, "the report under way", func() bool { return w.Stats().Settling == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.nc.Close() // else Stop waits for an engine that may come back
	if err := w.Stop(ctx); err == nil {
		t.Error("Stop says nothing of the report that nobody answered")
	}
}

func TestStaleOutcomeIsDropped(t *testing.T) {
	r := newRig(t)
	b := newBlocker()
	settled := make(chan Settled, 4)
	w := r.worker(Config{Concurrency: 2, Settled: func(s Settled) { settled <- s }})
	HandleRaw(w, "wait", b.run)
	r.start(w)
	id := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	r.resubmit(id) // takes the first token's place
	close(b.release)
	if got := r.outcome(id, 1); got.Event != wire.ReportComplete {
		t.Errorf("got %+v", got)
	}
	r.untilIdle()
	if n := len(r.item(id).reports); n != 1 {
		t.Errorf("%d outcomes were accepted", n)
	}
	var refused, recorded int
	for range 2 {
		switch s := recv(t, "what became of an outcome", settled); {
		case s.ID.String() != id || s.Event != wire.ReportComplete:
			t.Errorf("got %+v", s)
		case s.Err == nil:
			recorded++
		case events.CodeOf(s.Err) == events.CodeStaleToken:
			refused++
		}
	}
	if refused != 1 || recorded != 1 {
		t.Errorf("%d outcomes refused, %d recorded", refused, recorded)
	}
}
