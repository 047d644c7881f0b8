package core

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// park ends an item's run in a wait of an hour for signals.
func (w *world) park(r Run, names ...string) {
	w.t.Helper()
	w.do(Park{Run: r, For: time.Hour, Wait: events.WaitTerms{Names: names, Then: events.WaitContinue}})
}

// given returns the names of the signals that an item's run is given.
func (w *world) given(id events.ID) (names []string) {
	w.t.Helper()
	it := w.item(id)
	list, err := w.s.Given(&it)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, s := range list {
		names = append(names, s.Name)
	}
	return names
}

// passes lets the time pass until the item's timer is due.
func (w *world) passes(id events.ID) {
	it := w.item(id)
	w.now = it.TimerAt()
}

func (w *world) gives(id events.ID, want ...string) {
	w.t.Helper()
	if got := w.given(id); !slices.Equal(got, want) {
		w.t.Fatalf("the run is given %q, want %q", got, want)
	}
}

func TestSignalEndsAWait(t *testing.T) {
	for name, first := range map[string]bool{"before the wait": true, "during it": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.submit(Submit{})
			r := w.run(id)
			if first {
				w.do(Signal{ID: id, Name: "paid", Payload: json.RawMessage(`{"sum": 3}`)})
				w.state(id, events.StateRunning)
			}
			w.park(r, "paid")
			if !first {
				w.state(id, events.StateWaiting)
				w.do(Signal{ID: id, Name: "paid", Payload: json.RawMessage(`{"sum": 3}`)})
			}
			if it := w.item(id); it.State != events.StateQueued || it.Attempt != 0 || it.Signals.Wait.Ended != events.WaitSignalled {
				t.Fatalf("%+v %+v", it, it.Signals)
			}
			r = w.run(id)
			w.gives(id, "paid")
			w.do(Complete{Run: r})
			if it := w.item(id); it.Signals.Unread != 0 || it.Attempt != 1 {
				t.Fatalf("%+v %+v", it, it.Signals)
			}
			w.readBack()
		})
	}
}

// What a run was given is used up by its outcome: not by a failure, nor by being handed
// back, nor by a lost lease, nor by a snooze, nor by a timeout.
func TestSignalsAreUsedUpByTheOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*world, Run)
		used bool
	}{
		"failure":    {func(w *world, r Run) { w.do(Fail{Run: r, Retryable: true}) }, false},
		"release":    {func(w *world, r Run) { w.do(Release{Run: r, Reason: "shutdown"}) }, false},
		"lost lease": {func(w *world, r Run) { w.do(ExpireLease{ID: r.ID, Token: r.Token}) }, false},
		"snooze":     {func(w *world, r Run) { w.do(Snooze{Run: r, Delay: time.Second}) }, false},
		"timeout":    {func(w *world, r Run) { w.now = w.item(r.ID).Deadline; w.do(Due{ID: r.ID}) }, false},
		"death": {func(w *world, r Run) {
			w.do(Fail{Run: r})
			w.do(Replay{ID: r.ID})
		}, false},
		"wait": {func(w *world, r Run) {
			w.do(Park{Run: r, For: time.Second, Wait: events.WaitTerms{Names: []string{"other"}, Then: events.WaitContinue}})
			w.passes(r.ID)
			w.do(Due{ID: r.ID})
		}, true},
		"children": {func(w *world, r Run) {
			kid := w.newID()
			w.do(Spawn{Run: r, Continues: true, Children: []Submit{{Type: "email", NewID: kid}}})
			w.do(Complete{Run: w.run(kid)})
			w.followUps()
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.submit(Submit{MaxAttempts: 3, Timeout: time.Minute})
			w.park(w.run(id), "paid")
			w.do(Signal{ID: id, Name: "later"}) // not for this wait: it is kept
			w.do(Signal{ID: id, Name: "paid"})
			r := w.run(id)
			w.gives(id, "paid")
			c.end(w, r)
			w.now = w.now.Add(time.Hour)
			r = w.run(id)
			left := 2
			if c.used {
				left = 1
				w.gives(id)
			} else {
				w.gives(id, "paid")
			}
			if n := w.item(id).Signals.Unread; n != left {
				t.Fatalf("%d unread, want %d", n, left)
			}
			w.park(r, "later")
			w.gives(id, "later")
			w.readBack()
		})
	}
}

