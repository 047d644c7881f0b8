package embedded

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/wire"
)

// until asks again until something is so.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := testContext(t).Done()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: not in time", what)
		}
	}
}

// rejectSome publishes what becomes no item, and returns the page that lists it.
func rejectSome(t *testing.T, e *Engine, c *streamwright.Client, bodies ...string) (page streamwright.RejectedPage) {
	t.Helper()
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for _, b := range bodies {
		if _, err := nc.RequestWithContext(testContext(t), e.names().Submit("email"), []byte(b)); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all is rejected", func() bool {
		if page, err = c.Rejected().List(testContext(t), streamwright.RejectedFilter{}); err != nil {
			t.Fatal(err)
		}
		return len(page.Rejected) == len(bodies)
	})
	return page
}

// What was rejected, who is to drain and which types are paused until when are
// the same when the log was cut, the store deleted, and the engine started anew.
func TestWhatOutlivesACut(t *testing.T) {
	slow(t)
	t.Parallel()
	dir := t.TempDir()
	e := mustStart(t, quiet(dir))
	c, ctx := mustClient(t, e), testContext(t)
	before := rejectSome(t, e, c, "{one", "{two", "{three")
	if err := c.Rejected().Purge(ctx, before.Rejected[1].Seq, ""); err != nil {
		t.Fatal(err)
	}
	me := wire.Register{Worker: "w1", Types: []string{"email"}, Slots: 2, Session: "s"}
	request[wire.Registered](t, e, wire.APIRegister, me)
	request[wire.OK](t, e, wire.APIDrain, wire.Drain{Worker: "w1", Reason: "deploy", By: "ops"})
	if _, err := c.Types().Pause(ctx, "email", streamwright.PauseOptions{Reason: "down", For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	before, err := c.Rejected().List(ctx, streamwright.RejectedFilter{})
	if err != nil || len(before.Rejected) != 2 {
		t.Fatalf("%+v %v", before, err)
	}
	one, err := c.Rejected().Get(ctx, before.Rejected[0].Seq)
	if err != nil {
		t.Fatal(err)
	}
	paused := pauseOf(t, c, "email")
	request[wire.Retention](t, e, wire.APICut, struct{}{})
	retention(t, e, "the log is cut", func(r wire.Retention) bool { return r.LogFirst != firstPosition && r.Round == "" })
	mustVerify(t, e)
	stopEngine(t, e)
	if err := os.RemoveAll(filepath.Join(dir, "store")); err != nil {
		t.Fatal(err)
	}

	e = mustStart(t, quiet(dir))
	c = mustClient(t, e)
	mustVerify(t, e)
	after, err := c.Rejected().List(ctx, streamwright.RejectedFilter{})
	if err != nil || !reflect.DeepEqual(before, after) {
		t.Fatalf("rejected before:\n%+v\nafter:\n%+v %v", before, after, err)
	}
	if again, err := c.Rejected().Get(ctx, one.Seq); err != nil || !reflect.DeepEqual(one, again) || again.Text == "" {
		t.Fatalf("rejected before:\n%+v\nafter:\n%+v %v", one, again, err)
	}
	if p := pauseOf(t, c, "email"); p == nil || *p != *paused || p.Until.IsZero() {
		t.Fatalf("paused before %+v, after %+v", paused, p)
	}
	drainOutlives(t, e, c, me)
	if sub, err := c.Rejected().Replay(ctx, streamwright.Correction{Seq: one.Seq, Params: []byte(`{"n":1}`)}); err != nil || sub.ID == "" {
		t.Fatalf("%+v %v", sub, err)
	}
	if err := c.Rejected().Purge(ctx, one.Seq, ""); err != nil {
		t.Fatal(err)
	}
	mustVerify(t, e)
	stopEngine(t, e)
}

func pauseOf(t *testing.T, c *streamwright.Client, typ string) *streamwright.Pause {
	t.Helper()
	types, err := c.Types().List(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range types {
		if info.Type == typ {
			return info.Paused
		}
	}
	return nil
}

// drainOutlives sees to a worker that was marked to drain before the engine's
// restart: it hears so again, until somebody ends it, or it leaves.
func drainOutlives(t *testing.T, e *Engine, c *streamwright.Client, me wire.Register) {
	t.Helper()
	ctx := testContext(t)
	by := "ops"
	if logins.Of(t) != nil {
		by = processUser // who asks is known then
	}
	marks, err := c.Workers().Drains(ctx)
	if err != nil || len(marks) != 1 || marks[0].Worker != "w1" || marks[0].Reason != "deploy" || marks[0].By != by || marks[0].At.IsZero() {
		t.Fatalf("%+v %v", marks, err)
	}
	beat := func() wire.HeartbeatReply {
		return request[wire.HeartbeatReply](t, e, wire.APIHeartbeat, wire.Heartbeat{Register: me})
	}
	if r := beat(); !r.ShouldDrain || r.Status != wire.WorkerDraining {
		t.Fatalf("the mark is forgotten: %+v", r)
	}
	if changed, err := c.Workers().Undrain(ctx, "w1"); err != nil || !changed {
		t.Fatalf("%v %v", changed, err)
	}
	if r := beat(); r.ShouldDrain || r.Status != wire.WorkerActive {
		t.Fatalf("it drains for ever: %+v", r)
	}
	if err := c.Workers().Drain(ctx, "w1"); err != nil {
		t.Fatal(err)
	}
	request[wire.OK](t, e, wire.APIUnregister, wire.Unregister{Worker: "w1", Session: "another"})
	if marks, err := c.Workers().Drains(ctx); err != nil || len(marks) != 1 {
		t.Fatalf("another's goodbye has ended it: %+v %v", marks, err)
	}
	if err := e.decider.dispatcher.Unregister(ctx, wire.Unregister{Worker: "w1"}); events.CodeOf(err) != events.CodeBadRequest {
		t.Fatalf("a goodbye without a session: %v", err)
	}
	if r := beat(); !r.ShouldDrain {
		t.Fatalf("the mark is gone with the worker of somebody else: %+v", r)
	}
	request[wire.OK](t, e, wire.APIUnregister, wire.Unregister{Worker: "w1", Session: me.Session})
	if marks, err := c.Workers().Drains(ctx); err != nil || len(marks) != 0 {
		t.Fatalf("it has left: %+v %v", marks, err)
	}
	if err := c.Workers().Drain(ctx, "w1"); events.CodeOf(err) != events.CodeNotFound {
		t.Fatalf("one that is gone is drained: %v", err)
	}
}

// A pause for a time ends by itself, and says so in the log.
func TestPauseForATime(t *testing.T) {
	e := mustStart(t, quiet(t.TempDir()))
	c, ctx := mustClient(t, e), testContext(t)
	if _, err := c.Submit(ctx, streamwright.Item{Type: "email", Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if changed, err := c.Types().Pause(ctx, "email", streamwright.PauseOptions{For: 300 * time.Millisecond}); err != nil || !changed {
		t.Fatalf("%v %v", changed, err)
	}
	until(t, "the pause ends", func() bool { return pauseOf(t, c, "email") == nil })
	if _, err := c.Types().Pause(ctx, "email", streamwright.PauseOptions{Until: time.Now().Add(-time.Hour)}); events.CodeOf(err) != events.CodeBadTime {
		t.Fatalf("a pause until an hour ago: %v", err)
	}
	stopEngine(t, e)
}
