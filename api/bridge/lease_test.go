package bridge_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/api/bridge"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Heartbeats keep what they name beyond its lease; what they don't name goes
// when its lease is over, and they say so.
func TestHeartbeatsRenewWhatTheyName(t *testing.T) {
	slow(t)
	t.Parallel()
	const lease = 4 * time.Second
	e := startEngine(t, embedded.Options{Config: leases(lease, "step")})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 2})
	kept, lost := e.submit(t, "step", `{}`), e.submit(t, "step", `{}`)
	items := map[string]wire.PolledItem{}
	for len(items) < 2 {
		for _, it := range w.poll(wire.Poll{}).Items {
			items[it.ID] = it
			w.ok(wire.Report{ID: it.ID, Token: it.Token, Event: wire.ReportStart})
		}
	}
	var orders wire.WorkerOrders
	for end := time.Now().Add(2 * lease); time.Now().Before(end); {
		if orders = w.beat(items[kept]); len(orders.Cancel)+len(orders.Lost) > 0 {
			t.Fatalf("orders: %+v", orders)
		}
		<-time.After(lease / 8) // the pace of a worker
	}
	if got := e.item(t, kept); got.State != events.StateRunning || got.Attempt != 1 {
		t.Errorf("what was named is %s, attempt %d", got.State, got.Attempt)
	}
	need.Eventually(t, "what was not named loses its lease", func() bool {
		return slices.Contains(e.kinds(t, lost), "failed")
	})
	orders = w.beat(items[kept], items[lost])
	if len(orders.Lost) != 1 || orders.Lost[0].ID != lost || len(orders.Cancel) != 0 {
		t.Errorf("orders: %+v", orders)
	}
	if r := w.report(complete(items[lost], `1`))[0]; r.OK || r.Error.Code != events.CodeStaleToken && r.Error.Code != events.CodeWrongState {
		t.Errorf("a late report got %+v", r)
	}
	w.ok(complete(items[kept], `1`))
	if it := w.one(); it.ID != lost || it.Attempt != 2 { // its slot is free again
		t.Errorf("polled %+v", it)
	}
}

func TestCancelIsToldByHeartbeat(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	id := e.submit(t, "step", `{}`)
	it := w.one()
	if _, _, err := e.client.Cancel(testContext(t), id, "not needed"); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "the heartbeat says so", func() bool {
		o := w.beat(it)
		return len(o.Cancel) == 1 && o.Cancel[0].ID == id && o.Cancel[0].Token == it.Token && len(o.Lost) == 0
	})
	next := e.submit(t, "step", `{}`)
	w.beat() // it has stopped
	if it := w.one(); it.ID != next {
		t.Errorf("polled %+v", it)
	}
}

func TestSessionsAreSecrets(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	a := e.worker(t, wire.WorkerRegistration{Worker: "a", Types: []string{"step"}, Slots: 1})
	b := e.worker(t, wire.WorkerRegistration{Worker: "b", Types: []string{"step"}, Slots: 1})
	id := e.submit(t, "step", `{}`)
	it := a.one()
	refused := func(what, op, session string, status int, code events.Code) {
		t.Helper()
		body := map[string]any{"session": session}
		if op == "report" {
			body["reports"] = []any{map[string]any{"id": it.ID, "token": it.Token, "event": "complete"}}
		}
		got, p, err := e.ask(testContext(t), http.MethodPost, "/api/v1/workers/a/"+op, body, nil)
		if err != nil || got != status || p.Code != code {
			t.Errorf("%s, %s: %d %s %v", what, op, got, p.Code, err)
		}
	}
	for _, op := range []string{"poll", "report", "heartbeat"} {
		refused("another's session", op, b.session, 409, events.CodeWorkerIDInUse)
		refused("no session", op, "made-up", 409, events.CodeWorkerIDInUse)
		refused("a session cut short", op, a.session[:len(a.session)-1], 409, events.CodeWorkerIDInUse)
	}
	for _, session := range []string{b.session, "x"} {
		if status, p, err := e.ask(testContext(t), http.MethodDelete, "/api/v1/workers/a", nil, nil, "Work-Session", session); err != nil || status != 409 {
			t.Errorf("unregister: %d %+v %v", status, p, err)
		}
	}
	if status, p, err := e.ask(testContext(t), http.MethodPost, "/api/v1/workers/nobody/poll", wire.Poll{Session: "x.y"}, nil); err != nil || status != 404 || p.Code != events.CodeUnknownWorker {
		t.Errorf("a worker that is not there: %d %+v %v", status, p, err)
	}
	if status, p, err := e.ask(testContext(t), http.MethodPost, "/api/v1/workers", wire.WorkerRegistration{Worker: "a", Types: []string{"step"}, Slots: 1}, nil); err != nil || status != 409 || p.Code != events.CodeWorkerIDInUse {
		t.Errorf("a second a: %d %+v %v", status, p, err)
	}
	// What a was given is not b's to start, nor to complete.
	if r := b.report(wire.Report{ID: it.ID, Token: it.Token, Event: wire.ReportStart})[0]; r.OK || r.Error.Code != events.CodeWrongWorker {
		t.Errorf("another's start got %+v", r)
	}
	if r := b.report(complete(it, `1`))[0]; r.OK {
		t.Errorf("another's end got %+v", r)
	}
	// The list of workers does not give a session away.
	for _, info := range e.workers(t) {
		if strings.Contains(a.session, info.Session) || strings.Contains(b.session, info.Session) {
			t.Errorf("the session of %s can be read", info.Worker)
		}
	}
	a.ok(complete(it, `1`))
	if got := e.item(t, id); got.Worker != "a" {
		t.Errorf("the item is %+v", got)
	}
}

