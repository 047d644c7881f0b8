package dispatcher

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

func TestAnItemGoesAllTheWay(t *testing.T) {
	h := newHarness(t, nil)
	h.register("w1", 1, "email")
	msg := nats.NewMsg("work.submit.email")
	msg.Data = []byte(`{"to":"kelly"}`)
	msg.Header.Set("Work-Labels", "a=b")
	ack, err := h.js.PublishMsg(h.ctx(), msg)
	if err != nil {
		t.Fatal(err)
	}
	m := h.pull("email")
	if string(m.Params) != `{"to":"kelly"}` || m.Attempt != 1 || m.Labels["a"] != "b" {
		t.Fatalf("sent: %+v", m)
	}
	if r := h.begin(m); !r.OK || r.Attempt != 1 {
		t.Fatalf("claim: %+v", r)
	}
	done := reportOf(m, wire.ReportComplete)
	done.Result = []byte(`"sent"`)
	if r := h.report(done)[0]; !r.OK || r.State != events.StateCompleted {
		t.Fatalf("complete: %+v", r)
	}
	id, err := events.ParseID(done.ID)
	if err != nil {
		t.Fatal(err)
	}
	if it := h.item(id); it.State != events.StateCompleted || it.IntakeSeq != ack.Sequence {
		t.Fatalf("%+v", it)
	}
	if r := h.report(done)[0]; !r.OK {
		t.Fatalf("a repeated report: %+v", r)
	}
}

func TestItemsWaitForAWorker(t *testing.T) {
	h := newHarness(t, nil)
	id := h.submit("email")
	h.register("w1", 1, "email")
	if m := h.pull("email"); m.ID != id.String() {
		t.Fatal("another item")
	}
}

func TestExpiredLeaseGoesToAnother(t *testing.T) {
	slow(t)
	t.Parallel()
	h := newHarness(t, nil)
	set := events.DefaultTypeSettings()
	set.Lease = events.Millis(3000)
	h.do(core.Configure{Type: "email", Source: events.SourceAPI, Settings: set})
	h.register("w1", 1, "email")
	h.register("w2", 1, "email")
	id := h.submit("email")
	first := h.pull("email")
	if r := h.begin(first); !r.OK {
		t.Fatalf("%+v", r)
	}
	second := h.pull("email")
	if second.ID != id.String() || second.Attempt != 2 {
		t.Fatalf("%+v", second)
	}
	late := h.report(reportOf(first, wire.ReportComplete))[0]
	if late.Error == nil {
		t.Fatalf("a late completion was taken: %+v", late)
	}
	if r := h.begin(second); !r.OK || r.Attempt != 2 {
		t.Fatalf("%+v", r)
	}
	if r := h.report(reportOf(second, wire.ReportComplete))[0]; !r.OK {
		t.Fatalf("%+v", r)
	}
}

// An item whose start is not reported in time comes again, under another token, and no
// attempt is used.
func TestAnItemThatIsNotStartedComesAgain(t *testing.T) {
	slow(t)
	t.Parallel()
	h := newHarness(t, nil)
	h.register("w1", 2, "email")
	h.submit("email")
	first := h.pull("email")
	second := h.pull("email")
	if first.ID != second.ID || first.Token == second.Token || second.Attempt != 1 {
		t.Fatalf("sent %+v, then %+v", first, second)
	}
	if r := h.begin(first); r.Error == nil || r.Error.Code != events.CodeStaleToken {
		t.Fatalf("%+v", r)
	}
}

func TestDelayedItemRunsWhenDue(t *testing.T) {
	h := newHarness(t, nil)
	h.register("w1", 5, "email")
	o := h.do(core.Submit{Type: "email", NewID: h.eng.NewID(), Delay: 150 * time.Millisecond})
	now := h.submit("email")
	pulled := map[string]bool{} // in any order: the delayed one may be due before the other is submitted
	for range 2 {
		id := h.pull("email").ID
		if pulled[id] = true; id == o.Decision.ID.String() && h.eng.Now().Before(o.Item.AvailableAt) {
			t.Fatal("the delayed item came too early")
		}
	}
	if !pulled[now.String()] || !pulled[o.Decision.ID.String()] {
		t.Fatalf("pulled %v", pulled)
	}
}

func TestRestartKeepsRunning(t *testing.T) {
	h := newHarness(t, nil)
	h.register("w1", 2, "email")
	h.submit("email")
	m := h.pull("email")
	if r := h.begin(m); !r.OK {
		t.Fatalf("%+v", r)
	}
	waiting := h.submit("email")
	h.stopEngine()
	h.startEngine()
	if r := h.report(reportOf(m, wire.ReportComplete))[0]; !r.OK {
		t.Fatalf("a run did not survive the restart: %+v", r)
	}
	h.register("w1", 2, "email")
	if m := h.pull("email"); m.ID != waiting.String() {
		t.Fatal("another item")
	}
}

func TestBadSubmissionsAreRejectedAndKept(t *testing.T) {
	h := newHarness(t, nil)
	for _, body := range []string{`{"not json`, `fine?`} {
		if _, err := h.js.Publish(h.ctx(), "work.submit.email", []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	h.until("both are rejected", func() bool {
		m, err := h.store.Meta()
		return err == nil && m.Rejected == 2
	})
}

func TestCancelTellsTheWorkerAndHoldsTheSlot(t *testing.T) {
	h := newHarness(t, nil)
	set := events.DefaultTypeSettings()
	set.Capacity = 1
	h.do(core.Configure{Type: "email", Source: events.SourceAPI, Settings: set})
	h.register("w1", 5, "email")
	told, err := h.nc.SubscribeSync("work.control.w1")
	if err != nil {
		t.Fatal(err)
	}
	id := h.submit("email")
	next := h.submit("email")
	m := h.pull("email")
	h.begin(m)
	if o := h.do(core.Cancel{ID: id}); !o.Decision.WasRunning {
		t.Fatal("it was running")
	}
	if _, err := told.NextMsg(patience); err != nil {
		t.Fatalf("the worker was not told: %v", err)
	}
	loads, err := h.eng.Loads(h.ctx())
	if err != nil || loads["email"].InFlight != 1 {
		t.Fatalf("the slot came back before the worker let go: %+v %v", loads, err)
	}
	if r := h.report(reportOf(m, wire.ReportFail))[0]; r.Error == nil {
		t.Fatal("a cancelled run's report was taken")
	}
	if m := h.pull("email"); m.ID != next.String() {
		t.Fatal("another item")
	}
}
