package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// strictWork runs a worker that fails for good what is not good.
func strictWork(t testing.TB, e *Engine, typ string) {
	t.Helper()
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workers.New(nc, workers.Config{Logger: slog.New(slog.DiscardHandler), Names: e.names()})
	if err != nil {
		t.Fatal(err)
	}
	workers.HandleRaw(w, typ, func(_ context.Context, it *workers.RawItem) (any, error) {
		var p struct{ Good bool }
		if err := json.Unmarshal(it.Raw, &p); err != nil || !p.Good {
			return nil, workers.Permanent(fmt.Errorf("item %s is not good", it.ID))
		}
		return "done", nil
	})
	if err := w.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		if err := w.Stop(ctx); err != nil {
			t.Errorf("stop worker: %v", err)
		}
		nc.Close()
	})
}

// A dead letter with wrong params completes when it is replayed with right
// ones, and shows what it was before and after.
func TestADeadLetterIsReplayedWithCorrectedParams(t *testing.T) {
	e := mustStart(t, quiet(t.TempDir()))
	c, ctx := mustClient(t, e), testContext(t)
	strictWork(t, e, "email")
	sub, err := c.Submit(ctx, streamwright.Item{Type: "email", Params: map[string]bool{"good": false}})
	if err != nil {
		t.Fatal(err)
	}
	it, err := c.Wait(ctx, sub.ID)
	if err != nil || it.State != events.StateDead || it.Cause == "" {
		t.Fatalf("%+v, %v", it, err)
	}
	causes, err := c.DeadLetters().Causes(ctx, streamwright.CausesQuery{Type: "email"})
	if err != nil || len(causes.Causes) != 1 || causes.Causes[0].Cause != it.Cause || causes.Causes[0].Dead != 1 || causes.Causes[0].Example != sub.ID {
		t.Fatalf("%+v, %v", causes, err)
	}
	died := it.Position
	if _, err := c.Replay(ctx, sub.ID, streamwright.ReplayOptions{Params: json.RawMessage(`{"good":true}`), Reason: "corrected"}); err != nil {
		t.Fatal(err)
	}
	if it, err = c.Wait(ctx, sub.ID); err != nil || it.State != events.StateCompleted || string(it.Params) != `{"good":true}` || it.Cause != "" {
		t.Fatalf("%+v, %v", it, err)
	}
	then, err := c.GetAt(ctx, sub.ID, streamwright.PointInTime{Position: died})
	if err != nil || then.State != events.StateDead || then.Params != nil || len(then.Notes) != 1 || then.AsOf.Latest {
		t.Errorf("before its replay: %+v, %v", then, err)
	}
	now, err := c.GetAt(ctx, sub.ID, streamwright.PointInTime{Time: time.Now().Add(time.Minute)})
	if err != nil || now.State != events.StateCompleted || !now.AsOf.Latest {
		t.Errorf("after it: %+v, %v", now, err)
	}
	if _, err := c.GetAt(ctx, sub.ID, streamwright.PointInTime{Position: "1"}); events.CodeOf(err) != events.CodeNotFound || !strings.Contains(err.Error(), "not there yet") {
		t.Errorf("before it was there: %v", err)
	}
	past, err := c.Engine().StateAt(ctx, streamwright.PointInTime{Position: died}, nil)
	if err != nil || len(past.Types) != 1 || past.Types[0].States["dead"] != 1 || past.Types[0].States["completed"] != 0 || past.Causes != 1 {
		t.Errorf("the state before: %+v, %v", past, err)
	}
	past, err = c.Engine().StateAt(ctx, streamwright.PointInTime{Position: it.Position}, nil)
	if err != nil || past.Types[0].States["dead"] != 0 || past.Types[0].States["completed"] != 1 {
		t.Errorf("the state after: %+v, %v", past, err)
	}
	if _, err := c.Engine().StateAt(ctx, streamwright.PointInTime{Time: time.Unix(1, 0)}, nil); events.CodeOf(err) != events.CodeNotFound {
		t.Errorf("the state before the log: %v", err)
	}
	if _, err := c.Engine().StateAt(ctx, streamwright.PointInTime{Position: "999999"}, nil); events.CodeOf(err) != events.CodeBadRequest {
		t.Errorf("the state of the future: %v", err)
	}
	history, sum, err := c.Account(ctx, sub.ID)
	if err != nil || len(history) < 8 || history[len(history)-1].Kind != events.KindCompleted || !sum.BackedOff.IsZero() {
		t.Errorf("%+v %+v %v", history, sum, err)
	}
}

