package core

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
)

// inParts has an item end in so many children, none of which is made yet.
func (w *world) inParts(declared int, policy events.ChildPolicy) events.ID {
	w.t.Helper()
	parent := w.submit(Submit{Type: "crawl"})
	w.do(SpawnInParts{Run: w.run(parent), Declared: declared, Pending: "ref", Continues: true, Policy: policy})
	return parent
}

// A parent waits for as many children as are declared, however far those that
// are made have come; no part is made twice.
func TestAParentWaitsForTheDeclaredCount(t *testing.T) {
	w := newWorld(t)
	parent := w.inParts(6, "")
	if it := w.item(parent); it.State != events.StateWaiting || !it.NeedsFollowUp() || it.Attempt != 0 {
		t.Fatalf("%+v %+v", it, it.Relations)
	}
	w.followUps()
	w.state(parent, events.StateWaiting) // it has no live child, and doesn't go on
	kids := w.part(parent, Submit{}, Submit{})
	for _, id := range kids {
		w.do(Complete{Run: w.run(id), Result: json.RawMessage(`1`)})
		w.followUps()
	}
	w.state(parent, events.StateWaiting)
	if d := w.do(SpawnPart{ID: parent, Spawn: 1, Children: []Submit{{Type: "email", NewID: w.newID()}}}); !d.Repeat || len(d.Events) > 0 {
		t.Fatalf("a part again: %+v", d)
	}
	w.refused(events.CodeBadRequest, SpawnPart{ID: parent, Spawn: 1, From: 3, Children: []Submit{{Type: "email", NewID: w.newID()}}})
	w.refused(events.CodeBadRequest, SpawnPart{ID: parent, Spawn: 1, From: 2, Children: make([]Submit, 5)})
	if d := w.do(SpawnPart{ID: parent, Spawn: 2}); !d.Repeat {
		t.Fatalf("a part of another spawn: %+v", d)
	}
	own := w.newID()
	kids = append(kids, w.part(parent, Submit{ID: own}, Submit{ID: own})...) // one child, twice
	kids = append(kids, w.part(parent, Submit{ID: own})...)                  // and once more
	w.followUps()
	w.state(parent, events.StateWaiting)
	kids = append(kids, w.part(parent, Submit{})...)
	if it := w.item(parent); len(kids) != 4 || it.Relations.Made != 6 || it.Relations.Live != 2 || it.Relations.Unmade() {
		t.Fatalf("%d children: %+v", len(kids), it.Relations)
	}
	w.do(Complete{Run: w.run(own)})
	w.do(Complete{Run: w.run(kids[3])})
	w.followUps()
	w.state(parent, events.StateQueued)
	doc, err := w.s.Document(events.DocOutcomes, parent)
	if err != nil {
		t.Fatal(err)
	}
	var out []events.Outcome
	if err := json.Unmarshal(doc, &out); err != nil || len(out) != 4 || out[0].ID != kids[0] || out[2].ID != own {
		t.Fatalf("%s %v", doc, err)
	}
	w.readBack()
}

// A child that fails ends the parent while others are still to be made: those are
// not, and what lives is cancelled.
func TestAFailedChildEndsASpawnInParts(t *testing.T) {
	w := newWorld(t)
	parent := w.inParts(300, events.ChildFail)
	kids := w.part(parent, Submit{}, Submit{})
	w.do(Fail{Run: w.run(kids[0]), Error: "no"})
	w.followUps()
	w.state(parent, events.StateDead)
	if d := w.do(SpawnPart{ID: parent, Spawn: 1, From: 2, Children: []Submit{{Type: "email", NewID: w.newID()}}}); !d.Repeat {
		t.Fatalf("a part of a dead parent: %+v", d)
	}
	if it := w.item(parent); !it.NeedsFollowUp() || it.Relations.Live != 1 {
		t.Fatalf("%+v", it.Relations)
	}
	w.do(EndBatchItem{ID: kids[1], Parent: parent})
	w.state(kids[1], events.StateCancelled)
	if d := w.do(EndBatchItem{ID: kids[0], Parent: parent}); !d.Repeat {
		t.Fatalf("a child that has ended: %+v", d)
	}
	if it := w.item(parent); it.NeedsFollowUp() {
		t.Fatalf("%+v", it.Relations)
	}
	w.readBack()
}

// What can't be made ends the parent; what only finds no room now is tried again.
func TestChildrenThatCantBeMade(t *testing.T) {
	w := newWorld(t)
	parent := w.inParts(2, events.ChildContinue)
	w.part(parent, Submit{})
	w.do(SpawnPart{ID: parent, Spawn: 1, From: 1, Children: []Submit{{Type: "Bad Type", NewID: w.newID()}}})
	if it := w.item(parent); it.State != events.StateDead || it.Code != events.DeadNotSpawned {
		t.Fatalf("%+v", it)
	}
	lost := w.inParts(2, events.ChildContinue)
	w.do(SpawnPart{ID: lost, Spawn: 1, Lost: "the object is gone"})
	w.state(lost, events.StateDead)
	set, _ := w.s.Settings("email")
	set.MaxQueued = 1
	w.do(Configure{Type: "email", Source: events.SourceAPI, Settings: set})
	full := w.inParts(1, events.ChildContinue)
	w.refused(events.CodeQueueFull, SpawnPart{ID: full, Spawn: 1, Children: []Submit{{Type: "email", NewID: w.newID()}}})
	w.state(full, events.StateWaiting)
	w.readBack()
}

func (w *world) batch(c OpenBatch) events.ID {
	w.t.Helper()
	c.NewID = w.newID()
	return w.do(c).ID
}

