package core

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// followUps decides what follows, as the sequencer does.
func (w *world) followUps() {
	w.t.Helper()
	for ids := w.s.TakeFollowUps(); len(ids) > 0; {
		if d := w.do(FollowUp{ID: ids[0]}); d.Repeat {
			ids = ids[1:]
		}
		for _, id := range w.s.TakeFollowUps() {
			ids = appendOnce(ids, id)
		}
	}
}

// run claims and starts an item under a token of its own.
func (w *world) run(id events.ID) Run {
	w.t.Helper()
	return w.claim(id, events.NewToken(9, w.ids<<8+uint64(len(w.log))))
}

// spawn ends an item's run in children.
// claimOnly claims an item and does not start it.
func (w *world) claimOnly(id events.ID) {
	w.t.Helper()
	tok := events.NewToken(9, w.ids<<8+uint64(len(w.log)))
	w.do(Claim{ID: id, Token: tok, Worker: "w1"})
}

func (w *world) spawn(c Spawn) []events.ID {
	w.t.Helper()
	for i := range c.Children {
		if c.Children[i].NewID = w.newID(); c.Children[i].Type == "" {
			c.Children[i].Type = "email"
		}
	}
	w.do(c)
	return w.item(c.ID).Relations.Children
}

// goldenFlow lives through the kinds of waiting, spawning and long runs.
func (w *world) goldenFlow() {
	tick := func(d time.Duration) { w.now = w.now.Add(d) }
	report := w.submit(Submit{Type: "report", Params: json.RawMessage(`{"month": "2026-01"}`), Tenant: "acme"})
	run := w.run(report)
	w.do(ReportProgress{Run: run, Percent: 40, Message: "pages read"})
	w.do(SaveCheckpoint{Run: run, Checkpoint: json.RawMessage(`{"page": 40, "note": "<half>"}`)})
	tick(2 * time.Second)
	w.do(Snooze{Run: run, Delay: time.Minute, Reason: "rate limited"})
	tick(time.Minute)
	run = w.run(report)
	tick(time.Second)
	kids := w.spawn(Spawn{Run: run, Continues: true, Continuation: "gather", Policy: events.ChildContinue, Children: []Submit{
		{Type: "email", Params: json.RawMessage(`1`)}, {Type: "email", Params: json.RawMessage(`2`)}, {Type: "email", DedupKey: "waits"}}})
	after := w.submit(Submit{Type: "report", After: []events.ID{report}, ExpiresAt: w.now.Add(time.Hour)})
	w.do(Complete{Run: w.run(kids[0]), Result: json.RawMessage(`{"sent": true}`)})
	w.do(Fail{Run: w.run(kids[1]), Error: "no such mailbox", Code: "bounce"})
	w.followUps()
	newer := w.submit(Submit{DedupKey: "waits", DedupPolicy: events.DedupSupersede})
	w.followUps() // what the third child was merged into has ended: the report goes on
	w.do(Fail{Run: w.run(report), Error: "no template", Code: "logic"})
	w.followUps() // and what comes after it is cancelled
	w.state(after, events.StateCancelled)
	w.submit(Submit{DedupKey: "waits", DedupPolicy: events.DedupDefer, Verdict: &events.Verdict{Policy: events.DedupDefer, Canonical: newer, Source: "hook", Reason: "the same person"}})
	w.do(Complete{Run: w.run(newer)})
	w.followUps()
	late := w.submit(Submit{Type: "report", ExpiresAt: w.now.Add(time.Minute)})
	tick(time.Minute)
	w.do(Due{ID: late})
	parent := w.submit(Submit{Type: "report"})
	w.spawn(Spawn{Run: w.run(parent), Children: []Submit{{}, {}}})
	w.do(Cancel{ID: parent})
	w.followUps()
	w.goldenParts()
	w.goldenWait()
}

// goldenParts makes the events of a spawn in parts, and of a batch.
func (w *world) goldenParts() {
	parent := w.submit(Submit{Type: "report"})
	w.do(SpawnInParts{Run: w.run(parent), Declared: 3, Pending: `{"$blob":{}}`, Continues: true})
	w.part(parent, Submit{Type: "email"}, Submit{Type: "email"})
	w.part(parent, Submit{Type: "email"})
	batch := w.do(OpenBatch{Submit: Submit{NewID: w.newID()}, Name: "nightly"}).ID
	member := w.submit(Submit{Type: "email", Batch: batch})
	w.do(SealBatch{ID: batch})
	w.do(Complete{Run: w.run(member)})
	w.followUps()
}

