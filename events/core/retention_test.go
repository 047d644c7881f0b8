package core

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// An item goes when its time is over and nothing refers to it any more, and
// not before.
func TestPrunable(t *testing.T) {
	w := newWorld(t)
	w.do(Own{Owner: "o"})
	id := w.submit(Submit{IdempotencyKey: "once", Intake: events.Intake{Seq: 1, MsgID: "m"}})
	w.refused(events.CodeWrongState, Prune{ID: id}) // it has not ended
	w.do(Cancel{ID: id})
	w.refused(events.CodeWrongState, Prune{ID: id}) // it is to be kept
	w.now = w.now.Add(events.DefaultRetain - time.Nanosecond)
	w.refused(events.CodeWrongState, Prune{ID: id})
	w.now = w.now.Add(time.Nanosecond)
	w.do(Prune{ID: id})
	w.refused(events.CodeNotFound, Prune{ID: id})
	if _, has, _ := w.s.Key(events.KeyRef{Kind: events.KeyIdempotency, Type: "email", Key: "once"}, w.now); has {
		t.Error("its key is still taken")
	}

	set := events.DefaultTypeSettings()
	set.Retain = events.Retention{Cancelled: events.Millis(1), Dead: events.Millis(5000)}
	w.do(Configure{Type: "email", Source: events.SourceAPI, Settings: set})
	held := w.submit(Submit{IdempotencyKey: "twice"})
	w.do(Cancel{ID: held})
	w.now = w.now.Add(events.IdempotencyWindow - time.Minute)
	w.refused(events.CodeWrongState, Prune{ID: held}) // it leads a key
	published := w.submit(Submit{Intake: events.Intake{Seq: 2, MsgID: "m2"}})
	w.do(Cancel{ID: published})
	w.now = w.now.Add(events.MsgIDWindow - time.Second)
	w.refused(events.CodeWrongState, Prune{ID: published}) // its message id is taken
	w.do(Prune{ID: held})
	w.now = w.now.Add(time.Second)
	w.do(Prune{ID: published})

	parent := w.submit(Submit{})
	child := w.submit(Submit{})
	w.do(Cancel{ID: child})
	e, err := w.s.entry(child)
	if err != nil {
		t.Fatal(err)
	}
	w.s.applier.writable(e).Relations = &events.Relations{Parent: parent}
	w.now = w.now.Add(time.Hour)
	w.refused(events.CodeWrongState, Prune{ID: child}) // its parent has not ended
	w.do(Cancel{ID: parent})
	w.s.applier.writable(e).Relations = &events.Relations{Parent: parent, Awaited: 1}
	w.refused(events.CodeWrongState, Prune{ID: child}) // another waits for it
	w.s.applier.writable(e).Relations = &events.Relations{Parent: w.newID()}
	w.do(Prune{ID: child}) // a parent that is gone is no hindrance
}

// An item that the round has carried, and that an item which it has not carried
// yet changes, is carried once more: a reader of the cut log misses that event.
func TestCarriedAgain(t *testing.T) {
	w := newWorld(t)
	w.do(Own{Owner: "o"})
	first, second := w.submit(Submit{}), w.submit(Submit{})
	w.do(BeginCut{})
	history, merged := w.known(first)
	w.do(Carry{ID: first, History: history, Merged: merged})
	if w.do(Carry{ID: first, History: history}); w.s.TakeRecarry() != nil {
		t.Fatal("it is to be carried again for no reason")
	}
	touch := func(actor events.ID) events.Seq { // as an event of actor that changes first does
		e, err := w.s.entry(actor)
		if err != nil {
			t.Fatal(err)
		}
		other, err := w.s.entry(first)
		if err != nil {
			t.Fatal(err)
		}
		w.s.applier.ev.ID, w.s.applier.base = actor, e.cur.BaseSeq
		return w.s.applier.writable(other).BaseSeq
	}
	if touch(w.submit(Submit{})) < w.s.meta.RoundAt {
		t.Error("an item that was created in the round is known to a reader")
	}
	if touch(second) != 0 {
		t.Error("it counts as carried")
	}
	if again := w.s.TakeRecarry(); fmt.Sprint(again) != fmt.Sprint([]events.ID{first}) {
		t.Errorf("to be carried again: %v", again)
	}
	if d := w.do(Carry{ID: first, History: history}); d.Repeat {
		t.Error("it is not carried again")
	}
}

