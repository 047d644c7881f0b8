package events

import (
	"testing"
	"time"
)

func TestDedupPolicies(t *testing.T) {
	w := newWorld(t)
	first := w.submit(Submit{DedupKey: "k"})
	w.now = w.now.Add(time.Second)
	apart := w.submit(Submit{DedupKey: "k", DedupPolicy: DedupDistinct})
	w.state(apart, StateQueued)
	second := w.submit(Submit{DedupKey: "k", DedupPolicy: DedupSupersede})
	w.state(first, StateCancelled)
	if a, b := w.item(first), w.item(second); a.Reason != "superseded" || a.Relations.By != second || !b.OrderAt.Equal(a.OrderAt) {
		t.Fatalf("%+v %+v", a, b)
	}
	run := w.run(second)
	third := w.submit(Submit{DedupKey: "k", DedupPolicy: DedupSupersede}) // that runs: it waits
	w.state(third, StateWaiting)
	fourth := w.submit(Submit{DedupKey: "k", DedupPolicy: DedupSupersede}) // takes its place
	w.state(third, StateCancelled)
	w.state(fourth, StateWaiting)
	fifth := w.submit(Submit{DedupKey: "k", DedupPolicy: DedupDefer})
	if into := w.item(w.submit(Submit{DedupKey: "k"})).MergedInto; into != fifth {
		t.Fatalf("merged into %s, not the newest, %s", into, fifth)
	}
	w.do(Fail{Run: run, Error: "e", Code: "logic"}) // which is no reason not to run
	w.followUps()
	w.state(fourth, StateQueued)
	w.state(fifth, StateWaiting)
	w.do(Complete{Run: w.run(fourth)})
	w.followUps()
	w.state(fifth, StateQueued)
	w.do(Complete{Run: w.run(apart)})
	if _, held, _ := w.s.Key(KeyRef{KeyDedup, "email", "k"}, w.now); !held {
		t.Fatal("the end of one that does not hold the key has freed it")
	}
	w.do(Complete{Run: w.run(fifth)})
	w.state(w.submit(Submit{DedupKey: "k"}), StateQueued)
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
	w.state(w.submit(Submit{DedupKey: "k", DedupPolicy: DedupDistinct}), StateQueued)
	w.now = w.now.Add(2 * hour)
	again := w.submit(Submit{DedupKey: "k", DedupWindow: &hour})
	if it := w.item(again); it.State != StateMerged {
		t.Fatalf("the one that runs has the key now: %+v", it)
	}
	w = newWorld(t)
	set := DefaultTypeSettings()
	set.DedupWindowMS, set.DedupPolicy = hour.Milliseconds(), DedupSupersede
	w.do(Configure{Type: "email", Source: SourceAPI, Settings: set})
	done = w.submit(Submit{DedupKey: "k"})
	w.do(Complete{Run: w.run(done)})
	if it := w.item(w.submit(Submit{DedupKey: "k", DedupPolicy: DedupMerge})); it.MergedInto != done {
		t.Fatalf("%+v", it)
	}
	w.now = w.now.Add(hour)
	w.state(w.submit(Submit{DedupKey: "k", DedupPolicy: DedupMerge}), StateQueued)
	failed := w.submit(Submit{DedupKey: "f"})
	w.do(Cancel{ID: failed})
	w.state(w.submit(Submit{DedupKey: "f", DedupPolicy: DedupMerge}), StateQueued) // no window: it did not complete
	w.readBack()
}

func TestVerdicts(t *testing.T) {
	w := newWorld(t)
	live, done := w.submit(Submit{}), w.submit(Submit{DedupKey: "done"})
	w.do(Complete{Run: w.run(done)})
	keyed := w.submit(Submit{DedupKey: "k"})
	for _, c := range []struct {
		verdict Verdict
		state   ItemState
	}{
		{Verdict{Policy: DedupMerge, Canonical: live}, StateMerged},
		{Verdict{Policy: DedupMerge, Canonical: done}, StateQueued},
		{Verdict{Policy: DedupDistinct}, StateQueued},
		{Verdict{Policy: DedupDefer, Canonical: live}, StateWaiting},
		{Verdict{Policy: DedupDefer, Canonical: crowdID(1 << 20)}, StateQueued},
		{Verdict{Policy: DedupSupersede, Canonical: live}, StateQueued},
	} {
		v := c.verdict
		id := w.submit(Submit{Verdict: &v, DedupKey: "k"})
		w.followUps()
		w.state(id, c.state)
	}
	w.state(live, StateCancelled)
	w.state(keyed, StateQueued)
	w.readBack()
}
