package core

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// A submission that merges raises the holder of its key while that waits. Decision
// and events say whether it did.
func TestAMergeRaisesItsHolder(t *testing.T) {
	low, high := events.PriorityLow, events.PriorityHigh
	for name, c := range map[string]struct {
		becomes func(w *world, id events.ID) // what the holder has become
		raises  bool
		not     events.ItemState
	}{
		"queued":     {func(*world, events.ID) {}, true, 0},
		"backed off": {func(w *world, id events.ID) { w.do(Fail{Run: w.run(id), Retryable: true}) }, true, 0},
		"snoozed":    {func(w *world, id events.ID) { w.do(Snooze{Run: w.run(id), Delay: time.Hour}) }, true, 0},
		"claimed":    {func(w *world, id events.ID) { w.claimOnly(id) }, false, events.StateClaimed},
		"running":    {func(w *world, id events.ID) { w.run(id) }, false, events.StateRunning},
		"waits for its children": {func(w *world, id events.ID) {
			w.do(Spawn{Run: w.run(id), Continues: true, Children: []Submit{{Type: "email", NewID: w.newID()}}})
		}, true, 0},
		"completed": {func(w *world, id events.ID) { w.do(Complete{Run: w.run(id)}) }, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			hour := time.Hour
			id := w.submit(Submit{DedupKey: "k", Priority: &low, DedupWindow: &hour})
			c.becomes(w, id)
			was := w.item(id)
			w.now = w.now.Add(time.Second)
			if d := w.do(Submit{Type: "email", NewID: w.newID(), DedupKey: "k"}); d.Raised || d.NotRaised != 0 {
				t.Errorf("one that names no priority raises: %+v", d)
			}
			d := w.do(Submit{Type: "email", NewID: w.newID(), DedupKey: "k", Priority: &high})
			it := w.item(id)
			if d.Raised != c.raises || d.NotRaised != c.not || (it.Priority == high) != c.raises {
				t.Errorf("raised %v, not raised %q, priority %d", d.Raised, d.NotRaised, it.Priority)
			}
			if it.State != was.State || !it.OrderAt.Equal(was.OrderAt) || !it.AvailableAt.Equal(was.AvailableAt) || it.MergedCount != 2 {
				t.Errorf("it was\n%+v, and is\n%+v", was, it)
			}
			if d = w.do(Submit{Type: "email", NewID: w.newID(), DedupKey: "k", Priority: &low}); d.Raised || d.NotRaised != 0 {
				t.Errorf("one of low priority raises: %+v", d)
			}
			w.readBack()
		})
	}
}

// A repeat under the id that the engine has chosen is the same item; with other content it
// is refused, as under an id of the submitter's.
func TestARepeatUnderTheEnginesID(t *testing.T) {
	w := newWorld(t)
	c := Submit{Type: "email", NewID: w.newID(), Params: json.RawMessage(`{"n": 1}`), Labels: map[string]string{"a": "b"}, Capabilities: []string{"x", "b"}, Delay: time.Minute, MaxAttempts: 2}
	id := w.do(c).ID
	c.ID, c.NewID = id, w.newID()
	for range 2 {
		if d := w.do(c); !d.Repeat || d.ID != id || d.ContentDiffers {
			t.Fatalf("%+v", d)
		}
		w.now = w.now.Add(2 * time.Minute)
		w.do(Fail{Run: w.run(id), Retryable: true}) // what its life changes doesn't count
	}
	other := c
	other.Params = json.RawMessage(`{"n": 2}`)
	w.refused(events.CodeIDConflict, other)
	other = c
	other.Tenant = "acme"
	w.refused(events.CodeIDConflict, other)
	plain := w.submit(Submit{})
	if d := w.do(Submit{Type: "email", ID: plain, NewID: w.newID()}); !d.Repeat {
		t.Fatalf("%+v", d)
	}
}

