package bridge_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/streamwright/streamwright/api/bridge"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

func TestPollWaitsAndEndsInTime(t *testing.T) {
	slow(t)
	t.Parallel()
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	for _, wait := range []time.Duration{0, 5 * time.Millisecond, 300 * time.Millisecond} {
		began := time.Now()
		if got := w.poll(wire.Poll{Wait: ms(wait)}); len(got.Items) != 0 || got.ShouldDrain {
			t.Fatalf("polled %+v", got)
		}
		if took := time.Since(began); took < wait || took > wait+15*time.Second {
			t.Errorf("a poll of %s took %s", wait, took)
		}
	}
	id := e.submit(t, "step", `{}`)
	need.Eventually(t, "a poll that does not wait finds what there is", func() bool {
		got := w.poll(wire.Poll{Wait: ms(0)})
		return len(got.Items) == 1 && got.Items[0].ID == id
	})
}

// While a poll is open it costs nothing: no messages but the registrations.
func TestPollDoesNotPoll(t *testing.T) {
	slow(t)
	t.Parallel()
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"a", "b"}, Slots: 5})
	got := make(chan wire.Polled, 1)
	go func() { got <- w.poll(wire.Poll{Wait: ms(3 * time.Second)}) }()
	need.Eventually(t, "the poll is open", func() bool { return e.waiting(t, "a") > 0 && e.waiting(t, "b") > 0 })
	before, _ := e.Traffic()
	<-got
	after, _ := e.Traffic()
	if n := after - before; n > 60 {
		t.Errorf("%d messages while a poll waited", n)
	}
}

// A poll outlasts the deadlines of the server's reads, and keeps its worker
// registered.
func TestPollOutlastsReadDeadlines(t *testing.T) {
	slow(t)
	t.Parallel()
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	began := time.Now()
	if got := w.poll(wire.Poll{Wait: ms(12 * time.Second)}); len(got.Items) != 0 {
		t.Fatalf("polled %+v", got)
	}
	if took := time.Since(began); took < 12*time.Second {
		t.Errorf("the poll took %s", took)
	}
	if list := e.workers(t); len(list) != 1 || list[0].LastSeen.Before(began.Add(2*time.Second)) {
		t.Errorf("workers: %+v", list)
	}
}

// What a client that goes away would have been given reaches another worker at
// once, not when its lease is over, at whatever moment it goes: a poll either
// returns an item or gives it back.
func TestClientGoneLosesNothing(t *testing.T) {
	b, e := bare(t, time.Minute) // with a lease of ten minutes
	ctx := testContext(t)
	register := func() wire.WorkerSession {
		reg, err := b.Register(ctx, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
		if err != nil {
			t.Fatal(err)
		}
		return reg
	}
	leaver, other := register(), register()
	for round := range 40 {
		client, leave := context.WithCancel(ctx)
		var got wire.Polled
		var gotErr error
		var wg sync.WaitGroup
		wg.Go(func() {
			got, gotErr = b.Poll(client, leaver.Worker, wire.Poll{Session: leaver.Session})
		})
		need.Eventually(t, "the poll is open", func() bool { return e.waiting(t, "step") > 0 })
		var id string
		if round%4 < 2 { // at about the same time
			wg.Go(leave)
			id = e.submit(t, "step", `{}`)
		} else { // before
			leave()
			wg.Wait()
			id = e.submit(t, "step", `{}`)
		}
		wg.Wait()
		by := leaver
		if len(got.Items) == 0 {
			if gotErr == nil {
				t.Fatalf("round %d: the poll of a client that has gone ended without items or error", round)
			}
			by = other
			var err error
			if got, err = b.Poll(ctx, other.Worker, wire.Poll{Session: other.Session}); err != nil {
				t.Fatal(err)
			}
		}
		if len(got.Items) != 1 || got.Items[0].ID != id || got.Items[0].Attempt != 1 {
			t.Fatalf("round %d: polled %+v, want %s", round, got, id)
		}
		it := got.Items[0]
		replies, err := b.Report(ctx, by.Worker, by.Session, []wire.Report{complete(it, `1`)})
		if err != nil || !replies[0].OK {
			t.Fatalf("round %d: %+v %v", round, replies, err)
		}
	}
}

func TestASecondPollTakesOver(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	first := make(chan int, 1)
	code := make(chan events.Code, 1)
	go func() {
		status, p, _ := e.ask(testContext(t), http.MethodPost, w.path("poll"), wire.Poll{Session: w.session}, nil)
		first <- status
		code <- p.Code
	}()
	need.Eventually(t, "the first poll is open", func() bool { return e.waiting(t, "step") == 1 })
	second := make(chan wire.Polled, 1)
	go func() { second <- w.poll(wire.Poll{}) }()
	if status, c := <-first, <-code; status != http.StatusConflict || c != events.CodeWorkerIDInUse {
		t.Errorf("the first poll ended with %d %s", status, c)
	}
	id := e.submit(t, "step", `{}`)
	if got := <-second; len(got.Items) != 1 || got.Items[0].ID != id {
		t.Errorf("the second poll returned %+v", got)
	}
}

func TestDrainEndsAPoll(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	got := make(chan wire.Polled, 1)
	go func() { got <- w.poll(wire.Poll{}) }()
	need.Eventually(t, "the poll is open", func() bool { return e.waiting(t, "step") == 1 })
	var ok wire.OK
	e.request(t, wire.APIDrain, wire.Drain{Worker: w.id}, &ok)
	if p := <-got; !p.ShouldDrain || len(p.Items) != 0 {
		t.Errorf("polled %+v", p)
	}
	if o := w.beat(); !o.ShouldDrain {
		t.Errorf("orders: %+v", o)
	}
	if p := w.poll(wire.Poll{}); !p.ShouldDrain {
		t.Errorf("polled %+v", p)
	}
}

func TestAnUnhealthyWorkerIsGivenNothing(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	sick := wire.WorkerHeartbeat{Session: w.session, Health: &wire.Health{Failing: []wire.FailingCheck{{Check: "disk", Error: "full"}}}}
	var o wire.WorkerOrders
	if w.must("heartbeat", sick, &o); o.Status != wire.WorkerUnhealthy || o.Reason != "disk: full" {
		t.Fatalf("orders: %+v", o)
	}
	id := e.submit(t, "step", `{}`)
	if got := w.poll(wire.Poll{Wait: ms(100 * time.Millisecond)}); len(got.Items) != 0 || got.Status != wire.WorkerUnhealthy {
		t.Errorf("polled %+v", got)
	}
	w.beat()
	if it := w.one(); it.ID != id {
		t.Errorf("polled %+v", it)
	}
}

// Stop ends an open poll.
func TestStopEndsPolls(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	ended := make(chan int, 1)
	go func() {
		status, _, _ := e.ask(testContext(t), http.MethodPost, w.path("poll"), wire.Poll{Session: w.session, Wait: ms(time.Minute)}, nil)
		ended <- status
	}()
	need.Eventually(t, "the poll is open", func() bool { return e.waiting(t, "step") == 1 })
	began := time.Now()
	if err := e.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if status := <-ended; status != http.StatusServiceUnavailable {
		t.Errorf("the poll ended with %d", status)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("Stop took %s", took)
	}
}

// A worker takes an item only in a poll, even if it has the most slots free: what comes while
// it does not poll goes to the first that does, and was never anybody else's.
func TestAWorkerThatDoesNotPollTakesNothing(t *testing.T) {
	t.Parallel()
	e := startEngine(t, embedded.Options{})
	busy := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 10})
	free := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	e.submit(t, "step", `{}`)
	busy.one()
	id := e.submit(t, "step", `{}`)
	if it := free.one(); it.ID != id || it.Attempt != 1 {
		t.Errorf("polled %+v", it)
	}
	if got := e.kinds(t, id); !slices.Equal(got, []string{"created", "queued", "claimed"}) {
		t.Errorf("the item's history is %v", got)
	}
}