// part makes a part of the first spawn of an item, and returns its children.
func (w *world) part(parent events.ID, children ...Submit) []events.ID {
	w.t.Helper()
	for i := range children {
		children[i].NewID = w.newID()
		if children[i].Type == "" {
			children[i].Type = "email"
		}
	}
	for _, ev := range w.do(SpawnPart{ID: parent, Spawn: w.item(parent).Relations.Spawns, From: w.item(parent).Relations.Made, Children: children}).Events {
		if sp, ok := ev.Body.(*events.Spawned); ok {
			return sp.Children
		}
	}
	return nil
}

// largestFlow makes the largest events of those kinds.
func (w *world) largestFlow(typ events.Type, long func(int) string) {
	parent := w.submit(Submit{Type: typ})
	run := w.run(parent)
	w.do(ReportProgress{Run: run, Percent: 1, Message: long(1 << 20)})
	w.do(SaveCheckpoint{Run: run, Checkpoint: json.RawMessage(`"` + strings.Repeat("x", events.MaxCheckpoint-2) + `"`)})
	waits := w.submit(Submit{Type: typ})
	names := make([]string, events.MaxWaitNames)
	for i := range names {
		names[i] = long(events.MaxNameLen-2) + fmt.Sprintf("%02d", i)
	}
	w.do(Signal{ID: waits, Name: long(events.MaxNameLen), Payload: json.RawMessage(`"` + strings.Repeat("x", events.MaxSignalBytes-2) + `"`), MsgID: long(events.MaxNameLen)})
	last := w.run(waits)
	w.do(GiveToken{Run: last, Name: long(events.MaxNameLen), Hash: aTokenHash(1)})
	w.do(PresentToken{ID: waits, Hash: aTokenHash(1), Error: &events.SignalError{Code: long(events.MaxNameLen), Message: long(events.MaxErrorText)}})
	w.do(Park{Run: last, For: time.Hour, Wait: events.WaitTerms{Names: names, All: true, Then: events.WaitFail, Code: long(events.MaxNameLen), Error: long(events.MaxErrorText)}})
	asks := w.submit(Submit{Type: typ})
	w.do(Park{Run: w.run(asks), For: time.Hour, Wait: events.WaitTerms{Names: names, Then: events.WaitFail, Code: long(events.MaxNameLen), Error: long(events.MaxErrorText)}, Ask: largestQuestion(long, typ[1:])})
	w.now = w.now.Add(events.MinRemindEvery)
	w.do(Due{ID: asks, NewID: w.newID()})
	w.do(Snooze{Run: run, Delay: time.Second, Reason: long(events.MaxNameLen)})
	w.now = w.now.Add(time.Second)
	c := Spawn{Run: w.run(parent), Continues: true, Continuation: long(events.MaxNameLen), Policy: events.ChildContinue, Children: make([]Submit, events.MaxWholeSpawn)}
	for i := range c.Children {
		c.Children[i].Type = typ
	}
	for i, id := range w.spawn(c) {
		if i%2 == 0 {
			w.do(Complete{Run: w.run(id), Result: json.RawMessage(`"` + strings.Repeat("<", 5000) + `"`)})
			continue
		}
		w.do(Fail{Run: w.run(id), Error: long(events.MaxErrorText), Code: long(events.MaxNameLen)})
	}
	w.followUps()
	w.state(parent, events.StateQueued)
	many := make([]events.ID, events.MaxAfter)
	for i := range many {
		many[i] = w.submit(Submit{Type: typ})
	}
	w.submit(Submit{Type: typ, After: many})
}

func largestQuestion(long func(int) string, reminder events.Type) *events.Question {
	q := &events.Question{
		Title: strings.Repeat("x", events.MaxTitle), Text: long(events.MaxQuestionText), Choices: events.Choices[:],
		Form: json.RawMessage(`"` + strings.Repeat("x", events.MaxForm-2) + `"`), Proposal: json.RawMessage(`"` + strings.Repeat("x", events.MaxProposal-2) + `"`),
		Remind: &events.Remind{Every: events.DurationOf(events.MinRemindEvery), Type: reminder, Params: json.RawMessage(`"` + strings.Repeat("x", events.MaxReminderParam-2) + `"`)},
	}
	for range events.MaxAnswererBytes / events.MaxNameLen {
		q.Who.Users = append(q.Who.Users, long(events.MaxNameLen))
	}
	return q
}

