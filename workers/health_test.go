package workers

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/internal/standing"
	"github.com/streamwright/streamwright/wire"
)

// switched is a check that can be made to fail.
type switched struct{ fault atomic.Pointer[error] }

func (s *switched) check(context.Context) error {
	if p := s.fault.Load(); p != nil {
		return *p
	}
	return nil
}

func (s *switched) set(err error) {
	if err == nil {
		s.fault.Store(nil)
		return
	}
	s.fault.Store(&err)
}

// lastBeat is what the engine has heard last. REQUIRES: the table locked.
func (r *rig) lastBeat() *wire.Health {
	if len(r.beats) == 0 {
		return &wire.Health{}
	}
	return r.beats[len(r.beats)-1].Health
}

func TestUnhealthyWorkerTakesNothingNew(t *testing.T) {
	slow(t)
	t.Parallel()
	r := newRig(t)
	r.beat = standing.MinHeartbeat
	var db switched
	b := newBlocker()
	w := r.worker(Config{Concurrency: 4, Checks: map[string]Check{"db": db.check}})
	HandleRaw(w, "wait", b.run)
	HandleRaw(w, "quick", func(context.Context, *RawItem) (any, error) { return nil, nil })
	r.start(w)
	running := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	db.set(errors.New("connection refused"))
	r.until("the engine is told", func() bool {
		h := r.lastBeat()
		return h.Reason() == "db: connection refused" && h.Load == 0.25 && h.MemoryBytes > 1<<20
	})
	if why := w.Stats().Unhealthy; why != "db: connection refused" {
		t.Errorf("the worker says %q of itself", why)
	}
	waiting := r.submit("quick", `{}`)
	r.mu.Lock()
	beats := len(r.beats)
	r.mu.Unlock()
	r.until("some heartbeats", func() bool { return len(r.beats) >= beats+3 })
	if it := r.item(waiting); it.state != events.StateQueued {
		t.Errorf("the fake engine sent it: it is %s", it.state)
	}
	if got := r.outcome(r.push(w, "quick"), 1); got.Event != wire.ReportRelease || got.Reason != "unhealthy" {
		t.Errorf("an item that came nevertheless: got %+v", got)
	}
	// What runs is left alone, and its outcome counts.
	if len(b.cause) > 0 {
		t.Error("the running handler was stopped")
	}
	close(b.release)
	if got := r.outcome(running, 1); got.Event != wire.ReportComplete {
		t.Errorf("got %+v", got)
	}
	db.set(nil)
	if got := r.outcome(waiting, 1); got.Event != wire.ReportComplete {
		t.Errorf("got %+v", got)
	}
	if why := w.Stats().Unhealthy; why != "" {
		t.Errorf("the worker still says %q", why)
	}
	r.untilIdle()
}

