package bridge_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// becomes waits until the engine takes a worker for something.
func (e *engine) becomes(t testing.TB, worker string, want wire.WorkerStatus, reason string) {
	t.Helper()
	need.Eventually(t, worker+" is "+string(want), func() bool {
		var list wire.WorkersReply
		e.request(t, wire.APIWorkers, wire.StatsRequest{}, &list)
		for _, w := range list.Workers {
			if w.Worker == worker {
				return w.Status == want && strings.Contains(w.Reason, reason) && (want != wire.WorkerActive || !w.ProbedAt.IsZero())
			}
		}
		return false
	})
}

// An HTTP worker is probed: it is well while it answers, says what is wrong with it,
// and is unhealthy when it does not answer.
func TestProbe(t *testing.T) {
	slow(t)
	t.Parallel()
	c := leases(30*time.Second, "step")
	c.Workers.ProbeInterval, c.Workers.ProbeTimeout = 500*time.Millisecond, 400*time.Millisecond
	e := startEngine(t, embedded.Options{Config: c})
	w := e.worker(t, wire.WorkerRegistration{Worker: "w1", Types: []string{"step"}, Slots: 1, Probe: true})
	// answer answers probes until the test has seen what it wants.
	answer := func(failing ...wire.FailingCheck) (stop func()) {
		ctx, cancel := context.WithCancel(testContext(t))
		done := make(chan struct{})
		go func() {
			defer close(done)
			req := wire.ProbeWait{Session: w.session, Failing: failing}
			for ctx.Err() == nil {
				var asked wire.ProbeAsked
				status, p, err := e.ask(ctx, http.MethodPost, w.path("probe"), req, &asked)
				if ctx.Err() == nil && (err != nil || status != http.StatusOK) {
					t.Errorf("probe: %d %+v %v", status, p, err)
					return
				}
				req.Nonce = asked.Nonce
			}
		}()
		return func() { cancel(); <-done }
	}
	stop := answer()
	e.becomes(t, "w1", wire.WorkerActive, "")
	stop()
	e.becomes(t, "w1", wire.WorkerUnhealthy, "2 probes in a row have failed")
	if got := w.poll(wire.Poll{Wait: ms(0)}); got.Status != wire.WorkerUnhealthy {
		t.Errorf("a poll is told %+v", got)
	}
	stop = answer()
	e.becomes(t, "w1", wire.WorkerActive, "")
	stop()
	stop = answer(wire.FailingCheck{Check: "disk", Error: "full"})
	e.becomes(t, "w1", wire.WorkerUnhealthy, "")
	stop()
}

// A worker that offers no probe has none to wait for; a wait ends in time, and one
// at a time is open.
func TestProbeWaits(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	plain := e.worker(t, wire.WorkerRegistration{Worker: "plain", Types: []string{"step"}, Slots: 1})
	status, p, err := e.ask(testContext(t), http.MethodPost, plain.path("probe"), wire.ProbeWait{Session: plain.session}, nil)
	if err != nil || status != http.StatusBadRequest || !strings.Contains(p.Detail, `register with "probe": true`) {
		t.Errorf("without an offer: %d %+v %v", status, p, err)
	}
	w := e.worker(t, wire.WorkerRegistration{Worker: "w1", Types: []string{"step"}, Slots: 1, Probe: true})
	var asked wire.ProbeAsked
	w.must("probe", wire.ProbeWait{Session: w.session, Wait: ms(0)}, &asked)
	if asked.Nonce != "" {
		t.Errorf("it was asked %q", asked.Nonce)
	}
	if status, _, err = e.ask(testContext(t), http.MethodPost, w.path("probe"), wire.ProbeWait{Session: w.session, Wait: ms(61 * time.Second)}, nil); err != nil || status != http.StatusBadRequest {
		t.Errorf("a wait of 61 s: %d %v", status, err)
	}
	if status, p, err = e.ask(testContext(t), http.MethodPost, w.path("probe"), wire.ProbeWait{Session: plain.session}, nil); err != nil || status != http.StatusConflict {
		t.Errorf("the session of another: %d %+v %v", status, p, err)
	}
	type got struct {
		status int
		code   events.Code
	}
	answers := make(chan got, 2)
	for range 2 { // whichever is second takes over
		go func() {
			status, p, _ := e.ask(testContext(t), http.MethodPost, w.path("probe"), wire.ProbeWait{Session: w.session, Wait: ms(time.Minute)}, nil)
			answers <- got{status, p.Code}
		}()
	}
	if first := <-answers; first.status != http.StatusConflict || first.code != events.CodeWorkerIDInUse {
		t.Errorf("the first wait ended with %+v", first)
	}
	var ok wire.OK
	if status, p, err := e.ask(testContext(t), http.MethodDelete, "/api/v1/workers/w1", nil, &ok, "Work-Session", w.session); err != nil || status != http.StatusOK {
		t.Errorf("unregister: %d %+v %v", status, p, err)
	}
	if second := <-answers; second.status != http.StatusNotFound {
		t.Errorf("the second wait ended with %+v", second)
	}
}
