package dispatcher

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
)

// shortLease gives a type a lease whose end a test can wait for, of many times what it
// does within one.
func (h *harness) shortLease(typ events.Type) {
	h.t.Helper()
	set := events.DefaultTypeSettings()
	set.Lease = events.Millis(3000)
	h.do(core.Configure{Type: typ, Source: events.SourceAPI, Settings: set})
}

// equalsLog rebuilds the projection from the log and compares.
func (h *harness) equalsLog() {
	h.t.Helper()
	v, err := h.store.Verify(h.ctx(), projectorLog{h.log}, nil)
	if err != nil || !v.Equal {
		h.t.Fatalf("the live store is not what the log says: %v %v", err, v.Diff)
	}
}

// finish starts and completes an item.
func (h *harness) finish(m received) {
	h.t.Helper()
	if r := h.begin(m); !r.OK {
		h.t.Fatalf("start: %+v", r.Error)
	}
	h.complete(m)
}

func (h *harness) complete(m received) {
	h.t.Helper()
	if r := h.report(reportOf(m, wire.ReportComplete))[0]; !r.OK {
		h.t.Fatalf("complete: %+v", r.Error)
	}
}

// The intake is deleted under the running engine: work goes on.
func TestStreamsDeletedWhileItRuns(t *testing.T) {
	slow(t)
	t.Parallel()
	// The server mostly says that it has deleted a stream; else a sweep finds out.
	h := newHarness(t, func(c *Config) { c.Sweep = time.Second })
	h.register("w", 4, "email")
	h.submit("email")
	running := h.pull("email")
	if r := h.begin(running); !r.OK {
		t.Fatalf("%+v", r)
	}
	waiting := h.submit("email")
	if err := h.js.DeleteStream(h.ctx(), "WORK_INTAKE"); err != nil {
		t.Fatal(err)
	}
	if m := h.pull("email"); m.ID != waiting.String() {
		t.Fatal("another item")
	} else {
		h.finish(m)
	}
	if r := h.report(reportOf(running, wire.ReportComplete))[0]; !r.OK {
		t.Fatalf("the run did not survive: %+v", r.Error)
	}
	h.until("the intake is there again", func() bool {
		_, err := h.js.Publish(h.ctx(), "work.submit.email", []byte(`{"after":true}`))
		return err == nil
	})
	m := h.pull("email")
	if string(m.Params) != `{"after":true}` {
		t.Fatalf("%s", m.Params)
	}
	h.finish(m)
	h.equalsLog()
}

// The intake is deleted after some of it was answered: what comes then is not
// taken for what was answered.
func TestIntakeIsNumberedOnBehindTheLog(t *testing.T) {
	h := newHarness(t, nil)
	for range 5 {
		if _, err := h.js.Publish(h.ctx(), "work.submit.email", nil); err != nil {
			t.Fatal(err)
		}
	}
	h.until("all are decided", func() bool { m, err := h.store.Meta(); return err == nil && m.IntakeSeq == 5 })
	h.stopEngine()
	if err := h.js.DeleteStream(h.ctx(), "WORK_INTAKE"); err != nil {
		t.Fatal(err)
	}
	// It is there, and has lost its end: what a power loss may leave.
	if _, err := h.js.CreateStream(h.ctx(), jetstream.StreamConfig{Name: "WORK_INTAKE", Subjects: []string{"work.submit.*"}, Duplicates: events.MsgIDWindow,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, MaxBytes: 1 << 30,
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: "work.submit.*", Destination: "work.intake.0.{{wildcard(1)}}"}}); err != nil {
		t.Fatal(err)
	}
	h.startEngine()
	ack, err := h.js.Publish(h.ctx(), "work.submit.email", nil)
	if err != nil || ack.Sequence <= 5 {
		t.Fatalf("%+v %v", ack, err)
	}
	h.until("it is decided", func() bool { m, err := h.store.Meta(); return err == nil && m.IntakeSeq == ack.Sequence })
}