// The engine's word counts as the worker's own, however it comes.
func TestEngineSaysUnhealthy(t *testing.T) {
	slow(t)
	t.Parallel()
	for name, say := range map[string]func(*rig, *Worker){
		"control": func(r *rig, w *Worker) {
			r.control(w, wire.Control{Status: wire.WorkerUnhealthy, Reason: "2 probes failed"})
		},
		"heartbeat": func(*rig, *Worker) {},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.beat = standing.MinHeartbeat
			if name != "heartbeat" {
				r.beat = 20 * time.Second
			}
			r.beatReply = wire.HeartbeatReply{Status: wire.WorkerUnhealthy, Reason: "2 probes failed"}
			w := r.worker(Config{Concurrency: 3})
			HandleRaw(w, "x", func(context.Context, *RawItem) (any, error) { return nil, nil })
			r.start(w)
			say(r, w)
			need.Eventually(t, "the worker knows", func() bool { return w.Stats().Unhealthy == "2 probes failed" })
			id := r.push(w, "x")
			if got := r.outcome(id, 1); got.Event != wire.ReportRelease || got.Reason != "unhealthy" {
				t.Errorf("got %+v", got)
			}
			r.mu.Lock()
			r.beatReply = wire.HeartbeatReply{Status: wire.WorkerActive}
			r.mu.Unlock()
			r.control(w, wire.Control{Status: wire.WorkerActive})
			need.Eventually(t, "the worker knows that it is well", func() bool { return w.Stats().Unhealthy == "" })
			r.resubmit(id)
			if got := r.outcome(id, 2); got.Event != wire.ReportComplete {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestBornUnhealthy(t *testing.T) {
	r := newRig(t)
	var db switched
	db.set(errors.New("down"))
	w := r.worker(Config{Checks: map[string]Check{"db": db.check}})
	HandleRaw(w, "x", func(context.Context, *RawItem) (any, error) { t.Error("it ran"); return nil, nil })
	id := r.submit("x", `{}`)
	r.start(w)
	// A registration does not say so, hence the heartbeat before its time.
	r.until("the engine is told", func() bool { return r.lastBeat().Reason() == "db: down" })
	if got := r.outcome(id, 1); got.Event != wire.ReportRelease || got.Reason != "unhealthy" {
		t.Errorf("an item that came before: got %+v", got)
	}
}

func TestUnhealthyWorkerDrains(t *testing.T) {
	r := newRig(t)
	var db switched
	db.set(errors.New("down"))
	w := r.worker(Config{Checks: map[string]Check{"db": db.check}})
	HandleRaw(w, "x", func(context.Context, *RawItem) (any, error) { return nil, nil })
	done := make(chan error, 1)
	go func() { done <- w.Run(t.Context()) }()
	r.until("the engine is told", func() bool { return r.lastBeat().Reason() == "db: down" })
	r.control(w, wire.Control{Drain: true})
	if err := recv(t, "the end", done); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.gone, []string{string(w.ID())}) {
		t.Errorf("unregistered: %v", r.gone)
	}
}

func TestChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var hanging atomic.Int32
		c := newChecker(map[string]Check{
			"a good":  func(context.Context) error { return nil },
			"b bad":   func(context.Context) error { return errors.New("bad") },
			"c panic": func(context.Context) error { panic("oh") },
			"d hangs": func(context.Context) error { hanging.Add(1); <-release; return nil },
			"e slow":  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		}, 50*time.Millisecond)
		for range 3 {
			got := c.run(t.Context())
			if len(got) != 4 || got[0] != (wire.FailingCheck{Check: "b bad", Error: "bad"}) || got[1].Error != "the check panicked: oh" ||
				got[2] != (wire.FailingCheck{Check: "d hangs", Error: "no result within 50ms"}) || got[3].Check != "e slow" {
				t.Fatalf("got %+v", got)
			}
		}
		if n := hanging.Load(); n != 1 {
			t.Errorf("the check that hangs was begun %d times", n)
		}
		if err := c.stop(); err != errCheckHangs {
			t.Errorf("stop: %v", err)
		}
		close(release)
		if err := c.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if got := c.run(t.Context()); got != nil {
			t.Errorf("a stopped checker says %+v", got)
		}
	})
}

