package embedded

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// retention asks until what is kept is as wanted.
func retention(t *testing.T, e *Engine, what string, ok func(wire.Retention) bool) wire.Retention {
	t.Helper()
	late := testContext(t).Done()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		r := request[wire.InfoReply](t, e, wire.APIInfo, struct{}{}).Retention
		if r != nil && ok(*r) {
			return *r
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: not in time: %+v", what, r)
		}
	}
}

func mustVerify(t *testing.T, e *Engine) {
	t.Helper()
	res, err := e.decider.Verify(testContext(t), nil)
	if err != nil || !res.Equal {
		t.Fatalf("verify: %+v, %v", res, err)
	}
}

func kindsOf(t *testing.T, e *Engine, id string) (kinds []string) {
	t.Helper()
	for _, ev := range request[wire.HistoryReply](t, e, wire.APIHistory, wire.History{ID: id}).Events {
		kinds = append(kinds, ev.Kind.String())
	}
	return kinds
}

// A log is cut while the engine works, with the process gone between the end of
// the round and the cut; then the store is deleted, and at last one from before
// the cut is put in its place. Each time nothing is missing.
func TestLogIsCut(t *testing.T) {
	slow(t)
	t.Parallel()
	dir := t.TempDir()
	e := mustStart(t, quiet(dir))
	done := submit(t, e, wire.Submit{Type: "email", Params: []byte(`{"n":1.50}`), DedupKey: "k"})
	request[wire.Cancelled](t, e, wire.APICancel, wire.Cancel{ID: done.ID})
	later := submit(t, e, wire.Submit{Type: "report", Delay: events.Millis(3_600_000)})
	before := kindsOf(t, e, done.ID)
	stopEngine(t, e)
	old := filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(old, os.DirFS(filepath.Join(dir, "store"))); err != nil {
		t.Fatal(err)
	}

	e = mustStart(t, quiet(dir))
	request[wire.Retention](t, e, wire.APICut, struct{}{})
	r := retention(t, e, "the round ends", func(r wire.Retention) bool { return !r.LastCut.IsZero() })
	if r.LogFirst != firstPosition {
		t.Fatalf("cut before it is synced: %+v", r)
	}
	stopEngine(t, e)

	e = mustStart(t, quiet(dir))
	retention(t, e, "the log is cut", func(r wire.Retention) bool { return r.LogFirst != firstPosition && r.Round == "" })
	tip, err := e.ledger.eventLog.Last(testContext(t))
	if err != nil || tip.First < 5 {
		t.Fatalf("the log begins at %d: %v", tip.First, err)
	}
	mustVerify(t, e)
	stopEngine(t, e)

	for name, prepare := range map[string]func() error{
		"no store":     func() error { return nil },
		"an old store": func() error { return os.CopyFS(filepath.Join(dir, "store"), os.DirFS(old)) },
	} {
		if err := os.RemoveAll(filepath.Join(dir, "store")); err != nil {
			t.Fatal(err)
		}
		if err := prepare(); err != nil {
			t.Fatal(err)
		}
		e = mustStart(t, quiet(dir))
		mustVerify(t, e)
		if after := kindsOf(t, e, done.ID); len(after) != len(before) {
			t.Errorf("%s: the history was %v, is %v", name, before, after)
		}
		if it := get(t, e, done); it.State != events.StateCancelled || string(it.Params) != `{"n":1.50}` {
			t.Errorf("%s: %+v", name, it)
		}
		if it := get(t, e, later); it.State != events.StateQueued || it.AvailableAt.IsZero() {
			t.Errorf("%s: %+v", name, it)
		}
		submit(t, e, wire.Submit{Type: "report"})
		if err := e.decider.Rebuild(testContext(t), nil); err != nil {
			t.Fatal(err)
		}
		mustVerify(t, e)
		stopEngine(t, e)
	}
}

// firstPosition is that of the first event of a log.
const firstPosition wire.Position = "4096"