// An idempotency key leads to its item whatever the content, and says if that differs,
// as long as the key is kept: also when a replay has replaced the params, or the log
// was cut.
func TestAnIdempotencyKeyWithOtherContent(t *testing.T) {
	w := newWorld(t)
	w.do(Own{Owner: "o"})
	first := Submit{Type: "email", NewID: w.newID(), Params: json.RawMessage(`{"n": 1}`), IdempotencyKey: "k", Delay: time.Minute}
	id := w.do(first).ID
	check := func(when string) {
		t.Helper()
		w.now = w.now.Add(time.Minute)
		same, other := first, first
		same.ID, same.NewID = w.newID(), w.newID()
		normal := events.PriorityDefault
		same.Priority = &normal
		other.NewID, other.Params = w.newID(), json.RawMessage(`{"n": 2}`)
		if d := w.do(same); !d.Repeat || d.ID != id || d.ContentDiffers {
			t.Errorf("%s, the same: %+v", when, d)
		}
		if d := w.do(other); !d.Repeat || d.ID != id || !d.ContentDiffers {
			t.Errorf("%s, other content: %+v", when, d)
		}
	}
	check("queued")
	w.do(Cancel{ID: id})
	w.do(Replay{ID: id, Params: json.RawMessage(`{"n": 3}`)})
	check("replayed")
	w.do(BeginCut{})
	begin := w.s.Meta().RoundAt
	w.carry(id)
	w.endRound()
	held, has, err := w.baseFrom(begin).Key(events.KeyRef{Kind: events.KeyIdempotency, Type: "email", Key: "k"})
	if want, _, _ := w.s.Key(held.Ref, w.now); err != nil || !has || held.Digest == "" || held != want {
		t.Errorf("of the cut log: %+v, want %+v", held, want)
	}
}

// goldenRaised has submissions merge into one that they raise, and one that runs; and
// replays what its submission gave attempts and an expiry.
func goldenRaised(w *world) {
	low, high := events.PriorityLow, events.PriorityHigh
	id := w.submit(Submit{DedupKey: "raised", Priority: &low, MaxAttempts: 2, ExpiresAt: w.now.Add(time.Hour)})
	w.submit(Submit{DedupKey: "raised", Priority: &high})
	run := w.begin(id, "w1")
	top := events.PriorityHigh + 1
	w.submit(Submit{DedupKey: "raised", Priority: &top})
	w.do(Release{Run: run, Reason: "shutdown"})
	w.do(Cancel{ID: id})
	w.do(Replay{ID: id})
	w.do(Cancel{ID: id})
}

// One that waits for others is raised, and queued so.
func TestAMergeRaisesAHolderThatComesAfterAnother(t *testing.T) {
	w := newWorld(t)
	low, high := events.PriorityLow, events.PriorityHigh
	first := w.submit(Submit{})
	id := w.submit(Submit{DedupKey: "k", Priority: &low, After: []events.ID{first}})
	if d := w.do(Submit{Type: "email", NewID: w.newID(), DedupKey: "k", Priority: &high}); !d.Raised {
		t.Errorf("%+v", d)
	}
	w.state(id, events.StateWaiting)
	w.do(Complete{Run: w.run(first)})
	w.followUps()
	if it := w.item(id); it.State != events.StateQueued || it.Priority != high {
		t.Errorf("%s at priority %d", it.State, it.Priority)
	}
	w.readBack()
}