func TestSpawnAndContinuation(t *testing.T) {
	w := newWorld(t)
	parent := w.submit(Submit{Type: "crawl", Tenant: "acme"})
	run := w.run(parent)
	kids := w.spawn(Spawn{Run: run, Continues: true, Continuation: "gather", Children: []Submit{{Params: json.RawMessage(`1`)}, {}, {}}})
	if it := w.item(parent); it.State != events.StateWaiting || it.Attempt != 0 || it.Relations.Live != 3 {
		t.Fatalf("%+v %+v", it, it.Relations)
	}
	if kid := w.item(kids[0]); kid.Tenant != "acme" || kid.Relations.Parent != parent || kid.Relations.Spawn != 1 {
		t.Fatalf("%+v", kid)
	}
	if d := w.do(Spawn{Run: run, Children: []Submit{{}}}); !d.Repeat || len(d.Events) > 0 {
		t.Fatalf("a repeated spawn: %+v", d)
	}
	for i, id := range kids {
		w.do(Complete{Run: w.run(id), Result: json.RawMessage(fmt.Sprintf(`{ "n": %d}`, i))})
		w.followUps()
	}
	w.state(parent, events.StateQueued)
	run.Attempt = 1
	if d := w.do(Spawn{Run: run, Children: []Submit{{}}}); !d.Repeat {
		t.Fatalf("a spawn repeated when the continuation is queued: %+v", d)
	}
	w.refused(events.CodeWrongState, Complete{Run: run})
	w.refused(events.CodeWrongState, Release{Run: run})
	doc, err := w.s.Document(events.DocOutcomes, parent)
	var out []events.Outcome
	if err != nil || json.Unmarshal(doc, &out) != nil || len(out) != 3 || out[1].ID != kids[1] || string(out[1].Result) != `{"n":1}` || out[2].State != events.StateCompleted {
		t.Fatalf("%s, %v", doc, err)
	}
	again := w.run(parent)
	if it := w.item(parent); it.Attempt != 1 || !it.Relations.HasChildren || it.Relations.Continuation != "gather" {
		t.Fatalf("%+v %+v", it, it.Relations)
	}
	w.do(Complete{Run: again})
	if doc, _ := w.s.Document(events.DocOutcomes, parent); doc != nil {
		t.Fatalf("the outcomes are still there: %s", doc)
	}
	w.refused(events.CodeWrongState, Spawn{Run: again, Children: []Submit{{}}})
	w.readBack()
}

func TestSpawnWithNoContinuationCompletes(t *testing.T) {
	w := newWorld(t)
	parent := w.submit(Submit{})
	run := w.run(parent)
	kids := w.spawn(Spawn{Run: run, Children: []Submit{{}}})
	w.do(Complete{Run: w.run(kids[0]), Result: json.RawMessage(`7`)})
	w.followUps()
	w.state(parent, events.StateCompleted)
	if doc, _ := w.s.Document(events.DocResult, parent); !strings.Contains(string(doc), `"result":7`) {
		t.Fatalf("%s", doc)
	}
	if d := w.do(Spawn{Run: run, Children: []Submit{{}}}); !d.Repeat {
		t.Fatalf("%+v", d)
	}
	w.refused(events.CodeWrongState, Complete{Run: run})
}

// A leaf of a tree of three levels fails: what is above it is dead, what is
// beside it is cancelled.
func TestAFailingLeafEndsItsTree(t *testing.T) {
	w := newWorld(t)
	root := w.submit(Submit{Type: "root"})
	mid := w.spawn(Spawn{Run: w.run(root), Children: []Submit{{Type: "mid"}, {Type: "mid"}}})
	leaves := w.spawn(Spawn{Run: w.run(mid[0]), Continues: true, Children: []Submit{{Type: "leaf"}, {Type: "leaf"}}})
	others := w.spawn(Spawn{Run: w.run(mid[1]), Continues: true, Children: []Submit{{Type: "leaf"}}})
	w.run(leaves[1])
	w.do(Fail{Run: w.run(leaves[0]), Error: "boom", Code: "logic"})
	w.followUps()
	w.state(leaves[0], events.StateDead)
	w.state(leaves[1], events.StateCancelled)
	w.state(mid[0], events.StateDead)
	w.state(mid[1], events.StateCancelled)
	w.state(others[0], events.StateCancelled)
	w.state(root, events.StateDead)
	if it := w.item(root); it.Reason != "child_dead" || it.Relations.By != mid[0] || !strings.Contains(it.Error, mid[0].String()) {
		t.Fatalf("%+v %+v", it, it.Relations)
	}
	if it := w.item(others[0]); it.Reason != "parent_cancelled" || it.Relations.By != mid[1] {
		t.Fatalf("%+v", it)
	}
	w.readBack()
}