// A worker dies in mid-run: another has the item within the lease and a little,
// and what the dead one says later is refused.
func TestDeadWorkersItemComesWithinTheLease(t *testing.T) {
	slow(t)
	t.Parallel()
	h := newHarness(t, nil)
	h.shortLease("email")
	h.register("w1", 1, "email")
	h.register("w2", 1, "email")
	h.submit("email")
	dead := h.pull("email")
	if r := h.begin(dead); !r.OK {
		t.Fatalf("%+v", r)
	}
	from := time.Now()
	second := h.pull("email")
	took := time.Since(from)
	t.Logf("the lease of 3s came to an end after %s", took)
	if took > 30*time.Second { // half of the time between two sweeps, which would find it too
		t.Fatal("too late")
	}
	h.finish(second)
	if r := h.report(reportOf(dead, wire.ReportComplete))[0]; r.Error == nil {
		t.Fatalf("a late completion was taken: %+v", r)
	}
}

// A worker that is gone when an owner begins: its run fails within a lease, which counts from
// then on.
func TestLeaseUnderANewOwner(t *testing.T) {
	slow(t)
	t.Parallel()
	h := newHarness(t, nil)
	h.shortLease("email")
	h.register("w1", 1, "email")
	id := h.submit("email")
	if r := h.begin(h.pull("email")); !r.OK {
		t.Fatalf("%+v", r)
	}
	h.stopEngine()
	h.startEngine()
	from := time.Now()
	h.until("the run has failed", func() bool { return h.item(id).State != events.StateRunning })
	if took := time.Since(from); took > 30*time.Second { // half of the time between two sweeps
		t.Fatalf("found after %s", took)
	}
}

// faultyLog lets a test into an append: before it is sent and after it is
// answered. What the hook returns becomes the append's error.
type faultyLog struct {
	eventlog.Log
	mu     sync.Mutex
	before func(evs []events.Event) error
	after  func(evs []events.Event) error
}

