package workers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
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

func TestUnhealthyWorkerTakesNothingNew(t *testing.T) {
	t.Parallel()
	r := newOpenRig(t, often)
	var db switched
	b := newBlocker()
	w := r.worker(workers.Config{Concurrency: 4, Checks: map[string]workers.Check{"db": db.check}})
	workers.HandleRaw(w, "wait", b.run)
	workers.HandleRaw(w, "quick", nothing)
	r.start(w)
	running := r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	db.set(errors.New("connection refused"))
	need.Eventually(t, "the engine is told", func() bool {
		h := r.lastBeat().Health
		return h.Reason() == "db: connection refused" && h.Load == 0.25 && h.MemoryBytes > 1<<20
	})
	need.Eventually(t, "the engine knows", func() bool { return r.workers()[0].Status == wire.WorkerUnhealthy })
	if why := w.Stats().Unhealthy; why != "db: connection refused" {
		t.Errorf("the worker says %q of itself", why)
	}
	waiting := r.submit("quick", `{}`)
	if got := r.outcome(r.push(w, "quick"), 1); got.Event != wire.ReportRelease || got.Reason != "unhealthy" {
		t.Errorf("an item that came nevertheless: got %+v", got)
	}
	r.Await(wire.APIHeartbeat, len(r.Requests(wire.APIHeartbeat))+3)
	if it := r.get(waiting); it.State != events.StateQueued {
		t.Errorf("what waits is %s", it.State)
	}
	// What runs is left alone, and its outcome counts.
	if len(b.cause) > 0 {
		t.Error("the running handler was stopped")
	}
	close(b.release)
	r.completed(running)
	db.set(nil)
	r.completed(waiting)
	if why := w.Stats().Unhealthy; why != "" {
		t.Errorf("the worker still says %q", why)
	}
}