func TestCheckConfig(t *testing.T) {
	good := func(context.Context) error { return nil }
	many := map[string]Check{}
	for i := range MaxChecks + 1 {
		many[strings.Repeat("x", i+1)] = good
	}
	for want, cfg := range map[string]Config{
		"at most 16":    {Checks: many},
		"1 to 64":       {Checks: map[string]Check{"": good}},
		"\"db\" is nil": {Checks: map[string]Check{"db": nil}},
		"up to 10s":     {CheckTimeout: time.Minute},
	} {
		if err := cfg.WithDefaults().Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

func TestProbeIsAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var db switched
	var announced atomic.Bool
	r.onRegister = func(reg wire.Register) *wire.Error { announced.Store(reg.Probe); return nil }
	w := r.worker(Config{ID: "w1", Probe: true, Checks: map[string]Check{"db": db.check}})
	HandleRaw(w, "x", func(context.Context, *RawItem) (any, error) { return nil, nil })
	r.start(w)
	if !announced.Load() {
		t.Error("the engine is not told of the probe")
	}
	answers := make(chan wire.Probed, 10)
	sub, err := r.nc.Subscribe(wire.Default.API(wire.APIProbed), func(m *nats.Msg) {
		var p wire.Probed
		if err := json.Unmarshal(m.Data, &p); err != nil {
			t.Errorf("%q: %v", m.Data, err)
		}
		_ = m.Respond([]byte(`{"ok":true}`))
		answers <- p
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	probe := func(nonce string) {
		t.Helper()
		if err := errors.Join(r.nc.Publish("work.probe.w1", []byte(`{"nonce":"`+nonce+`"}`)), r.nc.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	probe("n1")
	if got := recv(t, "the answer", answers); got.Worker != "w1" || got.Session == "" || got.Nonce != "n1" || len(got.Failing) != 0 {
		t.Errorf("got %+v", got)
	}
	db.set(errors.New("down"))
	probe("n2")
	if got := recv(t, "the answer", answers); got.Nonce != "n2" || len(got.Failing) != 1 || got.Failing[0] != (wire.FailingCheck{Check: "db", Error: "down"}) {
		t.Errorf("got %+v", got)
	}
	// One that hangs does not answer.
	w.mu.Lock()
	probe("n3")
	select {
	case got := <-answers:
		t.Errorf("a worker that hangs answers its probe: %+v", got)
	case <-time.After(100 * time.Millisecond):
	}
	w.mu.Unlock()
	recv(t, "the late answer", answers)
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	probe("n4")
	select {
	case got := <-answers:
		t.Errorf("a worker that has stopped answers its probe: %+v", got)
	case <-time.After(100 * time.Millisecond):
	}
}

// A worker follows the heartbeat that its last registration was answered with.
func TestHeartbeatFollowsTheRegistration(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.worker(Config{})
	Handle(w, "add", add)
	r.start(w)
	beats := func(n int) func() bool { return func() bool { return len(r.beats) >= n } }
	// The fake engine's first word was 20 s.
	r.mu.Lock()
	r.beat = standing.MinHeartbeat
	r.mu.Unlock()
	r.control(w, wire.Control{Register: true})
	r.until("heartbeats in short order", beats(3))
}

// TestIdleWorkerIsSilent lets a worker rest: it sends no heartbeat while it has nothing and
// is well, and as many as before when it runs something or fails a check.
func TestIdleWorkerIsSilent(t *testing.T) {
	slow(t)
	t.Parallel()
	r := newRig(t)
	r.beat = standing.MinHeartbeat
	r.beatReply = wire.HeartbeatReply{Status: wire.WorkerActive, Idle: events.DurationOf(time.Hour)}
	var db switched
	looked := make(chan struct{})
	check := func(ctx context.Context) error {
		select {
		case looked <- struct{}{}:
		default:
		}
		return db.check(ctx)
	}
	b := newBlocker()
	w := r.worker(Config{Concurrency: 1, Checks: map[string]Check{"db": check}})
	HandleRaw(w, "wait", b.run)
	r.start(w)
	r.until("a heartbeat that announces the rest", func() bool { n := len(r.beats); return n > 0 && r.beats[n-1].Idle.Duration > 0 })
	recv(t, "a look that may have begun before", looked)
	r.mu.Lock()
	before := len(r.beats)
	r.mu.Unlock()
	for range 5 {
		recv(t, "a look at the checks", looked)
	}
	r.mu.Lock()
	if n := len(r.beats); n != before {
		t.Errorf("an idle worker sent %d heartbeats", n-before)
	}
	r.mu.Unlock()

	r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	r.until("heartbeats that name the run", func() bool {
		n := len(r.beats)
		return n >= before+2 && len(r.beats[n-1].InFlight) == 1 && r.beats[n-1].Idle.IsZero()
	})
	close(b.release)
	db.set(errors.New("no connection"))
	r.until("a heartbeat that says what fails", func() bool { return len(r.lastBeat().Failing) == 1 })
	r.mu.Lock()
	failing := len(r.beats)
	r.mu.Unlock()
	r.until("more of them", func() bool { return len(r.beats) >= failing+2 })
}
