package core

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/policy"
)

// goldenReplay lives through what becomes of dead letters.
func goldenReplay(w *world) {
	tick := func(d time.Duration) { w.now = w.now.Add(d) }
	tick(time.Hour)
	high := events.PriorityHigh
	id := w.submit(Submit{Type: "invoice", Params: json.RawMessage(`{"to": "kely"}`), DedupKey: "invoice-17"})
	w.do(Fail{Run: w.claim(id, events.NewToken(8, 1)), Error: "no customer \"kely\" in /data/17.db", Code: "logic"})
	tick(time.Minute)
	w.do(Replay{ID: id, Params: json.RawMessage(`{"to":  "kelly"}`), Priority: &high, MaxAttempts: 2, Reason: "the name was wrong"})
	w.do(Complete{Run: w.claim(id, events.NewToken(8, 2))})
	id = w.submit(Submit{Type: "invoice"})
	w.do(Cancel{ID: id})
	w.do(Replay{ID: id})
	w.do(Reject{Type: "invoice", Rejected: events.Rejected{Code: "bad_params", Message: "no", Subject: "work.submit.invoice", Text: "{", Intake: events.Intake{Seq: 6}}})
	w.do(PurgeRejected{Seq: w.s.Meta().Applied, Type: "invoice"})
}

func TestReplay(t *testing.T) {
	w := newWorld(t)
	low := events.PriorityLow
	id := w.submit(Submit{MaxAttempts: 1, ID: w.newID(), Params: json.RawMessage(`1`), DedupKey: "k"})
	run := w.claim(id, events.NewToken(1, 1))
	w.do(Fail{Run: run, Error: "boom", Code: "broken", Retryable: true})
	w.state(id, events.StateDead)
	if it := w.item(id); it.Cause != policy.CauseOf("email", "exhausted", "broken", "boom") || it.Digest == "" {
		t.Fatalf("%+v", it)
	}
	w.now = w.now.Add(time.Hour)
	w.do(Replay{ID: id, Params: json.RawMessage(` {"fixed":  true} `), Priority: &low, MaxAttempts: 4})
	it := w.item(id)
	if it.State != events.StateQueued || it.Priority != low || it.Attempt != 1 || it.MaxAttempts != 5 || !it.OrderAt.Equal(w.now) || it.Digest != "" ||
		it.Cause != "" || !it.FinishedAt.IsZero() || it.Error != "boom" || it.Code != "broken" || it.Worker != "" || !it.HoldsDedup() {
		t.Errorf("%+v", it)
	}
	if p, err := w.s.Params(id); err != nil || string(p) != `{"fixed":  true}` {
		t.Errorf("params %s, %v", p, err)
	}
	w.refused(events.CodeWrongState, Replay{ID: id})
	w.refused(events.CodeStaleToken, Claim{ID: id, Token: run.Token, Worker: "w1"}) // its old run is over
	w.do(Complete{Run: w.claim(id, events.NewToken(1, 2))})
	w.refused(events.CodeWrongState, Replay{ID: id})
	w.refused(events.CodeNotFound, Replay{ID: w.newID()})
}

// A replay gives an item as many attempts as its submission or last replay chose, else
// as its type has.
func TestReplayKeepsTheItemsOwnAttempts(t *testing.T) {
	w := newWorld(t)
	w.configure(func(s *events.TypeSettings) { s.MaxAttempts, s.Backoff.Initial = 4, events.Millis(0) })
	runs := func(id events.ID) (n int) {
		for w.item(id).State == events.StateQueued {
			w.do(Fail{Run: w.run(id), Error: "boom", Code: "broken", Retryable: true})
			n++
		}
		w.state(id, events.StateDead)
		return n
	}
	own, typical, cancelled := w.submit(Submit{MaxAttempts: 2}), w.submit(Submit{}), w.submit(Submit{MaxAttempts: 2})
	w.do(Fail{Run: w.run(cancelled), Error: "boom", Code: "broken", Retryable: true})
	w.do(Cancel{ID: cancelled})
	w.do(Replay{ID: cancelled})
	if n := runs(cancelled); n != 2 {
		t.Errorf("cancelled after one of its own 2 attempts, it gets %d", n)
	}
	for i, c := range []struct {
		id   events.ID
		with events.Attempt
		want int
	}{{own, 0, 2}, {own, 0, 2}, {own, 3, 3}, {own, 0, 3}, {typical, 0, 4}, {typical, 1, 1}, {typical, 0, 1}} {
		if w.item(c.id).State == events.StateQueued {
			runs(c.id)
		}
		w.do(Replay{ID: c.id, MaxAttempts: c.with})
		if n := runs(c.id); n != c.want {
			t.Errorf("replay %d with %d: %d attempts, want %d", i, c.with, n, c.want)
		}
	}
	w.readBack()
}

func TestReplayIsChecked(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	w.do(Cancel{ID: id})
	bad := events.Priority(10)
	w.refused(events.CodeBadPriority, Replay{ID: id, Priority: &bad})
	w.refused(events.CodeBadParams, Replay{ID: id, Params: json.RawMessage(`{`)})
	w.refused(events.CodeTooLarge, Replay{ID: id, Params: json.RawMessage(`"` + strings.Repeat("x", events.MaxParamsBytes) + `"`)})
	w.refused(events.CodeBadRequest, Replay{ID: id, MaxAttempts: -1})
	w.refused(events.CodeBadRequest, Replay{ID: id, MaxAttempts: events.MaxAttemptsCeiling + 1})
	w.refused(events.CodeTooLarge, Replay{ID: id, Reason: strings.Repeat("x", events.MaxNameLen+1)})
	w.do(Replay{ID: id})
	if it := w.item(id); it.MaxAttempts != events.DefaultMaxAttempts || it.Priority != events.PriorityDefault {
		t.Errorf("%+v", it)
	}
	if p, _ := w.s.Params(id); string(p) != "null" {
		t.Errorf("params %s", p)
	}
}