// The engine's word counts as the worker's own, however it comes.
func TestEngineSaysUnhealthy(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{"control": `{}`, "heartbeat": `{"status":"unhealthy","reason":"2 probes failed"}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newOpenRig(t)
			r.Judge(wire.APIHeartbeat, func([]byte) faultproxy.Fault { return faultproxy.Reply(reply) })
			w := r.work(workers.Config{Concurrency: 3}, "x", nothing)
			if name == "control" {
				r.control(w, wire.Control{Status: wire.WorkerUnhealthy, Reason: "2 probes failed"})
			}
			need.Eventually(t, "the worker knows", func() bool { return w.Stats().Unhealthy == "2 probes failed" })
			id := r.submit("x", `{}`) // the engine knows nothing of it
			if got := r.outcome(id, 1); got.Event != wire.ReportRelease || got.Reason != "unhealthy" {
				t.Errorf("got %+v", got)
			}
			r.Judge(wire.APIHeartbeat, nil)
			r.control(w, wire.Control{Status: wire.WorkerActive})
			if it := r.completed(id); it.Attempt != 1 || w.Stats().Unhealthy != "" {
				t.Errorf("got %+v, %+v", it, w.Stats())
			}
		})
	}
}

func TestBornUnhealthy(t *testing.T) {
	r := newRig(t)
	w := r.worker(workers.Config{Checks: map[string]workers.Check{
		"memory": workers.MemoryBelow(1e-9),
		"pool":   workers.ConnectionsBelow(0.5, func() (int, int) { return 1, 2 }),
		"fine":   workers.ThreadsBelow(1 << 30),
	}})
	workers.HandleRaw(w, "x", func(context.Context, *workers.RawItem) (any, error) { t.Error("it ran"); return nil, nil })
	id := r.submit("x", `{}`)
	r.start(w)
	// A registration does not say so, hence the heartbeat before its time.
	need.Eventually(t, "the engine is told", func() bool {
		why := r.lastBeat().Health.Reason()
		return strings.HasPrefix(why, "memory: memory is ") && strings.HasSuffix(why, "; pool: 1 of 2 connections are in use: it must be below 50%")
	})
	if got := r.outcome(id, 1); got.Event != wire.ReportRelease || got.Reason != "unhealthy" {
		t.Errorf("an item that came before: got %+v", got)
	}
}

func TestUnhealthyWorkerDrains(t *testing.T) {
	r := newRig(t)
	w := r.worker(workers.Config{Checks: map[string]workers.Check{"db": func(context.Context) error { return errors.New("down") }}})
	workers.HandleRaw(w, "x", nothing)
	done := make(chan error, 1)
	go func() { done <- w.Run(t.Context()) }()
	need.Eventually(t, "the engine is told", func() bool { return r.lastBeat().Health.Reason() == "db: down" })
	if err := r.c.Workers().Drain(t.Context(), string(w.ID())); err != nil {
		t.Fatal(err)
	}
	if err := recv(t, "the end", done); err != nil {
		t.Fatal(err)
	}
	if left := r.workers(); len(left) != 0 {
		t.Errorf("still registered: %+v", left)
	}
}

func TestProbeIsAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) {
		c.Workers.ProbeInterval, c.Workers.ProbeTimeout = 200*time.Millisecond, 100*time.Millisecond
	})
	var db switched
	w := r.work(workers.Config{ID: "w1", Probe: true, Checks: map[string]workers.Check{"db": db.check}}, "x", nothing)
	answers := func() []wire.Probed { return requests[wire.Probed](r, wire.APIProbed) }
	r.Await(wire.APIProbed, 1)
	if got := answers()[0]; got.Worker != "w1" || got.Session != r.session(w) || got.Nonce == "" || len(got.Failing) != 0 {
		t.Errorf("got %+v", got)
	}
	db.set(errors.New("down"))
	need.Eventually(t, "an answer that says so", func() bool {
		list := answers()
		last := list[len(list)-1]
		return len(last.Failing) == 1 && last.Failing[0] == (wire.FailingCheck{Check: "db", Error: "down"})
	})
	db.set(nil)
	is := func(status wire.WorkerStatus, why string) func() bool {
		return func() bool { w := r.workers()[0]; return w.Status == status && strings.Contains(w.Reason, why) }
	}
	need.Eventually(t, "the engine takes it for well", is(wire.WorkerActive, ""))
	release := sync.OnceFunc(w.Hang())
	defer release()
	had := len(answers())
	need.Eventually(t, "no answers", is(wire.WorkerUnhealthy, "no answer within 100ms"))
	if n := len(answers()); n != had {
		t.Errorf("a worker that hangs answers %d probes", n-had)
	}
	release()
	need.Eventually(t, "an answer again", is(wire.WorkerActive, ""))
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.Conn().NumSubscriptions(); n > 1 { // for replies
		t.Errorf("a worker that has stopped has %d subscriptions", n)
	}
}

// A worker follows the heartbeat that its last registration was answered with.
func TestHeartbeatFollowsTheRegistration(t *testing.T) {
	t.Parallel()
	r := newRig(t, often)
	r.Next(wire.APIRegister, faultproxy.Reply(`{"heartbeat_ms":600000}`))
	r.work(workers.Config{}, "add", nothing) // registers again: see TestRegistersOnRequest
	r.Await(wire.APIHeartbeat, 4)
}

// TestIdleWorkerIsSilent lets a worker rest: it sends no heartbeat while it has nothing and
// is well, and as many as before when it runs something or fails a check.
func TestIdleWorkerIsSilent(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	r := newRig(t, often)
	for i := range 20 { // so many that they are to rest
		c := r.c.Conn()
		body := fmt.Sprintf(`{"worker":"other-%d","session":"s","types":["wait"],"slots":1,"offers":true}`, i)
		if _, err := c.Request(wire.Default.API(wire.APIRegister), []byte(body), patience); err != nil {
			t.Fatal(err)
		}
	}
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
	r.work(workers.Config{Concurrency: 1, Checks: map[string]workers.Check{"db": check}}, "wait", b.run)
	beats := func() int { return len(r.Requests(wire.APIHeartbeat)) }
	need.Eventually(t, "a heartbeat that announces the rest", func() bool { return r.lastBeat().Idle.Duration > 0 })
	recv(t, "a look that may have begun before", looked)
	before := beats()
	for range 5 {
		recv(t, "a look at the checks", looked)
	}
	if n := beats(); n != before {
		t.Errorf("an idle worker sent %d heartbeats", n-before)
	}

	r.submit("wait", `{}`)
	recv(t, "the run", b.begun)
	need.Eventually(t, "heartbeats that name the run", func() bool {
		last := r.lastBeat()
		return beats() >= before+2 && len(last.InFlight) == 1 && last.Idle.IsZero()
	})
	close(b.release)
	db.set(errors.New("no connection"))
	need.Eventually(t, "a heartbeat that says what fails", func() bool {
		h := r.lastBeat().Health
		return h != nil && len(h.Failing) == 1
	})
	r.Await(wire.APIHeartbeat, beats()+2)
}

// A worker tells its memory without being asked to, and what its runs measure.
func TestHeartbeatsTellMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, often)
	begun, end := make(chan struct{}), make(chan struct{})
	r.work(workers.Config{}, "wait", func(_ context.Context, it *workers.RawItem) (any, error) {
		defer it.Measure(func() workers.Usage { return workers.Usage{Memory: 1 << 50} })()
		close(begun)
		<-end
		return nil, nil
	})
	last := func(least, most uint64) func() bool {
		return func() bool {
			h := r.lastBeat().Health
			return h != nil && h.MemoryBytes >= least && h.MemoryBytes < most
		}
	}
	need.Eventually(t, "a heartbeat with the process's memory", last(1<<20, 1<<50))
	r.submit("wait", `{}`, func(it *streamwright.Item) { it.Timeout = time.Hour })
	recv(t, "the run", begun)
	need.Eventually(t, "a heartbeat with that of the run", last(1<<50, 1<<51))
	close(end)
	need.Eventually(t, "a heartbeat without it", last(1<<20, 1<<50))
}
