package acceptance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

func TestCancelOfARunningItem(t *testing.T) {
	r := inMemory(t, "[types.job]\ncapacity = 1\n")
	causes := make(chan error, 1)
	letGo := make(chan struct{})
	begun := make(chan string, 10)
	r.worker(workers.Config{Concurrency: 4}, "job", func(ctx context.Context, it *workers.RawItem) (any, error) {
		begun <- it.ID.String()
		if string(it.Raw) != `"hang"` {
			return nil, nil
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		<-letGo
		return "too late", nil
	})
	id := r.submit(streamwright.Item{Type: "job", Params: "hang"})
	recv(t, "the run", begun)
	r.until(id, events.StateRunning)
	next := r.submit(streamwright.Item{Type: "job"})
	state, was, err := r.c.Cancel(r.ctx, id, "mistake")
	if err != nil || state != events.StateCancelled || !was {
		t.Fatalf("got %s %t %v", state, was, err)
	}
	if cause := recv(t, "the cancel", causes); !errors.Is(cause, workers.ErrCancelled) {
		t.Errorf("the handler's context ended with %v", cause)
	}
	// The slot of the only place is still the cancelled run's.
	if it := r.get(next); it.State != events.StateQueued {
		t.Errorf("the next item is %s while the cancelled one's worker has not let go", it.State)
	}
	close(letGo)
	r.wait(next, events.StateCompleted)
	if it := r.get(id); it.State != events.StateCancelled || it.Reason != "mistake" || it.Result != nil {
		t.Errorf("the late result was taken: %+v", it)
	}
	_, _, err = r.c.Cancel(r.ctx, next, "")
	wantCode(t, err, events.CodeWrongState, "completed")
	r.verify()
}

func TestCancelOfAQueuedItem(t *testing.T) {
	r := inMemory(t, "")
	id := r.submit(streamwright.Item{Type: "job"})
	if state, was, err := r.c.Cancel(r.ctx, id, ""); err != nil || state != events.StateCancelled || was {
		t.Errorf("got %s %t %v", state, was, err)
	}
	r.worker(workers.Config{}, "job", done)
	r.wait(r.submit(streamwright.Item{Type: "job"}), events.StateCompleted)
	if it := r.get(id); it.State != events.StateCancelled || it.Attempt != 0 {
		t.Errorf("got %+v", it)
	}
}

func TestTimeoutRetryAndDead(t *testing.T) {
	t.Parallel()
	r := inMemory(t, "[defaults]\nbackoff = {initial = \"10ms\", max = \"20ms\"}\n")
	// A handler that overstays is cancelled, and tried again.
	r.worker(workers.Config{}, "slow", func(ctx context.Context, it *workers.RawItem) (any, error) {
		if it.Attempt == 1 {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return int(it.Attempt), nil
	})
	it := r.wait(r.submit(streamwright.Item{Type: "slow", Timeout: time.Second}), events.StateCompleted)
	if it.Attempt != 2 {
		t.Errorf("completed in attempt %d", it.Attempt)
	}
	if ev := r.first(it.ID, events.KindFailed); !contains(string(ev.Data), `"code":"timeout"`) {
		t.Errorf("got %s", ev.Data)
	}
	// Attempts run out.
	r.worker(workers.Config{}, "bad", func(context.Context, *workers.RawItem) (any, error) {
		return nil, workers.WithCode(errors.New("no route"), "net")
	})
	it = r.wait(r.submit(streamwright.Item{Type: "bad", MaxAttempts: 3}), events.StateDead)
	if it.Attempt != 3 || it.Error == nil || it.Error.Code != "net" || it.Error.Message != "no route" {
		t.Errorf("got %+v %+v", it, it.Error)
	}
	// Not retryable: no second attempt. A panic is a failure like others.
	r.worker(workers.Config{}, "worse", func(_ context.Context, it *workers.RawItem) (any, error) {
		if string(it.Raw) == `"panic"` {
			panic("at the disco")
		}
		return nil, workers.Permanent(errors.New("never"))
	})
	if it = r.wait(r.submit(streamwright.Item{Type: "worse"}), events.StateDead); it.Attempt != 1 || it.Error.Retryable {
		t.Errorf("got %+v %+v", it, it.Error)
	}
	if it = r.wait(r.submit(streamwright.Item{Type: "worse", Params: "panic", MaxAttempts: 2}), events.StateDead); it.Attempt != 2 || it.Error.Code != events.FailPanic {
		t.Errorf("got %+v %+v", it, it.Error)
	}
	// A failure may say when to try again.
	var first atomic.Int64
	r.worker(workers.Config{}, "later", func(_ context.Context, it *workers.RawItem) (any, error) {
		if it.Attempt == 1 {
			first.Store(time.Now().UnixNano())
			return nil, workers.RetryAfter(errors.New("busy"), 300*time.Millisecond)
		}
		return time.Now().UnixNano(), nil
	})
	it = r.wait(r.submit(streamwright.Item{Type: "later"}), events.StateCompleted)
	if second := must(streamwright.Result[int64](it))(t); second-first.Load() < int64(300*time.Millisecond) {
		t.Errorf("tried again after %v", time.Duration(second-first.Load()))
	}
	r.verify()
}

func (r *rig) first(id string, k events.Kind) streamwright.Event {
	r.t.Helper()
	for _, ev := range must(r.c.History(r.ctx, id))(r.t) {
		if ev.Kind == k {
			return ev
		}
	}
	r.t.Fatalf("item %s has no %s event: %v", id, k, r.kinds(id))
	return streamwright.Event{}
}

func TestPriorityDelayReschedule(t *testing.T) {
	r := inMemory(t, "[types.job]\ncapacity = 1\n")
	at := time.Now().Add(time.Hour)
	low := r.submit(streamwright.Item{Type: "job", Params: "low", Priority: 2})
	mid := r.submit(streamwright.Item{Type: "job", Params: "mid"})
	mid2 := r.submit(streamwright.Item{Type: "job", Params: "mid2"})
	high := r.submit(streamwright.Item{Type: "job", Params: "high", Priority: 8})
	later := r.submit(streamwright.Item{Type: "job", Params: "later", AvailableAt: at, Priority: 9})
	raised := r.submit(streamwright.Item{Type: "job", Params: "raised", Priority: streamwright.Lowest})
	delayed := r.submit(streamwright.Item{Type: "job", Params: "delayed", Delay: 300 * time.Millisecond, Priority: 9})
	submitted := time.Now()
	if err := r.c.Reschedule(r.ctx, raised, streamwright.RescheduleOptions{Priority: 9}); err != nil {
		t.Fatal(err)
	}
	if it := r.get(later); it.State != events.StateQueued || !it.AvailableAt.Equal(at.Round(0)) {
		t.Errorf("got %+v, want it due at %v", it, at)
	}
	var mu sync.Mutex
	var order []string
	began := map[string]time.Time{}
	r.worker(workers.Config{Concurrency: 1}, "job", func(_ context.Context, it *workers.RawItem) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		if s := string(it.Raw); s != `"delayed"` && s != `"later"` {
			order = append(order, s)
		}
		began[it.ID.String()] = time.Now()
		return nil, nil
	})
	for _, id := range []string{low, mid, mid2, high, raised, delayed} {
		r.wait(id, events.StateCompleted)
	}
	mu.Lock()
	if got, want := fmt.Sprint(order), `["raised" "high" "mid" "mid2" "low"]`; got != want {
		t.Errorf("run in the order %s, want %s", got, want)
	}
	if d := began[delayed].Sub(submitted); d < 250*time.Millisecond {
		t.Errorf("the delayed item began after %v", d)
	}
	mu.Unlock()
	if it := r.get(later); it.State != events.StateQueued || it.Attempt != 0 {
		t.Errorf("got %+v", it)
	}
	if err := r.c.Reschedule(r.ctx, later, streamwright.RescheduleOptions{Now: true}); err != nil {
		t.Fatal(err)
	}
	r.wait(later, events.StateCompleted)
	wantCode(t, r.c.Reschedule(r.ctx, later, streamwright.RescheduleOptions{Now: true}), events.CodeWrongState)
	r.verify()
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	r := inMemory(t, "[limits]\nmax_running = 5\n[types.narrow]\ncapacity = 2\n")
	var now, most [2]atomic.Int64
	handler := func(i int) workers.Handler {
		return func(context.Context, *workers.RawItem) (any, error) {
			n := now[i].Add(1)
			defer now[i].Add(-1)
			for m := most[i].Load(); n > m && !most[i].CompareAndSwap(m, n); m = most[i].Load() {
			}
			time.Sleep(2 * time.Millisecond) // long enough to overlap
			return nil, nil
		}
	}
	r.worker(workers.Config{Concurrency: 20}, "narrow", handler(0))
	r.worker(workers.Config{Concurrency: 20}, "wide", handler(1))
	var items []streamwright.Item
	for i := range 200 {
		items = append(items, streamwright.Item{Type: []string{"narrow", "wide"}[i%2]})
	}
	for _, s := range must(r.c.SubmitMany(r.ctx, items))(t) {
		r.wait(s.ID, events.StateCompleted)
	}
	if n := most[0].Load(); n > 2 {
		t.Errorf("%d items of a type with capacity 2 ran at once", n)
	}
	if n := most[1].Load(); n > 5 {
		t.Errorf("%d items ran at once, max_running is 5", n)
	}
	t.Logf("at most %d and %d at once", most[0].Load(), most[1].Load())
}

func TestWorkerIDInUse(t *testing.T) {
	r := inMemory(t, "")
	r.worker(workers.Config{ID: "w1"}, "job", done)
	eventually(t, "the worker is registered", func() bool { return len(must(r.c.Workers().List(r.ctx))(t)) == 1 })
	nc := r.connect(access.Work.String())
	defer nc.Close()
	w := must(workers.New(nc, workers.Config{ID: "w1", Logger: logTo(r.log)}))(t)
	workers.HandleRaw(w, "job", done)
	err := w.Start(r.ctx)
	defer func() { _ = w.Stop(r.ctx) }()
	wantCode(t, err, events.CodeWorkerIDInUse, "w1")
}

// A worker that drains ends what it runs; what it has not begun runs elsewhere.
func TestDrain(t *testing.T) {
	r := inMemory(t, "")
	g := newGate()
	w := r.worker(workers.Config{ID: "w1", Concurrency: 2}, "job", g.run)
	var ids []string
	for range 8 {
		ids = append(ids, r.submit(streamwright.Item{Type: "job"}))
	}
	running := map[string]bool{recv(t, "a run", g.begun).ID.String(): true, recv(t, "a second", g.begun).ID.String(): true}
	if err := r.c.Workers().Drain(r.ctx, "w1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the worker is seen draining", func() bool {
		ws := must(r.c.Workers().List(r.ctx))(t)
		return len(ws) == 0 || ws[0].Status == "draining"
	})
	other := make(chan string, 100)
	r.worker(workers.Config{ID: "w2", Concurrency: 8}, "job", func(_ context.Context, it *workers.RawItem) (any, error) {
		other <- it.ID.String()
		return nil, nil
	})
	for range len(ids) - len(running) {
		if id := recv(t, "the others run elsewhere", other); running[id] {
			t.Errorf("item %s ran twice", id)
		}
	}
	close(g.open)
	for _, id := range ids {
		it := r.wait(id, events.StateCompleted)
		if it.Attempt != 1 {
			t.Errorf("item %s took %d attempts: %v", id, it.Attempt, r.kinds(id))
		}
	}
	recv(t, "the drained worker is done", w.Drained())
	wantCode(t, r.c.Workers().Drain(r.ctx, "w9"), events.CodeNotFound)
	r.verify()
}

// What the engine is told of runs, in words of the protocol.
func TestReportsThatAreRefused(t *testing.T) {
	r := inMemory(t, "")
	p := newProtocolWorker(r, "raw", "job")
	id := r.submit(streamwright.Item{Type: "job"})
	m := p.receive()
	if m.ID != id || m.Attempt != 1 {
		t.Fatalf("received %+v", m)
	}
	refuse := func(code events.Code, rep wire.Report) {
		t.Helper()
		if got := p.send(rep); got.Error == nil || got.Error.Code != code {
			t.Errorf("%+v: got %+v, want %s", rep, got, code)
		}
	}
	rep := func(event string) wire.Report { return p.report(m, event) }
	unknown := rep(wire.ReportStart)
	unknown.ID = "01JD3V6YB2M4C9W8ZK5T7QXRNE"
	refuse(events.CodeNotFound, unknown)
	lie := rep(wire.ReportStart)
	lie.Attempt = 7
	refuse(events.CodeWrongAttempt, lie)
	for range 2 { // a repeat gets the same answer
		if got := p.start(m); !got.OK || got.Attempt != 1 {
			t.Fatalf("got %+v", got)
		}
	}
	other := rep(wire.ReportComplete)
	other.Worker = "another"
	refuse(events.CodeWrongWorker, other)
	lie = rep(wire.ReportComplete)
	lie.Attempt = 2
	refuse(events.CodeWrongAttempt, lie)
	stale := rep(wire.ReportComplete)
	stale.Token = "999999"
	refuse(events.CodeStaleToken, stale)
	refuse(events.CodeBadRequest, rep("finish"))
	for range 2 {
		if got := p.send(rep(wire.ReportComplete)); !got.OK || got.State != events.StateCompleted {
			t.Fatalf("got %+v", got)
		}
	}
	r.until(id, events.StateCompleted) // the reports were not the client's own: its queries don't wait for them
	if got := fmt.Sprint(r.kinds(id)); got != "[created queued claimed running completed]" {
		t.Errorf("history %s", got)
	}
}

// protocolWorker speaks the worker protocol by hand, as one in another
// language would.
type protocolWorker struct {
	r     *rig
	me    wire.Register
	items *nats.Subscription
}

// newProtocolWorker registers a worker with one slot, and sends no heartbeat.
func newProtocolWorker(r *rig, id, typ string) *protocolWorker {
	r.t.Helper()
	p := &protocolWorker{r: r, me: wire.Register{Worker: id, Session: nuid.Next(), Types: []string{typ}, Slots: 1}}
	p.items = must(r.nc.SubscribeSync(names(r.nc).RunsOf(p.me.Session)))(r.t)
	p.ask(wire.APIRegister, p.me, &wire.Registered{})
	return p
}

func (p *protocolWorker) ask(op string, req, resp any) {
	p.r.t.Helper()
	body := mustJSON(p.r.t, req)
	msg := must(p.r.nc.Request("work.api."+op, body, patience))(p.r.t)
	fromJSON(p.r.t, msg.Data, resp)
}

// receive returns the item that the worker is sent next.
func (p *protocolWorker) receive() wire.Assigned {
	p.r.t.Helper()
	msg := must(p.items.NextMsg(patience))(p.r.t)
	var list []wire.Assigned
	if fromJSON(p.r.t, msg.Data, &list); len(list) != 1 {
		p.r.t.Fatalf("a worker with one slot is sent %s", msg.Data)
	}
	return list[0]
}

func (p *protocolWorker) report(m wire.Assigned, event string) wire.Report {
	return wire.Report{ID: m.ID, Token: m.Token, Worker: p.me.Worker, Session: p.me.Session, Event: event}
}

func (p *protocolWorker) send(r wire.Report) wire.Reported {
	p.r.t.Helper()
	var out []wire.Reported
	p.ask(wire.APIReport, []wire.Report{r}, &out)
	return out[0]
}

func (p *protocolWorker) start(m wire.Assigned) wire.Reported {
	p.r.t.Helper()
	return p.send(p.report(m, wire.ReportStart))
}
