package core

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/events"
)

// world drives the core as the sequencer does, one command at a time.
type world struct {
	t   *testing.T
	s   *State
	now time.Time
	log []events.Event
	ids uint64
}

func newWorld(t *testing.T) *world {
	s, err := NewState(Empty{})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, s: s, now: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)}
}

func (w *world) newID() events.ID {
	w.ids++
	var u ulid.ULID
	_ = u.SetTime(uint64(w.now.UnixMilli()))
	u[15], u[14] = byte(w.ids), byte(w.ids>>8)
	return events.ID(u)
}

func (w *world) try(c Command) (Decision, error) {
	d, err := Decide(w.s, c, w.now)
	if err != nil {
		return d, err
	}
	frame := w.s.Meta().Applied.Frame() + 1
	for i, ev := range d.Events {
		ev.Seq = events.SeqOf(frame, i)
		if err := w.s.Apply(ev); err != nil {
			w.t.Fatalf("apply what was decided: %v", err)
		}
		w.log = append(w.log, ev)
	}
	return d, nil
}

func (w *world) do(c Command) Decision {
	w.t.Helper()
	d, err := w.try(c)
	if err != nil {
		w.t.Fatalf("%T: %v", c, err)
	}
	return d
}

func (w *world) refused(code events.Code, c Command) {
	w.t.Helper()
	_, err := w.try(c)
	if !errors.Is(err, &events.Error{Code: code}) {
		w.t.Fatalf("%T: got %v, want %s", c, err, code)
	}
}

func (w *world) item(id events.ID) events.Item {
	w.t.Helper()
	it, err := w.s.Item(id)
	if err != nil || it == nil {
		w.t.Fatalf("item %s: %v %v", id, it, err)
	}
	return *it
}

func (w *world) state(id events.ID, want events.ItemState) {
	w.t.Helper()
	if got := w.item(id).State; got != want {
		w.t.Fatalf("item is %s, want %s", got, want)
	}
}

func (w *world) submit(c Submit) events.ID {
	w.t.Helper()
	if c.Type == "" {
		c.Type = "email"
	}
	c.NewID = w.newID()
	return w.do(c).ID
}

func (w *world) claim(id events.ID, tok events.Token) Run {
	w.t.Helper()
	w.do(Claim{ID: id, Token: tok, Worker: "w1", Start: true})
	return Run{ID: id, Token: tok, Worker: "w1"}
}

// readBack replays the encoded log and compares the state that it gives.
func (w *world) readBack() {
	w.t.Helper()
	s, err := NewState(Empty{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, ev := range w.log {
		data, err := ev.AppendJSON(nil)
		if err != nil {
			w.t.Fatal(err)
		}
		back, err := events.DecodeEvent(data)
		if err != nil {
			w.t.Fatalf("read back %.200s: %v", data, err)
		}
		back.Seq = ev.Seq
		if err := s.Apply(back); err != nil {
			w.t.Fatalf("replay %.200s: %v", data, err)
		}
	}
	if live, replayed := w.s.TakeChanges(), s.TakeChanges(); !reflect.DeepEqual(live, replayed) {
		w.t.Fatalf("the replayed state differs:\nlive     %+v\nreplayed %+v", live, replayed)
	}
}

func TestLifeOfAnItem(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{Params: json.RawMessage(`{"to":"a <b> & c"}`)})
	w.state(id, events.StateQueued)
	run := w.claim(id, 7)
	w.state(id, events.StateRunning)
	if it := w.item(id); it.Attempt != 1 || it.Worker != "w1" || it.Deadline.Sub(w.now) != events.DefaultTimeout {
		t.Fatalf("running: %+v", it)
	}
	w.now = w.now.Add(1500 * time.Millisecond)
	w.do(Complete{Run: run, Result: json.RawMessage(`{"ok": true}`)})
	w.state(id, events.StateCompleted)
	if d := w.do(Complete{Run: run, Result: json.RawMessage(`{"ok": true}`)}); len(d.Events) != 0 || !d.Repeat {
		t.Fatalf("a repeated report made events: %+v", d)
	}
	kinds := ""
	for _, e := range w.log {
		kinds += e.Kind.String() + " "
	}
	if kinds != "type_configured created queued claimed running completed " {
		t.Fatal(kinds)
	}
	if d := w.log[5].Body.(*events.Completed); d.Duration != events.Millis(1500) {
		t.Fatalf("duration %d", d.Duration.Milliseconds())
	}
}

func TestRetriesThenDead(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{MaxAttempts: 2})
	order := w.item(id).OrderAt
	run := w.claim(id, 1)
	w.now = w.now.Add(time.Second)
	w.do(Fail{Run: run, Error: "boom", Retryable: true})
	it := w.item(id)
	if it.State != events.StateQueued || !it.OrderAt.Equal(order) || it.AvailableAt.Sub(w.now) < time.Second {
		t.Fatalf("after the first failure: %+v", it)
	}
	if d := w.do(Fail{Run: run, Error: "boom", Retryable: true}); len(d.Events) != 0 {
		t.Fatal("a repeated fail made events")
	}
	w.now = it.AvailableAt
	run = w.claim(id, 2)
	w.do(Fail{Run: run, Error: "boom again", Retryable: true})
	if it := w.item(id); it.State != events.StateDead || it.Reason != "exhausted" {
		t.Fatalf("after the last failure: %+v", it)
	}
	w.refused(events.CodeStaleToken, Complete{Run: Run{ID: id, Token: 1, Worker: "w1"}})
}

