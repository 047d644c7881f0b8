package bridge_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

func TestWorkOverHTTP(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"email"}, Slots: 2, Host: "here", Version: "1"})
	if w.id == "" || w.session == "" || w.reg.Heartbeat.Duration < time.Second || w.reg.Lease["email"] != events.Millis(30_000) {
		t.Errorf("registered: %+v", w.reg)
	}
	id := e.submitItem(t, wire.Submit{Type: "email", Params: json.RawMessage(`{"to":"you"}`), Labels: map[string]string{"k": "v"}})
	got := w.poll(wire.Poll{})
	if len(got.Items) != 1 || got.ShouldDrain {
		t.Fatalf("polled %+v", got)
	}
	it := got.Items[0]
	if it.ID != id || it.Type != "email" || it.Attempt != 1 || it.Token == "" || it.Lease != events.Millis(30_000) || it.Timeout != events.Millis(300_000) || string(it.Params) != `{"to":"you"}` || it.Labels["k"] != "v" {
		t.Errorf("polled %+v", it)
	}
	start := wire.Report{ID: id, Token: it.Token, Event: wire.ReportStart}
	first := w.ok(start)[0]
	if again := w.ok(start)[0]; again.Attempt != 1 || first.Deadline.IsZero() || !again.Deadline.Equal(first.Deadline) {
		t.Errorf("a repeated start got %+v, not %+v", again, first)
	}
	claim := wire.Report{ID: id, Token: it.Token, Event: "claim"}
	if r := w.report(claim)[0]; r.OK || r.Error.Code != events.CodeBadRequest {
		t.Errorf("a claim got %+v", r)
	}
	w.ok(wire.Report{ID: id, Token: it.Token, Event: wire.ReportProgress, ReportFlow: wire.ReportFlow{Percent: 50, Message: "half"}},
		wire.Report{ID: id, Token: it.Token, Event: wire.ReportCheckpoint, ReportFlow: wire.ReportFlow{Checkpoint: json.RawMessage(`{"page":3}`)}})
	if orders := w.beat(it); orders.ShouldDrain || len(orders.Cancel)+len(orders.Lost) > 0 {
		t.Errorf("orders: %+v", orders)
	}
	w.ok(complete(it, `{"sent":true}`))
	w.ok(complete(it, `{"sent":true}`)) // a repeat gets the same answer
	if got := e.item(t, id); got.State != events.StateCompleted || string(got.Result) != `{"sent":true}` || got.Worker != w.id {
		t.Errorf("the item is %+v", got)
	}
	if kinds := e.kinds(t, id); slices.Contains(kinds, "released") || !slices.Contains(kinds, "checkpointed") {
		t.Errorf("history: %v", kinds)
	}
	status, p, err := e.ask(testContext(t), http.MethodDelete, "/api/v1/workers/"+w.id, nil, nil, "Work-Session", w.session)
	if err != nil || status != http.StatusOK {
		t.Errorf("unregister: %d %v %v", status, p, err)
	}
	// A late request of the session does not bring the worker back.
	status, p, err = e.ask(testContext(t), http.MethodPost, w.path("heartbeat"), wire.WorkerHeartbeat{Session: w.session}, nil)
	if err != nil || p.Code != events.CodeUnknownWorker {
		t.Errorf("a late heartbeat: %d %v %v", status, p, err)
	}
	if list := e.workers(t); len(list) != 0 {
		t.Errorf("workers are left: %+v", list)
	}
}

func (e *engine) workers(t testing.TB) []wire.WorkerInfo {
	t.Helper()
	var out wire.WorkersReply
	e.request(t, wire.APIWorkers, struct{}{}, &out)
	return out.Workers
}

func TestEndsOfARun(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Worker: "w1", Types: []string{"step"}, Slots: 1})
	no := false
	for _, c := range []struct {
		name string
		end  wire.Report
		want events.ItemState
	}{
		{"fail for good", wire.Report{Event: wire.ReportFail, Error: "broken", Code: "x", Retryable: &no}, events.StateDead},
		{"fail", wire.Report{Event: wire.ReportFail, Error: "broken", RetryAfter: events.Millis(3_600_000)}, events.StateQueued},
		{"snooze", wire.Report{Event: wire.ReportSnooze, ReportFlow: wire.ReportFlow{Delay: events.Millis(3_600_000)}}, events.StateQueued},
		{"spawn", wire.Report{Event: wire.ReportSpawn, ReportFlow: wire.ReportFlow{Children: []wire.Submit{{Type: "other", Params: json.RawMessage(`1`)}}}}, events.StateWaiting},
	} {
		id := e.submit(t, "step", `{}`)
		it := w.one()
		if it.ID != id || it.Timeout.IsZero() {
			t.Fatalf("%s: polled %+v", c.name, it)
		}
		c.end.ID, c.end.Token = it.ID, it.Token
		w.ok(c.end)
		if got := e.item(t, id); got.State != c.want {
			t.Errorf("%s: the item is %s, not %s", c.name, got.State, c.want)
		}
	}
}