// Five thousand of one cause are replayed in pages, each with params that work.
func TestBulkReplayByCause(t *testing.T) {
	slow(t)
	t.Parallel()
	const n = 3000                           // three pages
	e := mustStart(t, Options{Memory: true}) // what is tested is not the disk
	c := mustClient(t, e)
	ctx, cancel := context.WithTimeout(context.Background(), 2*testTimeout)
	defer cancel()
	strictWork(t, e, "email")
	items := make([]streamwright.Item, n)
	for i := range items {
		items[i] = streamwright.Item{Type: "email", Params: map[string]bool{"good": false}}
	}
	all, err := c.SubmitMany(ctx, items)
	if err != nil {
		t.Fatal(err)
	}
	awaitAll(ctx, t, c, all, events.StateDead)
	causes, err := c.DeadLetters().Causes(ctx, streamwright.CausesQuery{Sort: "dead"})
	if err != nil || causes.Total != 1 || causes.Causes[0].Dead != n {
		t.Fatalf("ids in the errors make one cause: %+v, %v", causes, err)
	}
	b := streamwright.Bulk{Action: wire.BulkReplay, Select: streamwright.Selection{Cause: causes.Causes[0].Cause}, Params: json.RawMessage(`{"good":true}`)}
	b.DryRun = true
	dry, err := c.Bulk(ctx, b, nil)
	if err != nil || dry.Matched != n || dry.Changed != 0 {
		t.Fatalf("a dry run: %+v, %v", dry, err)
	}
	b.DryRun = false
	pages := 0
	sum, err := c.Bulk(ctx, b, func(streamwright.BulkResult) { pages++ })
	if err != nil || sum.Changed != n || sum.Failed != 0 || pages < n/1000 {
		t.Fatalf("%+v in %d pages, %v", sum, pages, err)
	}
	awaitAll(ctx, t, c, all, events.StateCompleted)
	if page, err := c.DeadLetters().List(ctx, streamwright.Selection{}); err != nil || len(page.Items) != 0 {
		t.Errorf("%d are dead still, %v", len(page.Items), err)
	}
	if _, err := c.Bulk(ctx, streamwright.Bulk{Action: wire.BulkReplay}, nil); events.CodeOf(err) != events.CodeBadRequest {
		t.Errorf("a bulk of nothing in particular: %v", err)
	}
}

// awaitAll waits until all items have ended in a state.
func awaitAll(ctx context.Context, t testing.TB, c *streamwright.Client, items []streamwright.Submitted, want events.ItemState) {
	t.Helper()
	for _, s := range items {
		if it, err := c.Wait(ctx, s.ID); err != nil || it.State != want {
			t.Fatalf("%s is %s, want %s, %v", s.ID, it.State, want, err)
		}
	}
}