func TestDedupPolicies(t *testing.T) {
	w := newWorld(t)
	first := w.submit(Submit{DedupKey: "k"})
	w.now = w.now.Add(time.Second)
	apart := w.submit(Submit{DedupKey: "k", DedupPolicy: events.DedupDistinct})
	w.state(apart, events.StateQueued)
	second := w.submit(Submit{DedupKey: "k", DedupPolicy: events.DedupSupersede})
	w.state(first, events.StateCancelled)
	if a, b := w.item(first), w.item(second); a.Reason != "superseded" || a.Relations.By != second || !b.OrderAt.Equal(a.OrderAt) {
		t.Fatalf("%+v %+v", a, b)
	}
	run := w.run(second)
	third := w.submit(Submit{DedupKey: "k", DedupPolicy: events.DedupSupersede}) // that runs: it waits
	w.state(third, events.StateWaiting)
	fourth := w.submit(Submit{DedupKey: "k", DedupPolicy: events.DedupSupersede}) // takes its place
	w.state(third, events.StateCancelled)
	w.state(fourth, events.StateWaiting)
	fifth := w.submit(Submit{DedupKey: "k", DedupPolicy: events.DedupDefer})
	if into := w.item(w.submit(Submit{DedupKey: "k"})).MergedInto; into != fifth {
		t.Fatalf("merged into %s, not the newest, %s", into, fifth)
	}
	w.do(Fail{Run: run, Error: "e", Code: "logic"}) // which is no reason not to run
	w.followUps()
	w.state(fourth, events.StateQueued)
	w.state(fifth, events.StateWaiting)
	w.do(Complete{Run: w.run(fourth)})
	w.followUps()
	w.state(fifth, events.StateQueued)
	w.do(Complete{Run: w.run(apart)})
	if _, held, _ := w.s.Key(events.KeyRef{Kind: events.KeyDedup, Type: "email", Key: "k"}, w.now); !held {
		t.Fatal("the end of one that does not hold the key has freed it")
	}
	w.do(Complete{Run: w.run(fifth)})
	w.state(w.submit(Submit{DedupKey: "k"}), events.StateQueued)
	w.readBack()
}

func TestDedupWindow(t *testing.T) {
	w := newWorld(t)
	hour := time.Hour
	done := w.submit(Submit{DedupKey: "k", DedupWindow: &hour})
	w.do(Complete{Run: w.run(done)})
	if into := w.item(w.submit(Submit{DedupKey: "k"})).MergedInto; into != done {
		t.Fatalf("merged into %s", into)
	}
	w.state(w.submit(Submit{DedupKey: "k", DedupPolicy: events.DedupDistinct}), events.StateQueued)
	w.now = w.now.Add(2 * hour)
	again := w.submit(Submit{DedupKey: "k", DedupWindow: &hour})
	if it := w.item(again); it.State != events.StateMerged {
		t.Fatalf("the one that runs has the key now: %+v", it)
	}
	w = newWorld(t)
	set := events.DefaultTypeSettings()
	set.DedupWindow, set.DedupPolicy = events.DurationOf(hour), events.DedupSupersede
	w.do(Configure{Type: "email", Source: events.SourceAPI, Settings: set})
	done = w.submit(Submit{DedupKey: "k"})
	w.do(Complete{Run: w.run(done)})
	if it := w.item(w.submit(Submit{DedupKey: "k", DedupPolicy: events.DedupMerge})); it.MergedInto != done {
		t.Fatalf("%+v", it)
	}
	w.now = w.now.Add(hour)
	w.state(w.submit(Submit{DedupKey: "k", DedupPolicy: events.DedupMerge}), events.StateQueued)
	failed := w.submit(Submit{DedupKey: "f"})
	w.do(Cancel{ID: failed})
	w.state(w.submit(Submit{DedupKey: "f", DedupPolicy: events.DedupMerge}), events.StateQueued) // no window: it did not complete
	w.readBack()
}

func TestVerdicts(t *testing.T) {
	w := newWorld(t)
	live, done := w.submit(Submit{}), w.submit(Submit{DedupKey: "done"})
	w.do(Complete{Run: w.run(done)})
	keyed := w.submit(Submit{DedupKey: "k"})
	for _, c := range []struct {
		verdict events.Verdict
		state   events.ItemState
	}{
		{events.Verdict{Policy: events.DedupMerge, Canonical: live}, events.StateMerged},
		{events.Verdict{Policy: events.DedupMerge, Canonical: done}, events.StateQueued},
		{events.Verdict{Policy: events.DedupDistinct}, events.StateQueued},
		{events.Verdict{Policy: events.DedupDefer, Canonical: live}, events.StateWaiting},
		{events.Verdict{Policy: events.DedupDefer, Canonical: crowdID(1 << 20)}, events.StateQueued},
		{events.Verdict{Policy: events.DedupSupersede, Canonical: live}, events.StateQueued},
	} {
		v := c.verdict
		id := w.submit(Submit{Verdict: &v, DedupKey: "k"})
		w.followUps()
		w.state(id, c.state)
	}
	w.state(live, events.StateCancelled)
	w.state(keyed, events.StateQueued)
	w.readBack()
}