func TestReplayDoesNotTakeADedupKey(t *testing.T) {
	w := newWorld(t)
	first := w.submit(Submit{DedupKey: "k"})
	w.do(Cancel{ID: first})
	second := w.submit(Submit{DedupKey: "k"})
	_, err := w.try(Replay{ID: first})
	if events.CodeOf(err) != events.CodeWrongState || !strings.Contains(err.Error(), second.String()) {
		t.Errorf("refused with %v", err)
	}
	w.do(Complete{Run: w.claim(second, events.NewToken(1, 1))})
	w.do(Replay{ID: first})
	if held, has, _ := w.s.Key(events.KeyRef{Kind: events.KeyDedup, Type: "email", Key: "k"}, w.now); !has || held.ID != first {
		t.Errorf("the key is held by %v, %v", held.ID, has)
	}
}

// A rejected submission can be submitted again while it is kept; a repeat of that is
// answered even after.
func TestSubmitRejected(t *testing.T) {
	w := newWorld(t)
	w.do(Reject{Rejected: events.Rejected{Code: "bad_type", Message: "no", Intake: events.Intake{Seq: 1}}})
	at := w.s.Meta().Applied
	again := Submit{Type: "email", ID: w.newID(), NewID: w.newID(), Rejected: at}
	w.do(again)
	w.do(Submit{Type: "email", NewID: w.newID(), Rejected: at})
	w.do(PurgeRejected{Seq: at}) // the projection may not know it yet
	w.refused(events.CodeNotFound, Submit{Type: "email", NewID: w.newID(), Rejected: at})
	w.refused(events.CodeNotFound, Submit{Type: "email", NewID: w.newID(), Rejected: at + 1})
	if !w.do(again).Repeat {
		t.Error("a repeat is submitted anew")
	}
}

func TestPurgeRejected(t *testing.T) {
	w := newWorld(t)
	w.do(Reject{Rejected: events.Rejected{Code: "bad_type", Message: "no", Intake: events.Intake{Seq: 1}}})
	w.do(Reject{Rejected: events.Rejected{Code: "duplicate", Message: "no", Of: w.newID(), Intake: events.Intake{Seq: 1}}})
	w.refused(events.CodeNotFound, PurgeRejected{Seq: nextFrame(w.s)})
	w.refused(events.CodeNotFound, PurgeRejected{})
	first := w.log[0].Seq
	w.do(PurgeRejected{Seq: first})
	c := w.s.TakeChanges()
	w.refused(events.CodeNotFound, PurgeRejected{Seq: first}) // a second time, before the projection knows
	if len(c.Rejected) != 3 || c.Rejected[0].Body == nil || !c.Rejected[0].Answer || c.Rejected[1].Answer || c.Rejected[2].Body != nil || c.Rejected[2].Seq != first {
		t.Errorf("%+v", c.Rejected)
	}
	if err := w.s.Apply(events.Event{Seq: nextFrame(w.s), Kind: events.KindRejectedPurged, At: w.now, Body: &events.RejectedPurged{Seq: nextFrame(w.s)}}); err == nil {
		t.Error("what is not there yet was purged")
	}
}

// An item folded from its own events is what the log made of it, at any point.
func TestFoldItem(t *testing.T) {
	w := goldenWorld(t)
	own := map[events.ID][]events.Event{}
	s, err := NewState(Empty{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range w.log {
		if err := s.Apply(ev); err != nil {
			t.Fatal(err)
		}
		if ev.ID.IsZero() || ev.Kind == events.KindCarried || ev.Kind == events.KindPruned {
			continue // no part of its history
		}
		own[ev.ID] = append(own[ev.ID], ev)
		got, err := FoldItem(own[ev.ID])
		if err != nil {
			t.Fatalf("event %d: %v", ev.Seq, err)
		}
		want := *s.items[ev.ID].cur
		want.MergedCount, want.Seq, want.BaseSeq, want.HoldsKey = got.MergedCount, got.Seq, got.BaseSeq, got.HoldsKey // by others' events
		ties, own := relationsOf(&want), relationsOf(got)
		ties.Live, ties.Failed, ties.Awaited, ties.Spawn = own.Live, own.Failed, own.Awaited, own.Spawn
		ties.Made, ties.Cancelled = own.Made, own.Cancelled
		want.Relations = &ties
		if dumpItem(got) != dumpItem(&want) {
			t.Fatalf("event %d:\nfolded %s\nwants  %s", ev.Seq, dumpItem(got), dumpItem(&want))
		}
	}
	if it, err := FoldItem(nil); it != nil || err != nil {
		t.Errorf("of no events: %+v, %v", it, err)
	}
}

func TestDecodeBody(t *testing.T) {
	w := goldenWorld(t)
	for _, ev := range w.log {
		data, err := ev.Data()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := events.DecodeBody(ev.Kind, data); err != nil {
			t.Errorf("event %d: %v", ev.Seq, err)
		}
	}
	if b, err := events.DecodeBody(events.KindNone, nil); b != nil || err != nil {
		t.Errorf("%v %v", b, err)
	}
	if _, err := events.DecodeBody(events.KindDead, json.RawMessage(`[`)); err == nil {
		t.Error("a broken payload was read")
	}
}
