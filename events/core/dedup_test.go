package core

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

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
	set.DedupWindowMS, set.DedupPolicy = hour.Milliseconds(), events.DedupSupersede
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