func TestBoundsOfPollsAndReports(t *testing.T) {
	t.Parallel()
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	many := reports{Session: w.session, Reports: make([]wire.Report, bridge.MaxReports+1)}
	refs := make([]wire.RunRef, bridge.MaxInFlight+1)
	for name, c := range map[string]struct {
		op   string
		body any
		want []int
	}{
		"wait below":    {"poll", wire.Poll{Session: w.session, Wait: ms(-time.Second)}, []int{400}},
		"wait beyond":   {"poll", wire.Poll{Session: w.session, Wait: ms(bridge.MaxWait + time.Second)}, []int{400}},
		"max below":     {"poll", wire.Poll{Session: w.session, Max: -1}, []int{400}},
		"too many":      {"report", many, []int{413}},
		"too many runs": {"heartbeat", wire.WorkerHeartbeat{Session: w.session, InFlight: refs}, []int{413}},
		"too large":     {"poll", map[string]string{"session": string(make([]byte, 1<<20))}, []int{413}},
		"unknown field": {"poll", map[string]any{"session": w.session, "wait": 1}, []int{400, 422}},
		"no session":    {"poll", map[string]any{}, []int{400, 422}},
	} {
		status, _, err := e.ask(testContext(t), http.MethodPost, w.path(c.op), c.body, nil)
		for errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) { // the server has answered and left before it was heard out
			status, _, err = e.ask(testContext(t), http.MethodPost, w.path(c.op), c.body, nil)
		}
		if err != nil || !slices.Contains(c.want, status) {
			t.Errorf("%s: %d %v", name, status, err)
		}
	}
	if status, p, err := e.ask(testContext(t), http.MethodPost, "/api/v1/workers", wire.WorkerRegistration{Types: []string{"step"}, Slots: 2000}, nil); err != nil || status != 400 || p.Code != events.CodeBadRequest {
		t.Errorf("2,000 slots: %d %+v %v", status, p, err)
	}
}

// A client that breaks off without a word is like any other: an item that was just on its way
// to it goes back, with no attempt used.
func TestABrokenConnectionEndsThePoll(t *testing.T) {
	e := startEngine(t, embedded.Options{Config: leases(2*time.Second, "step")})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	conn, err := net.Dial("tcp", e.HTTP())
	if err != nil {
		t.Fatal(err)
	}
	body := `{"session":"` + w.session + `","wait_ms":20000}`
	_, err = conn.Write([]byte("POST " + w.path("poll") + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " + itoa(len(body)) + "\r\n\r\n" + body))
	if err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "the poll is open", func() bool { return e.waiting(t, "step") == 1 })
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
	id := e.submit(t, "step", `{}`)
	if it := w.one(); it.ID != id || it.Attempt != 1 {
		t.Errorf("polled %+v", it)
	}
}