// What is too much for one event is split, and comes together again.
func TestCarriedInParts(t *testing.T) {
	w := newWorld(t)
	w.do(Own{Owner: "o"})
	set := events.DefaultTypeSettings()
	set.MaxParams = events.MaxParamsCeiling
	w.do(Configure{Type: "email", Source: events.SourceAPI, Settings: set})
	params := make([]byte, events.MaxParamsCeiling)
	for i := range params {
		params[i] = 'x'
	}
	params[0], params[len(params)-1] = '"', '"'
	id := w.submit(Submit{Params: params})
	var merged []events.MergedEntry
	for i := range MaxCarriedMerged + 5 {
		merged = append(merged, events.MergedEntry{Into: id, Seq: events.Seq(i + 1), ID: w.newID(), At: w.now, Provenance: events.Provenance{Trigger: string(make([]byte, 200))}})
	}
	w.do(BeginCut{})
	begin := len(w.log) - 1
	history, _ := w.known(id)
	d := w.do(Carry{ID: id, History: history, Merged: merged})
	w.do(EndCut{})
	if n := len(w.log) - begin - 2; d.ID != id || n < 10 {
		t.Fatalf("%d parts", n)
	}
	base := newMapBase()
	s, err := NewState(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range w.log[begin:] {
		data, err := ev.AppendJSON(nil)
		if err != nil || len(data) > 2<<20 {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
		back, err := events.DecodeEvent(data)
		if err != nil {
			t.Fatal(err)
		}
		back.Seq = ev.Seq
		if err := s.Apply(back); err != nil {
			t.Fatal(err)
		}
	}
	if err := base.write(s.TakeChanges()); err != nil {
		t.Fatal(err)
	}
	got := base.mergedInto(id)
	if string(base.docs[docRef{events.DocParams, id}]) != string(params) || len(got) != MaxCarriedMerged || got[0].Seq != 6 || len(base.history[id]) != 2 {
		t.Fatalf("%d merged, %d events", len(got), len(base.history[id]))
	}
}

// A round whose end would be too large is refused, whole.
func TestEndOfRoundIsBounded(t *testing.T) {
	w := newWorld(t)
	w.do(Own{Owner: "o"})
	w.do(BeginCut{})
	keys := make([]events.HeldKey, MaxEndEvents*carriedBytes/512)
	for i := range keys {
		keys[i] = events.HeldKey{Ref: events.KeyRef{Kind: events.KeyRate, Type: "email", Key: fmt.Sprintf("%0512d", i)}, Until: w.now.Add(time.Hour)}
	}
	w.refused(events.CodeTooLarge, EndCut{Keys: keys})
	w.do(EndCut{Keys: keys[:1000]})
	end := w.log[len(w.log)-1].Body.(*events.Snapshot)
	if end.Mark != events.MarkEnd || end.Meta == nil {
		t.Fatalf("%+v", end)
	}
}

// Every field of an item survives the JSON of a carried.
func TestItemInJSON(t *testing.T) {
	w := goldenWorld(t)
	for id, e := range w.s.items {
		if e.cur == nil {
			continue
		}
		data, err := json.Marshal(e.cur)
		if err != nil {
			t.Fatal(err)
		}
		var back events.Item
		if err := json.Unmarshal(data, &back); err != nil || dumpItem(&back) != dumpItem(e.cur) {
			t.Fatalf("%s: %v\n%s\n%s", id, err, dumpItem(&back), dumpItem(e.cur))
		}
	}
}

// A log that has been cut must begin with a round that ends.
func TestUnfinishedRoundAtTheHead(t *testing.T) {
	w := newWorld(t)
	w.do(Own{Owner: "o"})
	w.do(BeginCut{})
	begin := w.log[len(w.log)-1]
	w.do(Own{Owner: "other"})
	owned := w.log[len(w.log)-1]
	if w.s.meta.RoundAt != 0 {
		t.Error("the round of another owner is still under way")
	}
	w.refused(events.CodeWrongState, EndCut{})
	w.refused(events.CodeWrongState, Carry{ID: w.submit(Submit{})})
	s, err := NewState(Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(begin); err != nil || !s.meta.Partial {
		t.Fatalf("%v, %+v", err, s.meta)
	}
	if err := s.Apply(owned); err == nil {
		t.Error("it is read on")
	}
}
