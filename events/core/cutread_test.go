package core

import (
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// carry carries an item in the round under way.
func (w *world) carry(id events.ID) {
	w.t.Helper()
	history, merged := w.known(id)
	w.do(Carry{ID: id, History: history, Merged: merged})
}

// endRound carries what the round under way has not, ends it, and sees to it
// that the log from its begin on gives what the whole log gives.
func (w *world) endRound() {
	w.t.Helper()
	begin := w.s.meta.RoundAt
	var ids []events.ID
	for id, e := range present(w.s) {
		if e.cur.BaseSeq < begin {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, compareIDs)
	for _, id := range ids {
		w.carry(id)
	}
	w.do(EndCut{})
	whole := w.base().dump()
	if cut := w.baseFrom(begin).dump(); cut != whole {
		w.t.Fatalf("the log cut at %d gives\n%s\nthe whole log\n%s", begin, cut, whole)
	}
}

// Who takes a dedup key in a round is told by the event, not by who seems to
// hold it: an item that is not known yet may have, and have let go of it since.
func TestCutLogKnowsWhoHoldsAKey(t *testing.T) {
	for name, apart := range map[string]Submit{
		"distinct":            {DedupKey: "k", DedupPolicy: events.DedupDistinct},
		"distinct by verdict": {DedupKey: "k", Verdict: &events.Verdict{Policy: events.DedupDistinct}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.do(Own{Owner: "o"})
			holder := w.submit(Submit{DedupKey: "k"})
			w.do(BeginCut{})
			first := w.submit(apart)
			w.do(Cancel{ID: holder})
			second := w.submit(apart) // the key is free: it takes it
			third := w.submit(apart)
			if w.item(first).HoldsKey || !w.item(second).HoldsKey || w.item(third).HoldsKey {
				t.Fatal("the key is not where it belongs")
			}
			w.endRound()

			w.do(Cancel{ID: second})
			w.do(BeginCut{})
			w.state(w.submit(Submit{DedupKey: "k"}), events.StateQueued)
			w.endRound()
		})
	}
}

// The key of a completed item's window that a replayed item takes, and frees
// again, is not the completed one's any more.
func TestCutLogForgetsAWindowThatWasTaken(t *testing.T) {
	w := newWorld(t)
	w.do(Own{Owner: "o"})
	old := w.submit(Submit{DedupKey: "k"})
	w.do(Cancel{ID: old})
	w.do(BeginCut{})
	hour := time.Hour
	done := w.submit(Submit{DedupKey: "k", DedupWindow: &hour})
	w.do(Complete{Run: w.run(done)})
	w.do(Replay{ID: old})
	w.do(Cancel{ID: old})
	if _, held, _ := w.s.Key(events.KeyRef{Kind: events.KeyDedup, Type: "email", Key: "k"}, w.now); held {
		t.Fatal("the key is held")
	}
	w.endRound()
}

// A child that is replayed when its parent has gone on counts for it no more,
// also for who learns of the parent only later.
func TestCutLogKnowsWhichChildrenCount(t *testing.T) {
	w := newWorld(t)
	w.do(Own{Owner: "o"})
	parent := w.submit(Submit{})
	child := w.spawn(Spawn{Run: w.run(parent), Continues: true, Policy: events.ChildContinue, Children: []Submit{{}}})[0]
	w.do(Cancel{ID: child})
	w.followUps()
	w.state(parent, events.StateQueued)
	w.do(BeginCut{})
	w.carry(child)
	w.do(Replay{ID: child})
	w.carry(parent)
	w.do(Complete{Run: w.run(child)})
	w.endRound()
}