func TestWaitForAll(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	all := events.WaitTerms{Names: []string{"a", "b"}, All: true, Then: events.WaitContinue}
	w.do(Park{Run: w.run(id), For: time.Hour, Wait: all})
	w.do(Signal{ID: id, Name: "b"})
	w.do(Signal{ID: id, Name: "b"})
	w.state(id, events.StateWaiting)
	w.do(Signal{ID: id, Name: "a"})
	r := w.run(id)
	w.gives(id, "b", "a")
	w.do(Park{Run: r, For: time.Hour, Wait: all})
	w.state(id, events.StateWaiting) // the second b is there, and no a
	w.passes(id)
	w.do(Due{ID: id})
	r = w.run(id)
	w.gives(id, "b")
	if it := w.item(id); it.Signals.Wait.Ended != events.WaitTimedOut {
		t.Fatalf("%+v", it.Signals.Wait)
	}
	w.do(Complete{Run: r})
	w.readBack()
}

func TestDeadlineOfAWait(t *testing.T) {
	for name, c := range map[string]struct {
		terms events.WaitTerms
		want  events.ItemState
		code  string
	}{
		"continue": {events.WaitTerms{Names: []string{"x"}, Then: events.WaitContinue}, events.StateQueued, ""},
		"no name":  {events.WaitTerms{Then: events.WaitContinue}, events.StateQueued, ""},
		"fail":     {events.WaitTerms{Names: []string{"x"}, Then: events.WaitFail, Code: "no_answer"}, events.StateDead, "no_answer"},
		"complete": {events.WaitTerms{Names: []string{"x"}, Then: events.WaitComplete, Result: json.RawMessage(`"default"`)}, events.StateCompleted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.submit(Submit{})
			r := w.run(id)
			w.do(Park{Run: r, For: time.Hour, Wait: c.terms})
			if d := w.do(Due{ID: id}); !d.Repeat {
				t.Fatalf("before the deadline: %+v", d)
			}
			w.now = w.now.Add(time.Hour)
			w.do(Due{ID: id})
			if it := w.item(id); it.State != c.want || it.Code != c.code || it.Signals.Wait != nil && it.Signals.Wait.Ended == "" {
				t.Fatalf("%+v %+v", it, it.Signals)
			}
			// The worker asks again, and is told the same; another end of that run is refused.
			if d := w.do(Park{Run: r, For: time.Hour, Wait: c.terms}); !d.Repeat {
				t.Fatalf("%+v", d)
			}
			w.refused(events.CodeWrongState, Complete{Run: r})
			w.refused(events.CodeWrongState, Release{Run: r})
			if c.want == events.StateCompleted || c.want == events.StateDead {
				w.refused(events.CodeEnded, Signal{ID: id, Name: "x"})
			}
			if c.want == events.StateDead {
				w.do(Replay{ID: id})
				w.do(Complete{Run: w.run(id)})
			}
			w.readBack()
		})
	}
}

func TestSignalIsSentOnce(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	w.park(w.run(id), "paid")
	w.do(Signal{ID: id, Name: "paid", MsgID: "hook-1"})
	if d := w.do(Signal{ID: id, Name: "paid", MsgID: "hook-1"}); !d.Repeat || len(d.Events) > 0 {
		t.Fatalf("%+v", d)
	}
	r := w.run(id)
	w.park(r, "paid")
	w.state(id, events.StateWaiting)
	if d := w.do(Signal{ID: id, Name: "paid", MsgID: "hook-1"}); !d.Repeat {
		t.Fatalf("once it is used up: %+v", d)
	}
	w.state(id, events.StateWaiting)
	w.do(Cancel{ID: id})
	if d := w.do(Signal{ID: id, Name: "paid", MsgID: "hook-1"}); !d.Repeat {
		t.Fatalf("once the item has ended: %+v", d)
	}
	w.refused(events.CodeEnded, Signal{ID: id, Name: "paid", MsgID: "hook-2"})
	w.readBack()
}