// An engine that starts again on the same folder and port is met by a worker
// that runs an item: the worker's next heartbeat registers it again, the run
// goes on, and completes once.
func TestEngineRestart(t *testing.T) {
	slow(t)
	t.Parallel()
	const lease = 5 * time.Second
	dir := t.TempDir()
	o := embedded.Options{Dir: dir, Config: leases(lease, "step"), HTTP: need.Address(t).String()}
	e := startEngine(t, o)
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 2})
	id := e.submit(t, "step", `{}`)
	it := w.run()
	unbegun := e.submit(t, "step", `{}`)
	pulled := w.poll(wire.Poll{})
	if len(pulled.Items) != 1 {
		t.Fatalf("polled %+v", pulled)
	}
	e.http.CloseIdleConnections()
	if err := e.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	e = startEngine(t, o)
	w.e = e
	began := time.Now()
	for time.Since(began) < 2*lease { // longer than it would live without
		if orders := w.beat(it); len(orders.Cancel)+len(orders.Lost) > 0 {
			t.Fatalf("orders: %+v", orders)
		}
		<-time.After(lease / 6) // the pace of a worker
	}
	if list := e.workers(t); len(list) != 1 || list[0].Worker != w.id || list[0].Slots != 2 || list[0].InFlight != 1 {
		t.Errorf("workers: %+v", list)
	}
	// What was handed out and not started has been dispatched anew.
	again := w.one()
	if again.ID != unbegun || again.Attempt != 1 || again.Token == pulled.Items[0].Token {
		t.Errorf("polled %+v", again)
	}
	if got := w.poll(wire.Poll{Wait: ms(50 * time.Millisecond)}); len(got.Items) != 0 {
		t.Errorf("%d items beyond the slots", len(got.Items))
	}
	w.ok(complete(it, `1`))
	w.ok(complete(again, `1`))
	for _, id := range []string{id, unbegun} {
		kinds := e.kinds(t, id)
		n := 0
		for _, k := range kinds {
			if k == "completed" {
				n++
			}
		}
		if n != 1 || slices.Contains(kinds, "failed") {
			t.Errorf("history of %s: %v", id, kinds)
		}
	}
}

// natsCaller asks an engine over NATS.
type natsCaller struct{ nc *nats.Conn }

func (c natsCaller) Call(ctx context.Context, endpoint string, body []byte) ([]byte, error) {
	m, err := c.nc.RequestWithContext(ctx, wire.Default.API(endpoint), body)
	if err != nil {
		return nil, err
	}
	if code := m.Header.Get("Nats-Service-Error-Code"); code != "" {
		return nil, events.Refuse(events.Code(code), "%s", m.Data)
	}
	return m.Data, nil
}

// bare is a bridge of its own on an engine.
func bare(t *testing.T, gone time.Duration) (*bridge.Bridge, *engine) {
	t.Helper()
	return bareWith(t, func(c *bridge.Config) { c.Gone = gone })
}

func bareWith(t *testing.T, change func(*bridge.Config)) (*bridge.Bridge, *engine) {
	t.Helper()
	e := startEngine(t, embedded.Options{Config: leases(10*time.Minute, "step")})
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	cfg := bridge.Config{Conn: nc, Engine: natsCaller{nc}}
	change(&cfg)
	b, err := bridge.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(testContext(t)); err != nil {
			t.Error(err)
		}
		nc.Close()
	})
	return b, e
}

// A worker that is silent for too long is dropped, and is back with its next
// request.
func TestASilentWorkerIsDropped(t *testing.T) {
	slow(t)
	t.Parallel()
	b, e := bare(t, 200*time.Millisecond)
	ctx := testContext(t)
	reg, err := b.Register(ctx, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	open, leave := context.WithCancel(ctx)
	var poll sync.WaitGroup
	poll.Go(func() { _, _ = b.Poll(open, reg.Worker, wire.Poll{Session: reg.Session}) })
	need.Eventually(t, "the poll is open", func() bool { return e.waiting(t, "step") == 1 })
	<-time.After(600 * time.Millisecond) // far longer than it may be silent
	if n := b.Sessions(); n != 1 {
		t.Errorf("%d sessions with an open poll", n)
	}
	leave()
	poll.Wait()
	need.Eventually(t, "it is dropped", func() bool { return b.Sessions() == 0 })
	id := e.submit(t, "step", `{}`)
	got, err := b.Poll(ctx, reg.Worker, wire.Poll{Session: reg.Session})
	if err != nil || len(got.Items) != 1 || got.Items[0].ID != id {
		t.Fatalf("polled %+v %v", got, err)
	}
	// The run outlives the session, too.
	need.Eventually(t, "it is dropped again", func() bool { return b.Sessions() == 0 })
	if _, err := b.Report(ctx, reg.Worker, reg.Session, []wire.Report{complete(got.Items[0], `1`)}); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "the item completes", func() bool { return e.item(t, id).State == events.StateCompleted })
}

func TestOneWorkerTooMany(t *testing.T) {
	const most = 3
	b, _ := bareWith(t, func(c *bridge.Config) { c.MaxWorkers = most })
	ctx := testContext(t)
	for range most {
		if _, err := b.Register(ctx, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.Register(ctx, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	var refused *events.Error
	if !errors.As(err, &refused) || refused.Code != events.CodeUnavailable || refused.RetryAfter == 0 {
		t.Errorf("one worker too many: %v", err)
	}
}