func TestNotRetryableIsDeadAtOnce(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	w.do(Fail{Run: w.claim(id, 1), Error: "no such user", Code: "logic"})
	if it := w.item(id); it.State != events.StateDead || it.Reason != "not_retryable" || it.Code != "logic" {
		t.Fatalf("%+v", it)
	}
}

func TestLostLeaseRetriesAtOnceThenBacksOff(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	w.claim(id, 1)
	w.do(ExpireLease{ID: id, Token: 1})
	if it := w.item(id); it.State != events.StateQueued || !it.AvailableAt.IsZero() {
		t.Fatalf("%+v", it)
	}
	w.refused(events.CodeWrongState, Complete{Run: Run{ID: id, Token: 1, Worker: "w1"}})
	w.claim(id, 2)
	if d := w.do(ExpireLease{ID: id, Token: 1}); len(d.Events) != 0 {
		t.Fatal("an old dispatch's lease ended a newer run")
	}
	w.do(ExpireLease{ID: id, Token: 2})
	if it := w.item(id); it.AvailableAt.IsZero() {
		t.Fatalf("the second lost lease did not back off: %+v", it)
	}
}

func TestTimers(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{Timeout: time.Minute})
	w.do(Claim{ID: id, Token: 1, Worker: "w1"})
	w.do(Due{ID: id})
	w.state(id, events.StateClaimed)
	w.now = w.now.Add(events.StartWithin)
	w.do(Due{ID: id})
	if it := w.item(id); it.State != events.StateQueued || it.Attempt != 0 {
		t.Fatalf("not started in time: %+v", it)
	}
	w.claim(id, 2)
	w.now = w.now.Add(time.Minute)
	w.do(Due{ID: id})
	if it := w.item(id); it.State != events.StateQueued || it.Code != events.FailTimeout || it.Attempt != 1 {
		t.Fatalf("timed out: %+v", it)
	}
}

// What a claim has recorded holds, whatever the setting is by then.
func TestStartTimeoutIsSet(t *testing.T) {
	w := newWorld(t)
	w.s.SetLimits(events.Limits{StartTimeout: 5 * time.Second})
	id := w.submit(Submit{})
	w.do(Claim{ID: id, Token: 1, Worker: "w1"})
	if got := w.item(id).StartBy.Sub(w.now); got != 5*time.Second {
		t.Fatalf("it is to start within %s, want 5s", got)
	}
	w.s.SetLimits(events.Limits{})
	w.now = w.now.Add(5 * time.Second)
	w.do(Due{ID: id})
	if it := w.item(id); it.State != events.StateQueued || it.Attempt != 0 {
		t.Fatalf("not started in time: %+v", it)
	}
	for d, ok := range map[time.Duration]bool{0: true, events.MinStartTimeout: true, events.MaxStartTimeout: true, time.Millisecond: false, 2 * time.Hour: false} {
		if err := (events.Limits{StartTimeout: d}).Validate(); (err == nil) != ok {
			t.Errorf("a start timeout of %s: %v", d, err)
		}
	}
}

func TestDedupMergesUntilTerminal(t *testing.T) {
	w := newWorld(t)
	a := w.submit(Submit{DedupKey: "person=kelly", Provenance: events.Provenance{Source: "api"}})
	b := w.submit(Submit{DedupKey: "person=kelly", Provenance: events.Provenance{Source: "heartbeat"}})
	w.state(b, events.StateMerged)
	if w.item(b).MergedInto != a || w.item(a).MergedCount != 1 {
		t.Fatal("not linked")
	}
	other := w.submit(Submit{Type: "call", DedupKey: "person=kelly"})
	w.state(other, events.StateQueued)
	run := w.claim(a, 1)
	w.state(w.submit(Submit{DedupKey: "person=kelly"}), events.StateMerged)
	w.do(Complete{Run: run})
	w.state(w.submit(Submit{DedupKey: "person=kelly"}), events.StateQueued)
}

func TestIdempotency(t *testing.T) {
	w := newWorld(t)
	a := w.submit(Submit{IdempotencyKey: "k"})
	w.do(Complete{Run: w.claim(a, 1)})
	if got := w.submit(Submit{IdempotencyKey: "k"}); got != a {
		t.Fatal("another item for the same idempotency key")
	}
	w.now = w.now.Add(events.IdempotencyWindow)
	if got := w.submit(Submit{IdempotencyKey: "k"}); got == a {
		t.Fatal("the key outlived its window")
	}
}