func TestBulkCancelAndReprioritise(t *testing.T) {
	e := mustStart(t, quiet(t.TempDir()))
	c, ctx := mustClient(t, e), testContext(t)
	for i := range 30 {
		if _, err := c.Submit(ctx, streamwright.Item{Type: "email", Tenant: fmt.Sprintf("tenant-%d", i%3)}); err != nil {
			t.Fatal(err)
		}
	}
	tenant := func(s string) streamwright.Selection {
		return streamwright.Selection{List: streamwright.Filter{Tenant: s, Limit: 4}}
	}
	sum, err := c.Bulk(ctx, streamwright.Bulk{Action: wire.BulkReschedule, Select: tenant("tenant-1"), Priority: 9}, nil)
	if err != nil || sum.Changed != 10 || sum.Matched != 10 {
		t.Errorf("reprioritised: %+v, %v", sum, err)
	}
	sum, err = c.Bulk(ctx, streamwright.Bulk{Action: wire.BulkCancel, Select: tenant("tenant-2"), Reason: "left us"}, nil)
	if err != nil || sum.Changed != 10 {
		t.Errorf("cancelled: %+v, %v", sum, err)
	}
	stats, err := c.Engine().Stats(ctx)
	if err != nil || stats.Types[0].Queued[9] != 10 || stats.Types[0].States["cancelled"] != 10 {
		t.Errorf("%+v, %v", stats, err)
	}
	if page, err := c.DeadLetters().List(ctx, streamwright.Selection{}); err != nil || len(page.Items) != 0 {
		t.Errorf("what was cancelled is not dead: %+v, %v", page, err)
	}
	sel := tenant("tenant-2")
	sel.State, sel.Reason = "cancelled", "left us"
	if sum, err = c.Bulk(ctx, streamwright.Bulk{Action: wire.BulkPurge, Select: sel}, nil); err != nil || sum.Changed != 10 {
		t.Errorf("purged: %+v, %v", sum, err)
	}
	if page, err := c.List(ctx, streamwright.Filter{Tenant: "tenant-2"}); err != nil || len(page.Items) != 0 {
		t.Errorf("what was purged is still listed: %d, %v", len(page.Items), err)
	}
}

// What a plain publish got wrong is kept, and becomes an item once corrected.
func TestARejectedSubmissionIsReplayedCorrected(t *testing.T) {
	e := mustStart(t, quiet(t.TempDir()))
	c, ctx := mustClient(t, e), testContext(t)
	js, err := jetstream.New(c.Conn())
	if err != nil {
		t.Fatal(err)
	}
	publish := func(body string, header nats.Header) uint64 {
		ack, err := js.PublishMsg(ctx, &nats.Msg{Subject: "work.submit.email", Header: header, Data: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		return ack.Sequence
	}
	bad := publish(`{to: kelly}`, nats.Header{"Work-Priority": {"urgent"}, "Work-Tenant": {"acme"}})
	first := publish(`{}`, nats.Header{"Work-Idempotency-Key": {"k"}})
	again := publish(`{}`, nats.Header{"Work-Idempotency-Key": {"k"}})
	var original streamwright.WorkItem
	for { // the intake is read in order
		if original, err = c.GetByIntake(ctx, again); err == nil {
			break
		}
		if events.CodeOf(err) != events.CodeNotFound || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	if it, err := c.GetByIntake(ctx, first); err != nil || it.ID != original.ID {
		t.Errorf("a duplicate is found as %s, want %s, %v", original.ID, it.ID, err)
	}
	if _, err := c.GetByIntake(ctx, bad); err == nil || !strings.Contains(err.Error(), "engine rejected show") {
		t.Errorf("the rejected one: %v", err)
	}
	page, err := c.Rejected().List(ctx, streamwright.RejectedFilter{})
	if err != nil || len(page.Rejected) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	seq := page.Rejected[0].Seq
	r, err := c.Rejected().Get(ctx, seq)
	if err != nil || r.Text != `{to: kelly}` || r.IntakeSeq != 0 && r.IntakeSeq != bad { // 0: it never was in the intake
		t.Fatalf("%+v, %v", r, err)
	}
	fix := streamwright.Correction{Seq: seq, Params: json.RawMessage(`{"to":"kelly"}`)}
	if _, err := c.Rejected().Replay(ctx, fix); events.CodeOf(err) != events.CodeBadPriority {
		t.Errorf("half corrected: %v", err)
	}
	fix.Headers = map[string]string{"work-priority": "high"}
	sub, err := c.Rejected().Replay(ctx, fix)
	if err != nil {
		t.Fatal(err)
	}
	it, err := c.Get(ctx, sub.ID)
	if err != nil || it.Priority != 8 || it.Tenant != "acme" || it.Provenance.Trigger != "rejected:"+seq.String() || string(it.Params) != `{"to":"kelly"}` {
		t.Errorf("%+v, %v", it, err)
	}
	if err := c.Rejected().Purge(ctx, seq, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Rejected().Get(ctx, seq); events.CodeOf(err) != events.CodeNotFound {
		t.Errorf("after its purge: %v", err)
	}
}
