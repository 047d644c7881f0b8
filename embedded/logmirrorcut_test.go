package embedded

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
)

// cutLog has a hub prune what is due and cut its log, and starts it again.
func cutLog(t *testing.T, hub *Engine, o Options) *Engine {
	t.Helper()
	before := retention(t, hub, "there is a log", func(wire.Retention) bool { return true })
	request[wire.Retention](t, hub, wire.APICut, struct{}{})
	retention(t, hub, "the round ends", func(r wire.Retention) bool { return r.LastCut.After(before.LastCut) })
	stopEngine(t, hub)
	hub = mustStart(t, o)
	retention(t, hub, "the log is cut", func(r wire.Retention) bool { return r.LogFirst != before.LogFirst && r.Round == "" })
	return hub
}

// A mirror with Keep has items that its hub has pruned and cut out of its log: listed, shown,
// explained, with their histories, and as of a moment of the past. It proves its store, makes
// it anew, and has lost nothing after a restart, nor when its hub cut what it had not copied.
// What an operator has purged it has not. What
// it has kept for long enough it drops, items and log.
func TestMirrorKeeps(t *testing.T) {
	slow(t)
	t.Parallel()
	leaf, dir := need.Address(t).String(), t.TempDir()
	o := mirroredHub(t.TempDir(), leaf)
	hub := mustStart(t, o)
	end := func() wire.Submitted {
		t.Helper()
		it := submit(t, hub, wire.Submit{Type: "parcel", Params: json.RawMessage(`{"to":"x"}`), Labels: map[string]string{"year": "last"}})
		request[wire.Cancelled](t, hub, wire.APICancel, wire.Cancel{ID: it.ID})
		return it
	}
	old, purged := end(), end()
	was, history := get(t, hub, old), kindsOf(t, hub, old.ID)
	request[wire.ReplayReply](t, hub, wire.APIPurge, wire.Purge{ID: purged.ID})
	mo := mirrorOptions(dir, leaf)
	mo.Keep = 5 * 365 * 24 * time.Hour
	m := mustStartMirror(t, mo)
	caughtUp(t, m, hub)
	request[wire.TypeReply](t, hub, wire.APIConfigure, wire.Configure{Type: "parcel", Settings: []byte(`{"retain":{"cancelled_ms":1}}`)})
	prune := func() {
		t.Helper()
		stopEngine(t, hub)
		hub = mustStart(t, o) // which looks for what is due
		until(t, "the hub prunes", func() bool { return listed(t, hub, "parcel") == 0 })
	}
	prune()
	hub = cutLog(t, hub, o)
	caughtUp(t, m, hub)
	has := func(n int) {
		t.Helper()
		caughtUp(t, m, hub)
		if got := get(t, m.e, old); !reflect.DeepEqual(got, was) {
			t.Errorf("the mirror has %+v, not %+v", got, was)
		}
		if got := kindsOf(t, m.e, old.ID); !slices.Equal(got, history) {
			t.Errorf("its history is %v, not %v", got, history)
		}
		if got := listed(t, m.e, "parcel"); got != n {
			t.Errorf("%d items are listed, not %d", got, n)
		}
		if why := request[wire.WhyReply](t, m.e, wire.APIWhy, wire.Why{ID: old.ID}); why.Reasons[0].Code != events.WhyEnded {
			t.Errorf("%+v", why)
		}
		then := false
		err := m.e.decider.AsOf(testContext(t), m.e.ledger.store.Applied(), time.Time{}, nil, func(s *projector.Store) error {
			id, err := events.ParseID(old.ID)
			if err == nil {
				var it *events.Item
				it, err = s.Item(id)
				then = it != nil
			}
			return err
		})
		if err != nil || !then {
			t.Errorf("as of a moment of the past it is there: %t, %v", then, err)
		}
		mustVerify(t, m.e)
	}
	has(1)
	if err := m.e.decider.Rebuild(testContext(t), nil); err != nil {
		t.Fatal(err)
	}
	has(1)
	stopMirror(t, m)
	end() // which the mirror never sees
	prune()
	hub = cutLog(t, hub, o)
	m = mustStartMirror(t, mo)
	has(1)
	young := end()
	prune()
	has(2)
	stopMirror(t, m)

	mo.Keep = time.Millisecond
	m = mustStartMirror(t, mo)
	until(t, "the mirror drops what is old", func() bool {
		tip, err := m.log.Last(testContext(t))
		there, herr := hub.ledger.eventLog.Last(testContext(t))
		return err == nil && herr == nil && tip.First == there.First
	})
	if n := listed(t, m.e, "parcel"); n != 1 {
		t.Errorf("%d items are listed", n)
	}
	if got := get(t, m.e, young); got.ID != young.ID {
		t.Errorf("%+v", got)
	}
	mustVerify(t, m.e)
	stopMirror(t, m)

	mo.Keep = 0
	m = mustStartMirror(t, mo)
	caughtUp(t, m, hub)
	if n := listed(t, m.e, "parcel"); n != 0 {
		t.Errorf("%d items are listed, and nothing is to be kept", n)
	}
	mustVerify(t, m.e)
}

func listed(t *testing.T, e *Engine, typ string) int {
	t.Helper()
	return len(request[wire.Listed](t, e, wire.APIList, wire.List{Type: typ}).Items)
}