func TestReleaseBringsTheItemBackAtOnce(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	id := e.submit(t, "step", `{}`)
	first := w.one()
	w.ok(wire.Report{ID: id, Token: first.Token, Event: wire.ReportRelease, Reason: "later"})
	second := w.one()
	if second.ID != id || second.Token == first.Token || second.Attempt != 1 {
		t.Errorf("polled %+v behind %+v", second, first)
	}
	if r := w.report(complete(first, `1`))[0]; r.OK || r.Error.Code != events.CodeStaleToken {
		t.Errorf("a stale token got %+v", r)
	}
	w.ok(complete(second, `2`))
}

// A checkpoint of an earlier attempt comes with the item, also with one that has started since
// its poll is repeated.
func TestCheckpointComesWithTheItem(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	id := e.submit(t, "step", `{}`)
	it := w.one()
	w.ok(wire.Report{ID: id, Token: it.Token, Event: wire.ReportCheckpoint, ReportFlow: wire.ReportFlow{Checkpoint: json.RawMessage(`[7]`)}},
		wire.Report{ID: id, Token: it.Token, Event: wire.ReportFail, Error: "x", RetryAfter: events.Millis(1)})
	for _, started := range []bool{false, true} {
		got := w.poll(wire.Poll{Session: w.session, PollID: "1"})
		if len(got.Items) != 1 {
			t.Fatalf("polled %+v", got)
		}
		if it = got.Items[0]; it.Attempt != 2 || string(it.Checkpoint) != `[7]` || it.Deadline.IsZero() == started {
			t.Errorf("polled %+v, repeated %v", it, started)
		}
	}
	w.ok(complete(it, `1`))
}

func TestABadReportLeavesTheRunToItsWorker(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	id := e.submit(t, "step", `{}`)
	it := w.one()
	big, _ := json.Marshal(strings.Repeat("x", events.MaxCheckpoint))
	if r := w.report(wire.Report{ID: id, Token: it.Token, Event: wire.ReportCheckpoint, ReportFlow: wire.ReportFlow{Checkpoint: big}})[0]; r.OK || r.Error.Code != events.CodeTooLarge {
		t.Fatalf("a checkpoint that is too large got %+v", r)
	}
	if r := w.report(wire.Report{ID: id, Token: it.Token, Event: wire.ReportSpawn})[0]; r.OK || r.Error.Code != events.CodeBadRequest {
		t.Fatalf("a spawn without children got %+v", r)
	}
	if orders := w.beat(it); len(orders.Lost)+len(orders.Cancel) > 0 {
		t.Errorf("orders: %+v", orders)
	}
	w.ok(complete(it, `"small"`))
	if got := e.item(t, id); got.State != events.StateCompleted {
		t.Errorf("the item is %s", got.State)
	}
}

func TestSlotsBoundWhatIsHandedOut(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	for range 10 {
		e.submit(t, "step", `{}`)
	}
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 3})
	var have []wire.PolledItem
	for len(have) < 3 {
		got := w.poll(wire.Poll{})
		if len(got.Items) == 0 {
			t.Fatal("a poll came back empty")
		}
		have = append(have, got.Items...)
	}
	if len(have) != 3 {
		t.Fatalf("%d items for 3 slots", len(have))
	}
	if got := w.poll(wire.Poll{Wait: ms(200 * time.Millisecond)}); len(got.Items) != 0 {
		t.Fatalf("%d more items", len(got.Items))
	}
	w.ok(complete(have[0], `1`))
	if got := w.poll(wire.Poll{}); len(got.Items) != 1 {
		t.Errorf("%d items for a free slot", len(got.Items))
	}
}

// One poll takes what there is of several types, no more than is wanted, and
// hands nothing back for it.
func TestSeveralTypesInOnePoll(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"a", "b", "c"}, Slots: 4})
	var ids []string
	for _, typ := range []string{"a", "b", "b", "c", "c", "a"} {
		ids = append(ids, e.submit(t, typ, `{}`))
	}
	seen := map[string]bool{}
	for len(seen) < len(ids) {
		got := w.poll(wire.Poll{})
		if len(got.Items) == 0 || len(got.Items) > 4 {
			t.Fatalf("polled %d items", len(got.Items))
		}
		for _, it := range got.Items {
			if seen[it.ID] || it.Attempt != 1 {
				t.Errorf("item %s came again", it.ID)
			}
			seen[it.ID] = true
			w.ok(complete(it, `1`))
		}
	}
	for _, id := range ids {
		if kinds := e.kinds(t, id); slices.Contains(kinds, "released") {
			t.Errorf("item %s: %v", id, kinds)
		}
	}
}

// The first item that needs a capability reaches an open poll.
func TestACapabilityReachesAnOpenPoll(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"render"}, Slots: 1, Capabilities: []string{"gpu"}})
	got := make(chan wire.Polled, 1)
	go func() { got <- w.poll(wire.Poll{}) }()
	need.Eventually(t, "the poll is open", func() bool { return e.waiting(t, "render") == 1 })
	id := e.submitItem(t, wire.Submit{Type: "render", Params: json.RawMessage(`{}`), Capabilities: []string{"gpu"}})
	polled := <-got
	if len(polled.Items) != 1 || polled.Items[0].ID != id {
		t.Fatalf("polled %+v", polled)
	}
	w.ok(complete(polled.Items[0], `1`))
}

// waiting is how many items of a type the open polls have last offered to take.
func (e *engine) waiting(t testing.TB, typ string) (n int) {
	t.Helper()
	for _, w := range e.workers(t) {
		if slices.Contains(w.Types, typ) {
			n += w.Offered
		}
	}
	return n
}