func TestMailboxIsBounded(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	for i := range events.MaxUnread {
		w.do(Signal{ID: id, Name: fmt.Sprint("s", i)})
	}
	w.refused(events.CodeMailboxFull, Signal{ID: id, Name: "more"})
	big := w.submit(Submit{})
	doc := json.RawMessage(`"` + strings.Repeat("x", events.MaxSignalBytes-2) + `"`)
	for range events.MaxMailboxBytes/events.MaxSignalBytes - 1 {
		w.do(Signal{ID: big, Name: "b", Payload: doc})
	}
	w.refused(events.CodeTooLarge, Signal{ID: big, Name: "b", Payload: json.RawMessage(`"x` + string(doc[1:]))})
	w.do(Signal{ID: big, Name: "b"})
	w.refused(events.CodeMailboxFull, Signal{ID: big, Name: "b", Payload: doc})
	w.refused(events.CodeBadParams, Signal{ID: w.submit(Submit{}), Name: "b", Payload: doc[1:]})
	w.readBack()
}

func TestStrictCompletion(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	r := w.run(id)
	w.do(Signal{ID: id, Name: "late"})
	w.refused(events.CodeUnreadSignals, Complete{Run: r, Strict: true})
	w.park(r, "late")
	r = w.run(id)
	w.do(Complete{Run: r, Strict: true})
	w.readBack()

	id = w.submit(Submit{})
	r = w.run(id)
	w.do(Signal{ID: id, Name: "late"})
	d := w.do(Complete{Run: r})
	if c := d.Events[0].Body.(*events.Completed); c.Unread != 1 {
		t.Fatalf("%+v", c)
	}
}

// Whatever completes an item, its last event counts the signals that nobody has read.
func TestCompletionsCountUnreadSignals(t *testing.T) {
	w := newWorld(t)
	last := func(evs []events.Event) {
		t.Helper()
		i := slices.IndexFunc(evs, func(ev events.Event) bool { return ev.Kind == events.KindCompleted })
		if i < 0 || evs[i].Body.(*events.Completed).Unread != 1 {
			t.Fatalf("%+v", evs)
		}
	}
	parent := w.submit(Submit{})
	kid := w.spawn(Spawn{Run: w.run(parent), Children: []Submit{{Type: "email"}}})[0]
	w.do(Signal{ID: parent, Name: "late"})
	w.do(Complete{Run: w.run(kid)})
	last(w.do(FollowUp{ID: parent}).Events)

	set := events.DefaultTypeSettings()
	set.Protocol = events.ProtocolAck
	w.do(Configure{Type: "thumbnail", Source: events.SourceAPI, Settings: set})
	acked := w.submit(Submit{Type: "thumbnail", Signal: &FirstSignal{Name: "late", MsgID: "m"}})
	last(w.do(AckRun{ID: acked, Token: events.NewToken(9, 1), Dispatched: events.NewToken(9, 1), Word: AckDone}).Events)
	w.readBack()
}

func TestRefusedWaits(t *testing.T) {
	w := newWorld(t)
	r := w.run(w.submit(Submit{}))
	ok := events.WaitTerms{Names: []string{"a"}, Then: events.WaitContinue}
	for name, c := range map[string]struct {
		code events.Code
		with func(*Park)
	}{
		"no deadline":        {events.CodeBadTime, func(p *Park) { p.For = 0 }},
		"two deadlines":      {events.CodeBadTime, func(p *Park) { p.Wait.Until = w.now }},
		"too long":           {events.CodeBadTime, func(p *Park) { p.For = events.MaxDelay + 1 }},
		"no outcome":         {events.CodeBadRequest, func(p *Park) { p.Wait.Then = "" }},
		"code of no failure": {events.CodeBadRequest, func(p *Park) { p.Wait.Code = "x" }},
		"result of no end":   {events.CodeBadRequest, func(p *Park) { p.Wait.Result = json.RawMessage(`1`) }},
		"a name twice":       {events.CodeBadRequest, func(p *Park) { p.Wait.Names = []string{"a", "a"} }},
		"an empty name":      {events.CodeBadRequest, func(p *Park) { p.Wait.Names = []string{""} }},
		"all of nothing":     {events.CodeBadRequest, func(p *Park) { p.Wait.Names, p.Wait.All = nil, true }},
		"too many names":     {events.CodeTooLarge, func(p *Park) { p.Wait.Names = make([]string, events.MaxWaitNames+1) }},
		"result is too large": {events.CodeTooLarge, func(p *Park) {
			p.Wait.Then, p.Wait.Result = events.WaitComplete, json.RawMessage(`"`+strings.Repeat("x", events.MaxWaitResult)+`"`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			p := Park{Run: r, For: time.Hour, Wait: ok}
			c.with(&p)
			w.refused(c.code, p)
		})
	}
}

func TestSignalsThatReachNobody(t *testing.T) {
	w := newWorld(t)
	held := w.submit(Submit{DedupKey: "k"})
	merged := w.submit(Submit{DedupKey: "k"})
	w.refused(events.CodeWrongState, Signal{ID: merged, Name: "x"})
	w.refused(events.CodeBadRequest, Signal{ID: held})
	w.refused(events.CodeNotFound, Signal{ID: w.newID(), Name: "x"})
	batch := w.do(OpenBatch{Submit: Submit{NewID: w.newID()}}).ID
	w.refused(events.CodeWrongState, Signal{ID: batch, Name: "x"})
}

// What replaces an item that waits runs behind it: its run has begun.
func TestSupersedeWaitsForWhatIsParked(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{DedupKey: "k"})
	w.park(w.run(id), "a")
	next := w.submit(Submit{DedupKey: "k", DedupPolicy: events.DedupSupersede})
	w.state(id, events.StateWaiting)
	w.state(next, events.StateWaiting)
	w.do(Cancel{ID: id})
	w.followUps()
	w.state(next, events.StateQueued)
	w.readBack()
}