func TestChildrenThatAreOthers(t *testing.T) {
	w := newWorld(t)
	there := w.submit(Submit{DedupKey: "k"})
	once := w.submit(Submit{IdempotencyKey: "once"})
	parent := w.submit(Submit{Type: "crawl", DedupKey: "self"})
	kids := w.spawn(Spawn{Run: w.run(parent), Children: []Submit{
		{DedupKey: "k"}, {IdempotencyKey: "once"}, {Type: "crawl", DedupKey: "self"}, {DedupKey: "new"}, {DedupKey: "new"}, {Type: "crawl", DedupKey: "self", DedupPolicy: events.DedupDefer}}})
	w.state(kids[0], events.StateMerged)
	w.state(kids[2], events.StateMerged)
	w.state(kids[4], events.StateMerged)
	w.state(kids[5], events.StateQueued) // it can't wait for its own parent
	if r := w.item(parent).Relations; len(r.Waits) != 2 || r.Waits[0] != there || r.Waits[1] != once || kids[1] != once || r.Live != 2 {
		t.Fatalf("%+v", r)
	}
	for _, id := range []events.ID{kids[3], kids[5], there} {
		w.do(Complete{Run: w.run(id)})
		w.followUps()
		w.state(parent, events.StateWaiting)
	}
	w.do(Complete{Run: w.run(once)})
	w.followUps()
	w.state(parent, events.StateCompleted)
	w.readBack()
}

func TestRefusedSpawns(t *testing.T) {
	w := newWorld(t)
	parent := w.submit(Submit{})
	later := w.submit(Submit{After: []events.ID{parent}})
	run := w.run(parent)
	for name, c := range map[string]struct {
		code events.Code
		cmd  Spawn
	}{
		"no children":         {events.CodeBadRequest, Spawn{}},
		"too many":            {events.CodeTooLarge, Spawn{Children: make([]Submit, events.MaxChildren+1)}},
		"policy":              {events.CodeBadRequest, Spawn{Policy: "x", Children: make([]Submit, 1)}},
		"no continuation":     {events.CodeBadRequest, Spawn{Continuation: "x", Children: make([]Submit, 1)}},
		"a long continuation": {events.CodeTooLarge, Spawn{Continues: true, Continuation: strings.Repeat("x", events.MaxNameLen+1), Children: make([]Submit, 1)}},
		"a bad child":         {events.CodeBadType, Spawn{Children: []Submit{{Type: "email", NewID: w.newID()}, {Type: "E", NewID: w.newID()}}}},
		"a ring":              {events.CodeBadRequest, Spawn{Children: []Submit{{Type: "email", NewID: w.newID(), After: []events.ID{later}}}}},
	} {
		c.cmd.Run = run
		before := len(w.log)
		w.refused(c.code, c.cmd)
		if len(w.log) != before {
			t.Errorf("%s left events", name)
		}
	}
	_, err := w.try(Spawn{Run: run, Children: []Submit{{Type: "email", NewID: w.newID()}, {Type: "E", NewID: w.newID()}}})
	if err == nil || !strings.Contains(err.Error(), "child 1") {
		t.Fatalf("%v", err)
	}
}

// More items wait for one than a follow-up decides about, and some of them for
// another as well.
func TestManyWaiters(t *testing.T) {
	w := newWorld(t)
	first, second := w.submit(Submit{}), w.submit(Submit{})
	var one, both []events.ID
	for range followUpPage + 20 {
		one = append(one, w.submit(Submit{After: []events.ID{first}}))
		both = append(both, w.submit(Submit{After: []events.ID{first, second}, AfterPolicy: events.AfterRun}))
	}
	callback := w.submit(Submit{After: both})
	w.do(Complete{Run: w.run(first)})
	before := len(w.log)
	w.followUps()
	if n := len(w.log) - before; n != 2*(followUpPage+20) {
		t.Fatalf("%d events", n)
	}
	for i := range one {
		w.state(one[i], events.StateQueued)
		w.state(both[i], events.StateWaiting)
	}
	w.do(Cancel{ID: second})
	w.followUps()
	for _, id := range both {
		w.state(id, events.StateQueued)
		w.do(Complete{Run: w.run(id)})
		w.followUps()
	}
	w.state(callback, events.StateQueued)
	w.readBack()
}