func TestBatch(t *testing.T) {
	w := newWorld(t)
	batch := w.batch(OpenBatch{Name: "nightly"})
	onSuccess := w.submit(Submit{Type: "report", After: []events.ID{batch}})
	always := w.submit(Submit{Type: "report", After: []events.ID{batch}, AfterPolicy: events.AfterRun})
	a, b := w.submit(Submit{Batch: batch}), w.submit(Submit{Batch: batch, ID: w.newID()})
	sub := Submit{Type: "email", Batch: batch, ID: b, NewID: w.newID()}
	if d := w.do(sub); !d.Repeat || w.item(batch).Relations.Made != 2 {
		t.Fatalf("an item again: %+v %+v", d, w.item(batch).Relations)
	}
	w.do(Complete{Run: w.run(a)})
	w.do(Fail{Run: w.run(b), Error: "no"})
	w.followUps()
	w.state(batch, events.StateWaiting) // all have ended, and more may come
	w.do(Replay{ID: b})
	if r := w.item(batch).Relations; r.Live != 1 || r.Failed != 0 {
		t.Fatalf("an item that runs again: %+v", r)
	}
	w.do(Fail{Run: w.run(b), Error: "no"})
	w.refused(events.CodeBadRequest, SealBatch{ID: batch, Count: 1})
	w.do(SealBatch{ID: batch, Count: 3})
	w.do(SealBatch{ID: batch, Count: 3})
	w.followUps()
	w.state(batch, events.StateWaiting) // for one more
	c := w.submit(Submit{Batch: batch})
	w.refused(events.CodeWrongState, Submit{Type: "email", Batch: batch, NewID: w.newID()})
	w.do(Cancel{ID: c})
	w.followUps()
	w.state(batch, events.StateCompleted)
	w.state(onSuccess, events.StateCancelled)
	w.state(always, events.StateQueued)
	doc, err := w.s.Document(events.DocResult, batch)
	if want := `{"total":3,"completed":1,"dead":1,"cancelled":1}`; err != nil || string(doc) != want {
		t.Fatalf("%s %v", doc, err)
	}
	w.refused(events.CodeWrongState, Submit{Type: "email", Batch: batch, NewID: w.newID()})
	w.readBack()
}

// A batch waits for what its member was merged into, also if the member has raised it.
func TestBatchWaitsForWhatItsMemberRaised(t *testing.T) {
	high := events.Priority(9)
	w := newWorld(t)
	outside := w.submit(Submit{DedupKey: "k"})
	batch := w.do(OpenBatch{Submit: Submit{NewID: w.newID()}}).ID
	w.submit(Submit{DedupKey: "k", Priority: &high, Batch: batch})
	w.do(SealBatch{ID: batch})
	w.followUps()
	w.state(batch, events.StateWaiting)
	w.do(Complete{Run: w.run(outside)})
	w.followUps()
	w.state(batch, events.StateCompleted)
}

func TestBatchesThatAreNot(t *testing.T) {
	w := newWorld(t)
	plain := w.submit(Submit{})
	w.refused(events.CodeNotFound, Submit{Type: "email", NewID: w.newID(), Batch: w.newID()})
	w.refused(events.CodeBadRequest, Submit{Type: "email", NewID: w.newID(), Batch: plain})
	w.refused(events.CodeBadRequest, SealBatch{ID: plain})
	w.refused(events.CodeBadType, Submit{Type: events.BatchType, NewID: w.newID()})
	w.refused(events.CodeBadType, SetSchedule{Schedule: events.Schedule{Name: "s", Type: events.BatchType, Every: events.Millis(60_000), Source: events.SourceAPI}})
	w.refused(events.CodeTooLarge, OpenBatch{Submit: Submit{NewID: w.newID()}, Count: events.MaxBatchCount + 1})
	empty := w.batch(OpenBatch{})
	w.do(SealBatch{ID: empty})
	w.followUps()
	w.state(empty, events.StateCompleted)
	gone := w.batch(OpenBatch{Count: 2})
	live := w.submit(Submit{Batch: gone})
	w.do(Cancel{ID: gone})
	w.refused(events.CodeWrongState, Submit{Type: "email", NewID: w.newID(), Batch: gone})
	w.refused(events.CodeWrongState, Replay{ID: gone})
	if _, err := Decide(w.s, SealBatch{ID: gone, Count: 3}, w.now); err == nil || !strings.Contains(err.Error(), "is cancelled, with 1 of its items: it takes no more; open another") {
		t.Errorf("sealed with another number: %v", err)
	}
	w.do(EndBatchItem{ID: live, Parent: gone})
	w.state(live, events.StateCancelled)
	w.readBack()
}

// A batch waits for what its items turn out to be the same as.
func TestABatchWaitsForWhatIsMerged(t *testing.T) {
	w := newWorld(t)
	holder := w.submit(Submit{DedupKey: "k"})
	batch := w.batch(OpenBatch{Count: 1})
	w.state(w.submit(Submit{DedupKey: "k", Batch: batch}), events.StateMerged)
	w.followUps()
	w.state(batch, events.StateWaiting)
	want := "it waits for 0 of its 1 item, and for 1 item that others of them were merged into"
	it := w.item(batch)
	if why := Explain(w.s, &it, w.now); len(why) != 1 || why[0].Message != want || !slices.Equal(why[0].Items, []events.ID{holder}) {
		t.Errorf("why: %+v", why)
	}
	w.do(Complete{Run: w.run(holder)})
	w.followUps()
	w.state(batch, events.StateCompleted)
	w.readBack()
}