func (f *faultyLog) set(before, after func([]events.Event) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func (f *faultyLog) Append(ctx context.Context, after uint64, w *eventlog.Write) (eventlog.Appended, error) {
	f.mu.Lock()
	before, told := f.before, f.after
	f.mu.Unlock()
	if before != nil {
		if err := before(w.Events); err != nil {
			return eventlog.Appended{}, err
		}
	}
	res, err := f.Log.Append(ctx, after, w)
	if err == nil && told != nil {
		err = told(w.Events)
	}
	if err != nil {
		return eventlog.Appended{}, err
	}
	return res, nil
}

// once makes a hook that returns an ambiguous error the n-th time.
func once(n int) func([]events.Event) error {
	return func(evs []events.Event) error {
		if n--; n == 0 {
			return &eventlog.AmbiguousError{Count: len(evs), Cause: context.DeadlineExceeded}
		}
		return nil
	}
}

// 1,000 concurrent submissions of one dedup key: one runs, 999 are merged into
// it, and their provenance is complete. The same when an append in the middle
// is lost, or its answer.
func TestOneDedupKey(t *testing.T) {
	slow(t)
	t.Parallel()
	for name, hooks := range map[string][2]func([]events.Event) error{
		"all is well": {}, "an append is lost": {once(3), nil}, "its answer is lost": {nil, once(3)},
	} {
		t.Run(name, func(t *testing.T) {
			log := &faultyLog{}
			h := newHarness(t, func(c *Config) { log.Log = c.Log; c.Log = log })
			log.set(hooks[0], hooks[1])
			const n = 1000
			var wg sync.WaitGroup
			for i := range n {
				id := h.eng.NewID()
				wg.Go(func() { h.submitUntilTaken(id, fmt.Sprintf("from %d", i)) })
			}
			wg.Wait()
			if err := h.eng.Await(h.ctx(), h.eng.Position()); err != nil {
				t.Fatal(err)
			}
			h.oneCanonical(n)
			h.equalsLog()
		})
	}
}

// submitUntilTaken submits an item under an id of its own, again as long as the
// engine does not know what became of it.
func (h *harness) submitUntilTaken(id events.ID, source string) {
	for {
		_, err := h.eng.one(h.ctx(), core.Submit{Type: "email", ID: id, NewID: id, DedupKey: "k", Provenance: events.Provenance{Source: source}})
		if err == nil {
			return
		}
		if events.CodeOf(err) != events.CodeUnavailable {
			h.t.Errorf("submit: %v", err)
			return
		}
	}
}

func (h *harness) oneCanonical(n int) {
	h.t.Helper()
	types, err := h.store.Types()
	if err != nil || len(types) != 1 {
		h.t.Fatalf("%v %v", types, err)
	}
	if q, m := types[0].Counts[events.StateQueued], types[0].Counts[events.StateMerged]; q != 1 || m != int64(n-1) {
		h.t.Fatalf("%d queued, %d merged", q, m)
	}
	var canonical *events.Item
	err = h.store.InState(events.StateQueued, func(it *events.Item) error { canonical = it; return nil })
	if err != nil || canonical.MergedCount != n-1 {
		h.t.Fatalf("%+v %v", canonical, err)
	}
	sources := map[string]bool{canonical.Provenance.Source: true}
	err = h.log.Read(h.ctx(), 1, h.eng.Position().Frame(), func(f eventlog.Frame) error {
		for _, ev := range f.Events {
			if c, ok := ev.Body.(*events.Created); ok {
				sources[c.Provenance.Source] = true
			}
		}
		return nil
	})
	if err != nil || len(sources) != n {
		h.t.Fatalf("%d sources of %d: %v", len(sources), n, err)
	}
}

// Two engines on one log by force, over and over: each time one is fenced and
// goes on from the log. Nothing is lost or claimed twice, there is no hole and
// no fork, and both projections are what the log says.
func TestTwoEnginesOnOneLog(t *testing.T) {
	slow(t)
	t.Parallel()
	h := newHarness(t, func(c *Config) { c.Alone = false })
	var lost sync.WaitGroup
	lost.Add(2)
	var once [2]sync.Once
	log, err := eventlog.Open(h.ctx(), eventlog.Config{Connect: func() (*nats.Conn, error) {
		return nats.Connect("", nats.InProcessServer(h.srv), nats.ReconnectBufSize(-1))
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	store, err := projector.Open(h.dir+"/second", projector.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	first := h.eng
	h.eng.cfg.Hooks.Lost = func(err error) {
		if err != nil {
			once[0].Do(lost.Done)
		}
	}
	second, err := New(Config{Log: log, Store: store, Conn: h.nc, Owner: "second", Hooks: Hooks{Lost: func(err error) {
		if err != nil {
			once[1].Do(lost.Done)
		}
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(h.ctx()); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var ids sync.Map
	var work sync.WaitGroup
	for i, e := range []*Dispatcher{first, second} {
		work.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				id := e.NewID()
				c := core.Submit{Type: "email", ID: id, NewID: id, Params: json.RawMessage(fmt.Sprintf(`{"engine":%d,"n":%d}`, i, n))}
				if _, err := e.one(h.ctx(), c); err == nil {
					ids.Store(id, true)
				}
			}
		})
	}
	both := make(chan struct{})
	go func() { lost.Wait(); close(both) }()
	select {
	case <-both: // each has been fenced by the other
	case <-time.After(2 * patience):
		t.Fatal("no engine was fenced")
	}
	close(stop)
	work.Wait()
	if err := second.Stop(h.ctx()); err != nil {
		t.Fatal(err)
	}
	h.until("the first owns it again", func() bool {
		id := first.NewID()
		_, err := first.one(h.ctx(), core.Submit{Type: "email", ID: id, NewID: id})
		return err == nil
	})
	if err := first.Await(h.ctx(), first.Position()); err != nil {
		t.Fatal(err)
	}
	h.equalsLog()
	ids.Range(func(id, _ any) bool {
		h.item(id.(events.ID))
		return true
	})
}
