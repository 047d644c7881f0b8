package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// quickHealth has workers send a heartbeat every third of a second, and probes
// come in short order.
const quickHealth = `
[workers]
probe_interval = "200ms"
probe_timeout = "100ms"
[types.email]
lease = "1s"
`

func workerConn(t *testing.T, e *Engine) *nats.Conn {
	t.Helper()
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// startWorker starts a worker that notes who has run what.
func startWorker(t *testing.T, e *Engine, ran chan<- string, cfg workers.Config) *workers.Worker {
	t.Helper()
	cfg.Logger = e.log
	w, err := workers.New(workerConn(t, e), cfg)
	if err != nil {
		t.Fatal(err)
	}
	workers.HandleRaw(w, "email", func(context.Context, *workers.RawItem) (any, error) { ran <- string(cfg.ID); return nil, nil })
	if err := w.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// shown waits until the engine takes a worker for something.
func shown(t *testing.T, e *Engine, worker string, want wire.WorkerStatus, why string) wire.WorkerInfo {
	t.Helper()
	ctx := testContext(t)
	var last wire.WorkerInfo
	for ctx.Err() == nil {
		for _, w := range request[wire.WorkersReply](t, e, wire.APIWorkers, wire.StatsRequest{}).Workers {
			if w.Worker == worker {
				last = w
			}
		}
		if last.Status == want && strings.Contains(last.Reason, why) {
			return last
		}
	}
	t.Fatalf("worker %s is not %s, %q: %+v", worker, want, why, last)
	return last
}

func recvName(t *testing.T, ran <-chan string) string {
	t.Helper()
	select {
	case who := <-ran:
		return who
	case <-testContext(t).Done():
		t.Fatal("nobody runs it")
		return ""
	}
}

// A worker whose check fails is left out, and comes back by itself.
func TestFailingCheckAndRecovery(t *testing.T) {
	logins.Open(t, "it reads the engine's buckets")
	slow(t)
	e := mustStart(t, Options{Memory: true, Config: configOf(t, quickHealth)})
	var down atomic.Bool
	ran := make(chan string, 100)
	sick := startWorker(t, e, ran, workers.Config{ID: "sick", Concurrency: 2, Probe: true, Checks: map[string]workers.Check{
		"db": func(context.Context) error {
			if down.Load() {
				return errors.New("connection refused")
			}
			return nil
		},
	}})
	shown(t, e, "sick", wire.WorkerActive, "")
	waitFor(t, e, submit(t, e, wire.Submit{Type: "email"}), events.StateCompleted)
	if who := recvName(t, ran); who != "sick" {
		t.Fatalf("%s has run it", who)
	}
	down.Store(true)
	// The probe and the heartbeat both tell; the worker's own word is shown.
	both := testContext(t)
	info := shown(t, e, "sick", wire.WorkerUnhealthy, "db: connection refused")
	for both.Err() == nil && (info.Reason != "db: connection refused" || info.ProbedAt.IsZero()) {
		info = shown(t, e, "sick", wire.WorkerUnhealthy, "")
	}
	if info.Health.Reason() != info.Reason || info.Health.MemoryBytes == 0 || info.ProbedAt.IsZero() {
		t.Errorf("%+v", info)
	}
	js, err := jetstream.New(workerConn(t, e))
	if err != nil {
		t.Fatal(err)
	}
	shows(t, js, "work_workers", "sick", `"reason":"db: connection refused"`)
	// Its items wait, or go to another.
	s := submit(t, e, wire.Submit{Type: "email"})
	startWorker(t, e, ran, workers.Config{ID: "well", Concurrency: 2})
	waitFor(t, e, s, events.StateCompleted)
	if who := recvName(t, ran); who != "well" {
		t.Errorf("%s has run it", who)
	}
	if n := sick.Stats().Released; n > 2 { // what may have been on its way
		t.Errorf("%d items were handed back", n)
	}
	down.Store(false)
	shown(t, e, "sick", wire.WorkerActive, "")
	for who := ""; who != "sick"; who = recvName(t, ran) {
		waitFor(t, e, submit(t, e, wire.Submit{Type: "email"}), events.StateCompleted)
	}
}

// A worker whose heartbeats go on, and which does not answer its probe, is
// unhealthy until it does.
func TestUnansweredProbe(t *testing.T) {
	slow(t)
	t.Parallel()
	e := mustStart(t, Options{Memory: true, Config: configOf(t, quickHealth)})
	nc := workerConn(t, e)
	reg := wire.Register{Worker: "deaf", Session: "s", Types: []string{"email"}, Slots: 1, Probe: true}
	request[wire.Registered](t, e, wire.APIRegister, reg)
	beat := func() wire.HeartbeatReply {
		t.Helper()
		return request[wire.HeartbeatReply](t, e, wire.APIHeartbeat, wire.Heartbeat{Register: reg})
	}
	told := make(chan wire.Control, 10)
	if _, err := nc.Subscribe("work.control.deaf", func(m *nats.Msg) {
		var c wire.Control
		if json.Unmarshal(m.Data, &c) == nil && c.Status != "" {
			told <- c
		}
	}); err != nil {
		t.Fatal(err)
	}
	shown(t, e, "deaf", wire.WorkerUnhealthy, "no answer within 100ms")
	if c := <-told; c.Status != wire.WorkerUnhealthy || c.Reason == "" {
		t.Errorf("it is told %+v", c)
	}
	if r := beat(); r.Status != wire.WorkerUnhealthy || r.ShouldDrain {
		t.Errorf("its heartbeat is answered by %+v", r)
	}
	sub := submit(t, e, wire.Submit{Type: "email", Params: json.RawMessage(`{}`)})
	if why := request[wire.WhyReply](t, e, wire.APIWhy, wire.Why{ID: sub.ID}); why.State != events.StateQueued {
		t.Errorf("an item is %+v", why)
	}

	// It answers, well and otherwise.
	var mood atomic.Value
	mood.Store("")
	if _, err := nc.Subscribe("work.probe.deaf", func(m *nats.Msg) {
		var p wire.Probe
		if err := json.Unmarshal(m.Data, &p); err != nil {
			t.Errorf("%q: %v", m.Data, err)
		}
		answer := wire.Probed{Worker: "deaf", Session: reg.Session, Nonce: p.Nonce}
		switch mood.Load().(string) {
		case "silent":
			return
		case "another life":
			answer.Session = "another"
		case "another worker":
			answer.Worker = "other"
		case "another probe":
			answer.Nonce = "x"
		case "ill":
			answer.Failing = []wire.FailingCheck{{Check: "db", Error: "down"}}
		}
		body, _ := json.Marshal(answer)
		_ = nc.PublishRequest(wire.Default.API(wire.APIProbed), nc.NewInbox(), body)
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mood string
		want wire.WorkerStatus
		why  string
	}{
		{"", wire.WorkerActive, ""},
		{"silent", wire.WorkerUnhealthy, "no answer within 100ms"},
		{"", wire.WorkerActive, ""},
		{"another life", wire.WorkerUnhealthy, "another worker answers"},
		{"", wire.WorkerActive, ""},
		{"another worker", wire.WorkerUnhealthy, "another worker answers"},
		{"", wire.WorkerActive, ""},
		{"another probe", wire.WorkerUnhealthy, "no answer within 100ms"},
		{"", wire.WorkerActive, ""},
		{"ill", wire.WorkerUnhealthy, "db: down"},
	} {
		mood.Store(c.mood)
		shown(t, e, "deaf", c.want, c.why)
		until(t, "its heartbeat says so, "+c.mood, func() bool { return beat().Status == c.want })
	}
	// It drains all the same.
	request[wire.OK](t, e, wire.APIDrain, wire.Drain{Worker: "deaf"})
	shown(t, e, "deaf", wire.WorkerDraining, "")
	if r := beat(); !r.ShouldDrain || r.Status != wire.WorkerDraining {
		t.Errorf("its heartbeat is answered by %+v", r)
	}
}