func TestAfterWhatHasEnded(t *testing.T) {
	w := newWorld(t)
	done, gone := w.submit(Submit{}), w.submit(Submit{})
	w.do(Complete{Run: w.run(done)})
	w.do(Cancel{ID: gone})
	w.refused(events.CodeNotFound, Submit{Type: "email", NewID: w.newID(), After: []events.ID{crowdID(1 << 20)}})
	w.state(w.submit(Submit{After: []events.ID{done}}), events.StateQueued)
	w.state(w.submit(Submit{After: []events.ID{done, gone}, AfterPolicy: events.AfterRun}), events.StateQueued)
	w.state(w.submit(Submit{After: []events.ID{gone}, AfterPolicy: events.AfterDead}), events.StateDead)
	id := w.submit(Submit{After: []events.ID{done, gone}})
	w.state(id, events.StateCancelled)
	if it := w.item(id); it.Reason != "upstream_cancelled" || it.Relations.By != gone {
		t.Fatalf("%+v %+v", it, it.Relations)
	}
	holder := w.submit(Submit{DedupKey: "k"})
	merged := w.submit(Submit{DedupKey: "k"})
	waits := w.submit(Submit{After: []events.ID{merged, holder}})
	if r := w.item(waits).Relations; len(r.Waits) != 1 || r.Waits[0] != holder {
		t.Fatalf("%+v", r)
	}
	w.readBack()
}

func TestSnooze(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	order := w.item(id).OrderAt
	run := w.run(id)
	run.Attempt = 1
	w.refused(events.CodeBadTime, Snooze{Run: run})
	snooze := Snooze{Run: run, Delay: time.Minute, Reason: "later"}
	w.do(snooze)
	if it := w.item(id); it.State != events.StateQueued || it.Attempt != 0 || !it.OrderAt.Equal(order) || it.AvailableAt.Sub(w.now) != time.Minute || it.Reason != "snoozed: later" {
		t.Fatalf("%+v", it)
	}
	if d := w.do(snooze); !d.Repeat {
		t.Fatalf("%+v", d)
	}
	w.refused(events.CodeWrongState, Complete{Run: run})
	w.refused(events.CodeWrongState, Release{Run: run})
	w.refused(events.CodeWrongState, Fail{Run: run})
	w.now = w.now.Add(time.Minute)
	run = w.run(id)
	w.do(Release{Run: run, Reason: "snoozed"})
	w.refused(events.CodeWrongState, Snooze{Run: run, Delay: time.Minute})
	w.readBack()
}

func TestProgressIsThrottled(t *testing.T) {
	w := newWorld(t)
	run := w.run(w.submit(Submit{}))
	said := func(percent int, want bool) {
		t.Helper()
		if d := w.do(ReportProgress{Run: run, Percent: percent}); d.Repeat == want {
			t.Fatalf("%d percent: %+v", percent, d)
		}
	}
	w.refused(events.CodeBadRequest, ReportProgress{Run: run, Percent: 101})
	said(1, true)
	said(2, false)
	w.now = w.now.Add(ProgressEvery)
	said(3, true)
	said(100, true)
	w.now = w.now.Add(ProgressEvery)
	said(100, false)
	w.do(Release{Run: run})
	w.refused(events.CodeWrongState, ReportProgress{Run: run, Percent: 4})
	w.run(run.ID)
	if p := w.item(run.ID).Progress; p != (events.Progress{}) {
		t.Fatalf("a new run begins with %+v", p)
	}
}

