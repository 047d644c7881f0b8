package bridge_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// quick has the leases of a type run out within a second.
func quick(typ events.Type) config.Config { return leases(time.Second, typ) }

// freeID has the engine forget a worker, as it does once it was silent for long.
func (e *engine) freeID(t testing.TB, worker string) {
	t.Helper()
	var list wire.WorkersReply
	e.request(t, wire.APIWorkers, wire.StatsRequest{}, &list)
	for _, w := range list.Workers {
		if w.Worker == worker {
			var ok wire.OK
			e.request(t, wire.APIUnregister, wire.Unregister{Worker: worker, Session: w.Session}, &ok)
			return
		}
	}
	t.Fatalf("worker %s is not registered: %+v", worker, list)
}

// takeID has another session, over NATS, take the id of a worker that the engine
// holds for gone.
func (e *engine) takeID(t testing.TB, worker string, types ...string) wire.Registered {
	t.Helper()
	e.freeID(t, worker)
	var reg wire.Registered
	e.request(t, wire.APIRegister, wire.Register{Worker: worker, Session: "other", Types: types, Slots: 1}, &reg)
	return reg
}

// A worker whose id another session has taken hears so in answer to its heartbeat:
// it is to stop what it runs, and what it ran comes back when its lease is over,
// since nothing renews it.
func TestIDTakenIsToldByTheHeartbeat(t *testing.T) {
	slow(t)
	t.Parallel()
	e := startEngine(t, embedded.Options{Config: quick("step")})
	w := e.worker(t, wire.WorkerRegistration{Worker: "w1", Types: []string{"step"}, Slots: 2})
	id := e.submit(t, "step", `{}`)
	it := w.one()
	w.beat(it) // legitimate
	e.takeID(t, "w1", "step")
	body := wire.WorkerHeartbeat{Session: w.session, InFlight: []wire.RunRef{{ID: it.ID, Token: it.Token}}}
	// Each would renew the lease, if it were the worker's.
	need.Eventually(t, "the item is queued again", func() bool {
		status, p, err := e.ask(testContext(t), http.MethodPost, w.path("heartbeat"), body, nil)
		if err != nil || status != http.StatusConflict || p.Code != events.CodeWorkerIDInUse {
			t.Fatalf("the heartbeat is answered with %d %+v %v", status, p, err)
		}
		got := e.item(t, id)
		return got.State == events.StateQueued && got.Error != nil && got.Error.Code == events.FailLeaseExpired
	})
	for op, body := range map[string]any{
		"poll":   wire.Poll{Session: w.session, Wait: ms(0)},
		"report": reports{w.session, []wire.Report{complete(it, `1`)}},
	} {
		if status, p, err := e.ask(testContext(t), http.MethodPost, w.path(op), body, nil); err != nil || status != http.StatusConflict || p.Code != events.CodeWorkerIDInUse {
			t.Errorf("%s is answered with %d %+v %v", op, status, p, err)
		}
	}
}

// A poll that is open when the id is taken ends with the same refusal, and both
// sessions may be of HTTP workers.
func TestIDTakenEndsThePoll(t *testing.T) {
	e := startEngine(t, embedded.Options{Config: quick("step")})
	w := e.worker(t, wire.WorkerRegistration{Worker: "w1", Types: []string{"step"}, Slots: 1})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		status, p, err := e.ask(testContext(t), http.MethodPost, w.path("poll"), wire.Poll{Session: w.session, Wait: ms(time.Minute)}, nil)
		if err != nil || status != http.StatusConflict || p.Code != events.CodeWorkerIDInUse {
			t.Errorf("the poll is answered with %d %+v %v", status, p, err)
		}
	}()
	need.Eventually(t, "the poll is open", func() bool { return e.waiting(t, "step") == 1 })
	e.freeID(t, "w1")
	second := e.worker(t, wire.WorkerRegistration{Worker: "w1", Types: []string{"step"}, Slots: 1})
	<-ended
	status, p, err := e.ask(testContext(t), http.MethodPost, w.path("heartbeat"), wire.WorkerHeartbeat{Session: w.session}, nil)
	if err != nil || status != http.StatusConflict || p.Code != events.CodeWorkerIDInUse {
		t.Errorf("the heartbeat is answered with %d %+v %v", status, p, err)
	}
	id := e.submit(t, "step", `{}`)
	it := second.one()
	second.ok(complete(it, `1`))
	if got := e.item(t, id); got.State != events.StateCompleted {
		t.Errorf("the item is %s", got.State)
	}
}