func TestWhyWaitsForASignal(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	w.do(Park{Run: w.run(id), For: time.Hour, Wait: events.WaitTerms{Names: []string{"a", "b"}, Then: events.WaitFail}})
	w.do(Signal{ID: id, Name: "c"})
	it := w.item(id)
	why := Explain(w.s, &it, w.now)
	if len(why) != 1 || why[0].Code != events.WhySignal || !why[0].Until.Equal(w.now.Add(time.Hour)) || !strings.Contains(why[0].Message, `"a" or "b"`) || !strings.Contains(why[0].Message, "1 signal") {
		t.Fatalf("%+v", why)
	}
}

// goldenWait lives through waits and signals.
func (w *world) goldenWait() {
	id := w.submit(Submit{Type: "report"})
	w.do(By{"ada", Signal{ID: id, Name: "note", Payload: json.RawMessage(`{"text": "<early>"}`), MsgID: "hook-1"}})
	w.do(Park{Run: w.run(id), For: time.Hour, Wait: events.WaitTerms{Names: []string{"note", "stop"}, Then: events.WaitContinue}})
	w.do(Park{Run: w.run(id), Wait: events.WaitTerms{Names: []string{"a", "b"}, All: true, Until: w.now.Add(time.Minute), Then: events.WaitFail, Code: "no_answer", Error: "nobody has answered"}})
	w.do(Signal{ID: id, Name: "b"})
	w.now = w.now.Add(time.Minute)
	w.do(Due{ID: id})
	other := w.submit(Submit{Type: "report"})
	w.do(Park{Run: w.run(other), For: time.Minute, Wait: events.WaitTerms{Names: []string{"a"}, Then: events.WaitComplete, Result: json.RawMessage(`{"late": true}`)}})
	w.do(Signal{ID: other, Name: "b"})
	w.now = w.now.Add(time.Minute)
	w.do(Due{ID: other})
	hook := w.submit(Submit{Type: "report"})
	run := w.run(hook)
	w.do(GiveToken{Run: run, Name: "paid", Hash: aTokenHash(1)})
	w.do(GiveToken{Run: run, Name: "paid", Hash: aTokenHash(2)})
	w.do(PresentToken{ID: hook, Hash: aTokenHash(1), Error: &events.SignalError{Code: "declined", Message: "no money"}})
	w.do(Park{Run: run, For: time.Hour, Wait: events.WaitTerms{Names: []string{"paid"}, Then: events.WaitContinue}})
	w.do(Park{Run: w.run(hook), For: time.Hour, Wait: events.WaitTerms{Names: []string{"paid"}, Then: events.WaitContinue}})
	w.do(PresentToken{ID: hook, Hash: aTokenHash(2), Result: json.RawMessage(`{"sum": 3}`)})
	w.do(Complete{Run: w.run(hook)})
	w.goldenQuestion()
}