func TestChosenIDs(t *testing.T) {
	w := newWorld(t)
	id := w.newID()
	w.do(Submit{Type: "email", ID: id, Params: json.RawMessage(`1`)})
	if d := w.do(Submit{Type: "email", ID: id, Params: json.RawMessage(`1`)}); !d.Repeat || len(d.Events) != 0 {
		t.Fatalf("%+v", d)
	}
	w.refused(events.CodeIDConflict, Submit{Type: "email", ID: id, Params: json.RawMessage(`2`)})
}

func TestClaimIsFenced(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	w.refused(events.CodeStaleToken, Claim{ID: id, Worker: "w1"})
	run := w.claim(id, 2)
	w.refused(events.CodeStaleToken, Claim{ID: id, Token: 2, Worker: "w1"})
	w.refused(events.CodeStaleToken, Claim{ID: id, Token: 3, Worker: "w2"})
	w.refused(events.CodeWrongWorker, Complete{Run: Run{ID: id, Token: 2, Worker: "w2"}})
	w.refused(events.CodeWrongAttempt, Complete{Run: Run{ID: id, Token: 2, Worker: "w1", Attempt: 9}})
	w.refused(events.CodeNotFound, Complete{Run: Run{ID: w.newID(), Token: 2, Worker: "w1"}})
	w.do(Release{Run: run})
	if it := w.item(id); it.State != events.StateQueued || it.Attempt != 0 {
		t.Fatalf("released: %+v", it)
	}
}

func TestCancel(t *testing.T) {
	w := newWorld(t)
	a := w.submit(Submit{})
	if d := w.do(Cancel{ID: a}); d.WasRunning {
		t.Fatal("it was queued")
	}
	if d := w.do(Cancel{ID: a}); !d.Repeat {
		t.Fatal("not a repeat")
	}
	b := w.submit(Submit{})
	run := w.claim(b, 1)
	if d := w.do(Cancel{ID: b}); !d.WasRunning {
		t.Fatal("it was running")
	}
	w.refused(events.CodeWrongState, Complete{Run: run})
	c := w.submit(Submit{})
	w.do(Complete{Run: w.claim(c, 2)})
	w.refused(events.CodeWrongState, Cancel{ID: c})
}

func TestReschedule(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	queued := w.item(id).OrderAt
	high := events.PriorityHigh
	w.do(Reschedule{ID: id, Delay: time.Hour, Priority: &high})
	if it := w.item(id); it.AvailableAt.Sub(w.now) != time.Hour || it.Priority != high {
		t.Fatalf("%+v", it)
	}
	w.do(Reschedule{ID: id, Now: true})
	if it := w.item(id); !it.AvailableAt.IsZero() || !it.OrderAt.Equal(queued) {
		t.Fatalf("%+v", it)
	}
	w.refused(events.CodeBadTime, Reschedule{ID: id, Delay: 11 * 365 * 24 * time.Hour})
	w.claim(id, 1)
	w.refused(events.CodeWrongState, Reschedule{ID: id, Now: true})
}

func TestCodecKeepsWhatWasSubmitted(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{Params: json.RawMessage(" {\"a\" : \"<&>\",\n \"b\":1.50}\n"), DedupKey: "é\u2028\"", Labels: map[string]string{"a": "b"}, Capabilities: []string{"gpu", "big-mem", "gpu"}, Delay: time.Second})
	w.now = w.now.Add(time.Second)
	w.do(Complete{Run: w.claim(id, 1), Result: json.RawMessage(`{ "x": "<>" }`)})
	for _, ev := range w.log {
		data, err := ev.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(data) {
			t.Fatalf("not JSON: %s", data)
		}
		back, err := events.DecodeEvent(data)
		if err != nil {
			t.Fatal(err)
		}
		again, err := back.AppendJSON(nil)
		if err != nil || string(again) != string(data) {
			t.Fatalf("not the same after a round trip:\n%s\n%s", data, again)
		}
		if c, ok := back.Body.(*events.Created); ok && string(c.Params) != `{"a" : "<&>",  "b":1.50}` {
			t.Fatalf("params were rewritten: %s", c.Params)
		}
	}
}

func TestAThousandSubmissionsOfOneKey(t *testing.T) {
	w := newWorld(t)
	sources := map[string]bool{}
	for n := range 1000 {
		w.submit(Submit{DedupKey: "k", Provenance: events.Provenance{Source: time.Duration(n).String()}})
	}
	info, _ := w.s.Type("email")
	if info.Counts[events.StateQueued] != 1 || info.Counts[events.StateMerged] != 999 {
		t.Fatalf("%v", info.Counts)
	}
	c := w.s.TakeChanges()
	for _, m := range c.Merged {
		sources[m.Provenance.Source] = true
		if m.Into != w.log[1].ID {
			t.Fatalf("%+v is merged into another", m)
		}
	}
	if len(sources) != 999 || w.item(w.log[1].ID).MergedCount != 999 || c.Meta.Merges != 999 {
		t.Fatalf("%d provenances are kept", len(sources))
	}
}