func TestCheckpointIsForTheNextAttempt(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	run := w.run(id)
	w.refused(events.CodeTooLarge, SaveCheckpoint{Run: run, Checkpoint: json.RawMessage(`"` + strings.Repeat("x", events.MaxCheckpoint) + `"`)})
	w.refused(events.CodeBadParams, SaveCheckpoint{Run: run, Checkpoint: json.RawMessage(`{`)})
	save := SaveCheckpoint{Run: run, Checkpoint: json.RawMessage(`{"page": "<4>"}`)}
	w.do(save)
	if d := w.do(save); !d.Repeat {
		t.Fatalf("%+v", d)
	}
	w.do(Fail{Run: run, Retryable: true})
	w.now = w.now.Add(time.Hour)
	run = w.run(id)
	if doc, err := w.s.Document(events.DocCheckpoint, id); err != nil || string(doc) != `{"page": "<4>"}` || !w.item(id).HasCheckpoint {
		t.Fatalf("%s, %v", doc, err)
	}
	w.do(Complete{Run: run})
	if doc, _ := w.s.Document(events.DocCheckpoint, id); doc != nil || w.item(id).HasCheckpoint {
		t.Fatalf("%s", doc)
	}
	w.readBack()
}

func TestExpiry(t *testing.T) {
	w := newWorld(t)
	soon := w.now.Add(time.Minute)
	w.refused(events.CodeBadTime, Submit{Type: "email", NewID: w.newID(), Delay: time.Hour, ExpiresAt: soon})
	queued, waiting := w.submit(Submit{ExpiresAt: soon}), events.ID{}
	waiting = w.submit(Submit{ExpiresAt: soon, After: []events.ID{queued}, AfterPolicy: events.AfterRun})
	claimed, failed := w.submit(Submit{ExpiresAt: soon}), w.submit(Submit{ExpiresAt: soon})
	w.do(Claim{ID: claimed, Token: 77, Worker: "w1"})
	w.do(Fail{Run: w.run(failed), Retryable: true})
	w.do(Due{ID: queued})
	w.state(queued, events.StateQueued)
	w.now = soon
	w.refused(events.CodeStaleToken, Claim{ID: queued, Token: 78, Worker: "w1"})
	w.refused(events.CodeStaleToken, Start{Run: Run{ID: claimed, Token: 77, Worker: "w1"}})
	for _, id := range []events.ID{waiting, queued, claimed, failed} {
		w.do(Due{ID: id})
	}
	for _, id := range []events.ID{waiting, queued, claimed} {
		if it := w.item(id); it.State != events.StateCancelled || it.Reason != "expired" {
			t.Fatalf("%+v", it)
		}
	}
	w.state(failed, events.StateQueued) // it had started in time
	w.readBack()
}

// Once an item has started, nothing that becomes of its runs makes it expire.
func TestWhatHasStartedDoesNotExpire(t *testing.T) {
	for name, comes := range map[string]func(*world, Run){
		"snooze":     func(w *world, r Run) { w.do(Snooze{Run: r, Delay: time.Second}) },
		"release":    func(w *world, r Run) { w.do(Release{Run: r, Reason: "shutdown"}) },
		"retry":      func(w *world, r Run) { w.do(Fail{Run: r, Retryable: true}) },
		"lost lease": func(w *world, r Run) { w.do(ExpireLease{ID: r.ID, Token: r.Token}) },
		"timeout":    func(w *world, r Run) { w.now = w.item(r.ID).Deadline; w.do(Due{ID: r.ID}) },
		"not started": func(w *world, r Run) {
			w.do(Release{Run: r})
			w.claimOnly(r.ID)
			w.now = w.item(r.ID).StartBy
			w.do(Due{ID: r.ID})
		},
		"claimed": func(w *world, r Run) { w.do(Release{Run: r}); w.claimOnly(r.ID) },
		"children": func(w *world, r Run) {
			kid := w.newID()
			w.do(Spawn{Run: r, Continues: true, Children: []Submit{{Type: "email", NewID: kid}}})
			w.do(Complete{Run: w.run(kid)})
			w.followUps()
		},
		"continuation handed back": func(w *world, r Run) {
			kid := w.newID()
			w.do(Spawn{Run: r, Continues: true, Children: []Submit{{Type: "email", NewID: kid}}})
			w.do(Complete{Run: w.run(kid)})
			w.followUps()
			w.do(Release{Run: w.run(r.ID)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			expires := w.now.Add(time.Hour)
			id := w.submit(Submit{ExpiresAt: expires, Timeout: time.Minute})
			r := w.run(id)
			w.do(SaveCheckpoint{Run: r, Checkpoint: json.RawMessage(`1`)})
			comes(w, r)
			w.now = expires
			was := w.item(id).State
			if d := w.do(Due{ID: id}); !d.Repeat {
				for _, ev := range d.Events {
					if ev.Kind == events.KindCancelled {
						t.Fatalf("%s, and cancelled: %+v", was, ev.Body)
					}
				}
			}
			if it := w.item(id); it.State == events.StateClaimed {
				r = Run{ID: id, Token: it.Token, Worker: it.Worker}
				w.do(Start{Run: r})
			} else {
				r = w.run(id)
			}
			w.do(Complete{Run: r})
			w.state(id, events.StateCompleted)
			w.readBack()
		})
	}
}

// A worker that is lost before it has reported the start leaves the item to its expiry.
func TestLostBeforeTheStartExpires(t *testing.T) {
	w := newWorld(t)
	expires := w.now.Add(time.Hour)
	id := w.submit(Submit{ExpiresAt: expires, MaxAttempts: 2})
	w.claimOnly(id)
	w.do(ExpireLease{ID: id, Token: w.item(id).Token})
	w.state(id, events.StateQueued)
	w.now = expires
	w.do(Due{ID: id})
	if it := w.item(id); it.State != events.StateCancelled || it.Reason != "expired" {
		t.Fatalf("%s %s", it.State, it.Reason)
	}
	w.readBack()
}

// A run that never started leaves the item to its expiry.
func TestWhatHasNotStartedExpires(t *testing.T) {
	w := newWorld(t)
	expires := w.now.Add(time.Hour)
	id := w.submit(Submit{ExpiresAt: expires})
	w.claimOnly(id)
	w.now = w.item(id).StartBy
	w.do(Due{ID: id})
	w.now = expires
	w.do(Due{ID: id})
	if it := w.item(id); it.State != events.StateCancelled || it.Reason != "expired" {
		t.Fatalf("%s %s", it.State, it.Reason)
	}
	// A replay is an order to run it now, whatever time had been set.
	w.do(Replay{ID: id})
	w.now = w.now.Add(time.Hour)
	if d := w.do(Due{ID: id}); !d.Repeat {
		t.Fatalf("%+v", d)
	}
	w.do(Complete{Run: w.run(id)})
	w.readBack()
}

// An item that the host has scored keeps the place that the score gave it.
func TestScore(t *testing.T) {
	w := newWorld(t)
	hour := time.Hour
	up := w.submit(Submit{})
	a, b := w.submit(Submit{Score: &hour}), w.submit(Submit{Score: &hour, After: []events.ID{up}})
	want := w.now.Add(-hour)
	w.now = w.now.Add(time.Minute)
	w.do(Complete{Run: w.run(up)})
	w.followUps()
	for _, id := range []events.ID{a, b} {
		if it := w.item(id); it.State != events.StateQueued || !it.OrderAt.Equal(want) {
			t.Fatalf("%+v", it)
		}
	}
}

// Why tells a snoozed item from one that is due later, also when the snooze has
// a reason.
func TestWhySnoozed(t *testing.T) {
	for _, reason := range []string{"", "the mail server is greylisting"} {
		w := newWorld(t)
		id := w.submit(Submit{})
		w.do(Snooze{Run: w.begin(id, "w"), Delay: time.Hour, Reason: reason})
		it := w.item(id)
		why := Explain(w.s, &it, w.now)
		if len(why) == 0 || why[0].Code != events.WhySnoozed {
			t.Errorf("snoozed with reason %q: %+v", reason, why)
		}
	}
}

// Why says plainly how an item has ended that never ran.
func TestWhyEndedWithoutARun(t *testing.T) {
	w := newWorld(t)
	first := w.submit(Submit{})
	w.do(Cancel{ID: first})
	for id, want := range map[events.ID]string{
		w.submit(Submit{After: []events.ID{first}, AfterPolicy: events.AfterDead}): "Z: upstream_cancelled: item " + first.String() + ", which it comes after, is cancelled",
		w.batched(): "Z: the last item that it waited for has ended",
	} {
		it := w.item(id)
		if why := Explain(w.s, &it, w.now); len(why) != 1 || !strings.HasSuffix(why[0].Message, want) {
			t.Errorf("%+v, want %q", why, want)
		}
	}
}

// batched is a batch that has completed.
func (w *world) batched() events.ID {
	batch := w.do(OpenBatch{Submit: Submit{NewID: w.newID()}}).ID
	w.do(Complete{Run: w.run(w.submit(Submit{Batch: batch}))})
	w.do(SealBatch{ID: batch})
	w.followUps()
	return batch
}
