package core

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// ask ends a run in a question.
func (w *world) ask(r Run, q events.Question) {
	w.t.Helper()
	if q.Title == "" {
		q.Title = "Pay?"
	}
	w.do(Park{Run: r, For: time.Hour, Wait: events.WaitTerms{Names: []string{"ok", "stop"}, Then: events.WaitContinue}, Ask: &q})
}

func by(name string, roles ...string) events.Answerer {
	return events.Answerer{Name: name, Known: true, Roles: roles}
}

func approve() events.Answer { return events.Answer{Choice: events.ChoiceApprove} }

// givenAnswer returns the answer that an item's run is given.
func (w *world) givenAnswer(id events.ID) (a events.Answer) {
	w.t.Helper()
	it := w.item(id)
	list, err := w.s.Given(&it)
	if err != nil || len(list) != 1 || list[0].Answer == 0 {
		w.t.Fatalf("%+v, %v", list, err)
	}
	if err := json.Unmarshal(list[0].Payload, &a); err != nil {
		w.t.Fatal(err)
	}
	return a
}

// Of two who answer at once one counts, and the other is told who it was. The same answer again is a
// repeat, also after the end.
func TestOneAnswerCounts(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	w.refused(events.CodeWrongState, Answer{ID: id, Answer: approve(), Who: by("ada")})
	w.ask(w.run(id), events.Question{})
	w.refused(events.CodeWrongState, Answer{ID: id, Number: 2, Answer: approve(), Who: by("ada")})
	w.do(By{"ada", Answer{ID: id, Number: 1, Answer: approve(), Who: by("ada")}})
	err := w.refusal(events.CodeAlreadyCompleted, Answer{ID: id, Number: 1, Answer: approve(), Who: by("bob")})
	if !strings.Contains(err.Error(), "ada") || !strings.Contains(err.Error(), "approve") {
		t.Error(err)
	}
	w.refused(events.CodeAlreadyCompleted, Answer{ID: id, Answer: events.Answer{Choice: events.ChoiceReject}, Who: by("ada")})
	again := Answer{ID: id, Number: 1, Answer: approve(), Who: by("ada")}
	if !w.do(again).Repeat {
		t.Error("the same answer is another")
	}
	r := w.run(id)
	if a := w.givenAnswer(id); a.Choice != events.ChoiceApprove || a.By != "ada" {
		t.Errorf("%+v", a)
	}
	w.ask(r, events.Question{})
	w.refused(events.CodeAlreadyCompleted, Answer{ID: id, Number: 1, Answer: approve(), Who: by("bob")})
	w.do(Answer{ID: id, Number: 2, Answer: approve(), Who: by("bob")})
	w.do(Complete{Run: w.run(id)})
	if !w.do(Answer{ID: id, Answer: approve(), Who: by("bob")}).Repeat {
		t.Error("the same answer after the end is another")
	}
	w.readBack()
}

// Each way to answer has the value that it is to have, and no other.
func TestChoicesAndValues(t *testing.T) {
	form, proposal, changed := json.RawMessage(`{"type":"object"}`), json.RawMessage(`{"sum":3}`), json.RawMessage(`{"sum": 4}`)
	edit := []events.Choice{events.ChoiceApprove, events.ChoiceEdit, events.ChoiceAnswer}
	for name, c := range map[string]struct {
		q    events.Question
		a    events.Answer
		want string // the value; "-": it is refused
	}{
		"approve":                 {events.Question{}, approve(), ""},
		"approve with a value":    {events.Question{}, events.Answer{Choice: events.ChoiceApprove, Value: changed}, "-"},
		"approve the proposal":    {events.Question{Proposal: proposal}, approve(), `{"sum":3}`},
		"approve another":         {events.Question{Proposal: proposal}, events.Answer{Choice: events.ChoiceApprove, Value: changed}, "-"},
		"the form":                {events.Question{Form: form}, events.Answer{Choice: events.ChoiceApprove, Value: changed}, `{"sum":4}`},
		"the form, empty":         {events.Question{Form: form}, approve(), "-"},
		"reject a form":           {events.Question{Form: form}, events.Answer{Choice: events.ChoiceReject, Comment: "no"}, ""},
		"reject with a value":     {events.Question{Form: form}, events.Answer{Choice: events.ChoiceReject, Value: changed}, "-"},
		"edit":                    {events.Question{Choices: edit, Proposal: proposal}, events.Answer{Choice: events.ChoiceEdit, Value: changed}, `{"sum":4}`},
		"edit nothing":            {events.Question{Choices: edit, Proposal: proposal}, events.Answer{Choice: events.ChoiceEdit}, "-"},
		"as it is, with a form":   {events.Question{Choices: edit, Proposal: proposal, Form: form}, approve(), `{"sum":3}`},
		"no such choice":          {events.Question{Choices: edit, Proposal: proposal}, events.Answer{Choice: events.ChoiceReject}, "-"},
		"in words":                {events.Question{Choices: edit, Proposal: proposal}, events.Answer{Choice: events.ChoiceAnswer, Comment: "later"}, ""},
		"in no words":             {events.Question{Choices: edit, Proposal: proposal}, events.Answer{Choice: events.ChoiceAnswer, Comment: " "}, "-"},
		"a value that is no JSON": {events.Question{Form: form}, events.Answer{Choice: events.ChoiceApprove, Value: json.RawMessage(`no`)}, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.submit(Submit{})
			w.ask(w.run(id), c.q)
			cmd := Answer{ID: id, Answer: c.a, Who: by("ada")}
			if c.want == "-" {
				if _, err := Decide(w.s, cmd, w.now); err == nil {
					t.Fatal("it was taken")
				}
				return
			}
			w.do(cmd)
			w.run(id)
			if a := w.givenAnswer(id); string(a.Value) != c.want || a.Choice != c.a.Choice || a.Comment != c.a.Comment {
				t.Errorf("%+v", a)
			}
			if !w.do(cmd).Repeat {
				t.Error("the same answer is another")
			}
			w.readBack()
		})
	}
}

func TestWhoMayAnswer(t *testing.T) {
	users := events.Answerers{Users: []string{"ada", "eve"}, Roles: []string{"operate"}}
	fourEyes := events.Answerers{NotSubmitter: true}
	for name, c := range map[string]struct {
		of        events.Answerers
		submitter string
		who       events.Answerer
		may       bool
	}{
		"anybody":                      {events.Answerers{}, "eve", by("eve"), true},
		"nobody known":                 {events.Answerers{}, "", events.Answerer{}, true},
		"a named user":                 {users, "", by("ada"), true},
		"another":                      {users, "", by("bob", "approve"), false},
		"a role":                       {users, "", by("bob", "operate"), true},
		"who says that he is one":      {users, "", events.Answerer{Name: "ada"}, true},
		"who says nothing":             {users, "", events.Answerer{}, false},
		"the submitter":                {fourEyes, "eve", by("eve", "operate"), false},
		"another than the submitter":   {fourEyes, "eve", by("ada"), true},
		"of an unknown submitter":      {fourEyes, "", by("ada"), false},
		"where nobody logs in":         {fourEyes, "", events.Answerer{Name: "ada"}, true},
		"a named user who submitted":   {events.Answerers{Users: []string{"eve"}, NotSubmitter: true}, "eve", by("eve"), false},
		"no name of an unnamed person": {events.Answerers{Users: []string{"ada"}}, "", events.Answerer{Known: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.submit(Submit{By: c.submitter})
			w.ask(w.run(id), events.Question{Who: c.of})
			cmd := Answer{ID: id, Answer: approve(), Who: c.who}
			if !c.may {
				w.refused(events.CodeForbidden, cmd)
				return
			}
			w.do(cmd)
		})
	}
}

// Who has submitted a parent has submitted its children.
func TestChildrenAreOfTheirParentsSubmitter(t *testing.T) {
	w := newWorld(t)
	parent := w.submit(Submit{By: "eve"})
	kid := w.spawn(Spawn{Run: w.run(parent), Children: []Submit{{}}})[0]
	w.ask(w.run(kid), events.Question{Who: events.Answerers{NotSubmitter: true}})
	w.refused(events.CodeForbidden, Answer{ID: kid, Answer: approve(), Who: by("eve")})
	w.do(Answer{ID: kid, Answer: approve(), Who: by("ada")})
}

// Only an answer is one: a signal of the name is refused while it is asked, and one that came
// before stays unread. A signal of another name of the wait ends it.
func TestSignalsAreNoAnswers(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{IdempotencyKey: "k"})
	w.do(Signal{ID: id, Name: "ok"})
	r := w.run(id)
	w.do(GiveToken{Run: r, Name: "ok", Hash: aTokenHash(1)})
	w.ask(r, events.Question{})
	w.refused(events.CodeWrongState, Signal{ID: id, Name: "ok"})
	w.refused(events.CodeWrongState, PresentToken{ID: id, Hash: aTokenHash(1)})
	w.refused(events.CodeWrongState, Submit{Type: "email", IdempotencyKey: "k", Signal: &FirstSignal{Name: "ok", MsgID: "m"}, NewID: w.newID()})
	if it := w.item(id); it.Wait() == nil {
		t.Fatalf("%+v", it)
	}
	w.do(Signal{ID: id, Name: "stop"})
	if got := w.given(id); !slices.Equal(got, []string{"stop"}) {
		t.Errorf("given %v", got)
	}
	w.refused(events.CodeWrongState, Answer{ID: id, Answer: approve(), Who: by("ada")})
	w.readBack()
}

// An answer has room in a full mailbox: there can be only one.
func TestAnAnswerHasRoom(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	r := w.run(id)
	for range events.MaxUnread {
		w.do(Signal{ID: id, Name: "note"})
	}
	w.ask(r, events.Question{})
	w.refused(events.CodeMailboxFull, Signal{ID: id, Name: "note"})
	w.do(Answer{ID: id, Answer: approve(), Who: by("ada")})
	w.readBack()
}

// Of two links to a question, one answers it; the other is told who has. Each answers as the one
// whom it was given to.
func TestLinks(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{By: "eve"})
	r := w.run(id)
	for i, name := range []string{"ada", "bob", "eve"} {
		w.do(GiveToken{Run: r, Name: "ok", Hash: aTokenHash(i + 1), For: name})
	}
	yes, no := json.RawMessage(`{"choice":"approve"}`), json.RawMessage(`{"choice":"reject"}`)
	w.refused(events.CodeWrongState, PresentToken{ID: id, Hash: aTokenHash(1), Number: 1, Result: yes})
	w.ask(r, events.Question{Who: events.Answerers{Users: []string{"carol"}, NotSubmitter: true}})
	w.refused(events.CodeBadRequest, PresentToken{ID: id, Hash: aTokenHash(1), Number: 1, Result: json.RawMessage(`1`)})
	w.refused(events.CodeBadRequest, PresentToken{ID: id, Hash: aTokenHash(1), Number: 1, Error: &events.SignalError{Code: "x"}})
	w.refused(events.CodeWrongState, PresentToken{ID: id, Hash: aTokenHash(1), Result: yes})
	w.refused(events.CodeForbidden, PresentToken{ID: id, Hash: aTokenHash(3), Number: 1, Result: yes})
	dec := w.do(PresentToken{ID: id, Hash: aTokenHash(1), Number: 1, Result: yes})
	if dec.Events[0].By != "ada" {
		t.Errorf("answered by %q", dec.Events[0].By)
	}
	if !w.do(PresentToken{ID: id, Hash: aTokenHash(1), Number: 1, Result: yes}).Repeat {
		t.Error("the same answer is another")
	}
	w.refused(events.CodeAlreadyCompleted, PresentToken{ID: id, Hash: aTokenHash(1), Number: 1, Result: no})
	err := w.refusal(events.CodeAlreadyCompleted, PresentToken{ID: id, Hash: aTokenHash(2), Number: 1, Result: yes})
	if !strings.Contains(err.Error(), "ada") {
		t.Error(err)
	}
	if it := w.item(id); it.Signals.Tokens != 0 {
		t.Errorf("%d links are open", it.Signals.Tokens)
	}
	r = w.run(id)
	if a := w.givenAnswer(id); a.By != "ada" {
		t.Errorf("%+v", a)
	}
	w.do(GiveToken{Run: r, Name: "ok", Hash: aTokenHash(4), For: "ada"})
	w.do(Complete{Run: r})
	w.refused(events.CodeEnded, PresentToken{ID: id, Hash: aTokenHash(4), Number: 1, Result: yes})
	w.refused(events.CodeAlreadyCompleted, PresentToken{ID: id, Hash: aTokenHash(2), Number: 1, Result: yes})
	w.readBack()
}

// A link is for one question: when that is over without an answer, so is the link, and it counts no
// more.
func TestLinksEndWithTheirQuestion(t *testing.T) {
	yes := json.RawMessage(`{"choice":"approve"}`)
	for name, end := range map[string]func(*world, events.ID){
		"the deadline":   func(w *world, id events.ID) { w.now = w.now.Add(time.Hour); w.do(Due{ID: id, NewID: w.newID()}) },
		"another signal": func(w *world, id events.ID) { w.do(Signal{ID: id, Name: "stop"}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.submit(Submit{})
			r := w.run(id)
			w.do(GiveToken{Run: r, Name: "ok", Hash: aTokenHash(1), For: "bob"})
			w.do(GiveToken{Run: r, Name: "ok", Hash: aTokenHash(2)})
			w.ask(r, events.Question{})
			end(w, id)
			if it := w.item(id); it.Signals.Tokens != 1 {
				t.Errorf("%d tokens are open, want the one that is no link", it.Signals.Tokens)
			}
			w.ask(w.run(id), events.Question{})
			for number := range 3 {
				w.refused(events.CodeWrongState, PresentToken{ID: id, Hash: aTokenHash(1), Number: number, Result: yes})
			}
			w.readBack()
		})
	}
}

// So it is when the wait or somebody ends the item, which may ask again once it is replayed.
func TestLinksEndWithTheirItem(t *testing.T) {
	yes := json.RawMessage(`{"choice":"approve"}`)
	for name, end := range map[string]func(*world, events.ID){
		"the deadline": func(w *world, id events.ID) { w.now = w.now.Add(time.Hour); w.do(Due{ID: id, NewID: w.newID()}) },
		"a cancel":     func(w *world, id events.ID) { w.do(Cancel{ID: id}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.submit(Submit{})
			r := w.run(id)
			w.do(GiveToken{Run: r, Name: "ok", Hash: aTokenHash(1), For: "bob"})
			w.do(Park{Run: r, For: time.Hour, Wait: events.WaitTerms{Names: []string{"ok"}, Then: events.WaitFail}, Ask: &events.Question{Title: "Pay?"}})
			end(w, id)
			if it := w.item(id); !it.State.Terminal() || it.Signals.Tokens != 0 {
				t.Errorf("it is %s, %d links are open", it.State, it.Signals.Tokens)
			}
			w.do(Replay{ID: id})
			w.ask(w.run(id), events.Question{})
			w.refused(events.CodeWrongState, PresentToken{ID: id, Hash: aTokenHash(1), Number: 2, Result: yes})
			w.readBack()
		})
	}
}

// The same answer again is a repeat, also when the item asks the next question.
func TestRepeatedAnswerToAnEarlierQuestion(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	w.ask(w.run(id), events.Question{Proposal: json.RawMessage(`{"sum":3}`)})
	first := Answer{ID: id, Number: 1, Answer: approve(), Who: by("ada")}
	w.do(first)
	w.ask(w.run(id), events.Question{})
	if !w.do(first).Repeat {
		t.Error("it is another")
	}
	first.Who = by("bob")
	w.refused(events.CodeAlreadyCompleted, first)

	rejects := Answer{ID: id, Number: 2, Answer: events.Answer{Choice: events.ChoiceReject, Comment: "too much"}, Who: by("ada")}
	w.do(rejects)
	w.ask(w.run(id), events.Question{})
	if !w.do(rejects).Repeat {
		t.Error("it is another")
	}
	rejects.Answer.Comment = ""
	w.refused(events.CodeAlreadyCompleted, rejects)
}

// Whoever replays an item with other params has submitted what it asks about.
func TestWhoReplaysWithOtherParams(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{By: "eve"})
	w.do(Cancel{ID: id})
	w.do(By{"bob", Replay{ID: id, Params: json.RawMessage(`{"sum":9}`)}})
	w.ask(w.run(id), events.Question{Who: events.Answerers{NotSubmitter: true}})
	w.refused(events.CodeForbidden, Answer{ID: id, Answer: approve(), Who: by("bob")})
	w.do(Answer{ID: id, Answer: approve(), Who: by("eve")})
}

// A reminder that was counted by a clock which was ahead comes by the clock as it is.
func TestRemindersAfterTheClockWasSetBack(t *testing.T) {
	for name, until := range map[string]time.Time{"a delay": {}, "a time": time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.submit(Submit{})
			right := w.now
			w.now = w.now.Add(48 * time.Hour)
			p := Park{Run: w.run(id), Wait: events.WaitTerms{Names: []string{"ok"}, Then: events.WaitContinue, Until: until}, Ask: &events.Question{Title: "Pay?", Remind: &events.Remind{Every: events.DurationOf(10 * time.Minute), Type: "remind"}}}
			if until.IsZero() {
				p.For = time.Hour
			}
			w.do(p)
			w.now = right.Add(time.Minute)
			w.do(Own{Owner: "o", Version: "v", Clock: &AcceptClock{At: w.now, By: "ops"}})
			w.do(Recount{ID: id})
			it := w.item(id)
			if at := it.Wait().Ask.RemindAt; at.After(w.now.Add(10*time.Minute)) || !at.After(w.now) {
				t.Errorf("the reminder comes at %s, now is %s", at, w.now)
			}
			if !until.IsZero() && !it.Wait().Until.Equal(until) {
				t.Errorf("the deadline that somebody named was moved to %s", it.Wait().Until)
			}
			if !w.do(Recount{ID: id}).Repeat {
				t.Error("it is counted twice")
			}
			w.readBack()
		})
	}
}

// Reminders come by their interval, as items with what they remind of, until their number, the
// deadline or the answer. One that is refused is not the last.
func TestReminders(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{Tenant: "acme"})
	w.ask(w.run(id), events.Question{Remind: &events.Remind{Every: events.DurationOf(10 * time.Minute), Type: "remind", Params: json.RawMessage(`{"to": "ada"}`), Most: 3}})
	due := func() Decision {
		t.Helper()
		it := w.item(id)
		w.now = it.TimerAt()
		return w.do(Due{ID: id, NewID: w.newID()})
	}
	begun := w.now
	dec := due()
	rem, ok := dec.Events[0].Body.(*events.Reminded)
	if !ok || rem.Nth != 1 || !w.now.Equal(begun.Add(10*time.Minute)) || !rem.Next.Equal(begun.Add(20*time.Minute)) {
		t.Fatalf("%+v", dec.Events[0].Body)
	}
	kid := w.item(rem.Item)
	var p events.Reminder
	params, err := w.s.Params(kid.ID)
	if err == nil {
		err = json.Unmarshal(params, &p)
	}
	if err != nil || kid.Type != "remind" || kid.Tenant != "acme" || kid.Provenance != (events.Provenance{Source: events.SourceReminder, Trigger: id.String()}) ||
		p.ID != id.String() || p.Number != 1 || p.Nth != 1 || p.Title != "Pay?" || string(p.Params) != `{"to":"ada"}` {
		t.Fatalf("%+v %s, %v", kid, params, err)
	}
	if !w.do(Due{ID: id, NewID: w.newID()}).Repeat {
		t.Error("a reminder that is not due")
	}
	set := events.DefaultTypeSettings()
	set.MaxQueued = 1
	w.do(Configure{Type: "remind", Source: events.SourceAPI, Settings: set})
	rem = due().Events[0].Body.(*events.Reminded)
	if rem.Nth != 2 || rem.Code != events.CodeQueueFull || !rem.Item.IsZero() || rem.Next.IsZero() {
		t.Fatalf("%+v", rem)
	}
	w.do(Complete{Run: w.run(kid.ID)})
	rem = due().Events[0].Body.(*events.Reminded)
	if rem.Nth != 3 || rem.Item.IsZero() || !rem.Next.IsZero() {
		t.Fatalf("%+v", rem)
	}
	w.do(Answer{ID: id, Answer: approve(), Who: by("ada")})
	w.readBack()
}

// An engine that was down for long reminds once, not for each time that has passed; and behind
// the deadline not at all.
func TestRemindersAfterALongWhile(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	w.ask(w.run(id), events.Question{Remind: &events.Remind{Every: events.DurationOf(10 * time.Minute), Type: "remind"}})
	w.now = w.now.Add(45 * time.Minute)
	rem := w.do(Due{ID: id, NewID: w.newID()}).Events[0].Body.(*events.Reminded)
	if rem.Nth != 1 || !rem.Next.Equal(w.now.Add(10*time.Minute)) {
		t.Fatalf("%+v", rem)
	}
	w.now = w.now.Add(time.Hour)
	w.do(Due{ID: id, NewID: w.newID()})
	w.state(id, events.StateQueued)
	if it := w.item(id); it.Waited() == nil || it.Waited().Ended != events.WaitTimedOut {
		t.Fatalf("%+v", it.Signals)
	}
	w.refused(events.CodeWrongState, Answer{ID: id, Number: 1, Answer: approve(), Who: by("ada")})
}

func TestQuestionsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	r := w.run(id)
	for name, c := range map[string]struct {
		code events.Code
		with func(*Park)
	}{
		"no name":         {events.CodeBadRequest, func(p *Park) { p.Wait.Names = nil }},
		"for all":         {events.CodeBadRequest, func(p *Park) { p.Wait.All = true }},
		"no title":        {events.CodeBadRequest, func(p *Park) { p.Ask.Title = "" }},
		"two lines":       {events.CodeBadRequest, func(p *Park) { p.Ask.Title = "a\nb" }},
		"a long title":    {events.CodeTooLarge, func(p *Park) { p.Ask.Title = strings.Repeat("x", events.MaxTitle+1) }},
		"a long text":     {events.CodeTooLarge, func(p *Park) { p.Ask.Text = strings.Repeat("x", events.MaxQuestionText+1) }},
		"a strange text":  {events.CodeBadRequest, func(p *Park) { p.Ask.Text = "\xff" }},
		"no schema":       {events.CodeBadParams, func(p *Park) { p.Ask.Form = json.RawMessage(`no`) }},
		"a long form":     {events.CodeTooLarge, func(p *Park) { p.Ask.Form = json.RawMessage(`"` + strings.Repeat("x", events.MaxForm) + `"`) }},
		"a choice twice":  {events.CodeBadRequest, func(p *Park) { p.Ask.Choices = []events.Choice{"approve", "approve"} }},
		"no choice":       {events.CodeBadRequest, func(p *Park) { p.Ask.Choices = []events.Choice{"shrug"} }},
		"edit of nothing": {events.CodeBadRequest, func(p *Park) { p.Ask.Choices = []events.Choice{"edit"} }},
		"an empty user":   {events.CodeBadRequest, func(p *Park) { p.Ask.Who.Users = []string{""} }},
		"many users":      {events.CodeTooLarge, func(p *Park) { p.Ask.Who.Users = make([]string, events.MaxAnswerers+1) }},
		"too often":       {events.CodeBadTime, func(p *Park) { p.Ask.Remind = &events.Remind{Every: events.Millis(1), Type: "remind"} }},
		"no reminder":     {events.CodeBadType, func(p *Park) { p.Ask.Remind = &events.Remind{Every: events.Millis(5000)} }},
		"of its own":      {events.CodeBadType, func(p *Park) { p.Ask.Remind = &events.Remind{Every: events.Millis(5000), Type: "email"} }},
		"strange title":   {events.CodeBadRequest, func(p *Park) { p.Ask.Title = "pay\u202eme" }},
		"too many": {events.CodeBadRequest, func(p *Park) {
			p.Ask.Remind = &events.Remind{Every: events.Millis(5000), Type: "remind", Most: events.MaxReminders + 1}
		}},
	} {
		p := Park{Run: r, For: time.Hour, Wait: events.WaitTerms{Names: []string{"ok"}, Then: events.WaitContinue}, Ask: &events.Question{Title: "Pay?"}}
		c.with(&p)
		if _, err := Decide(w.s, p, w.now); events.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// goldenQuestion lives through questions, links and reminders.
func (w *world) goldenQuestion() {
	id := w.submit(Submit{Type: "report", By: "eve"})
	r := w.run(id)
	w.do(GiveToken{Run: r, Name: "ok", Hash: aTokenHash(1), For: "bob"})
	w.do(Park{Run: r, For: time.Hour, Wait: events.WaitTerms{Names: []string{"ok"}, Then: events.WaitFail}, Ask: &events.Question{
		Title: "Pay <80>?", Text: "**Really**?", Choices: events.Choices[:], Form: json.RawMessage(`{"type": "object"}`), Proposal: json.RawMessage(`{"sum": 3}`),
		Who:    events.Answerers{Users: []string{"ada"}, Roles: []string{"operate"}, NotSubmitter: true},
		Remind: &events.Remind{Every: events.DurationOf(10 * time.Minute), Type: "remind", Params: json.RawMessage(`{"to":"ada"}`), Most: 2},
	}})
	w.now = w.now.Add(10 * time.Minute)
	w.do(Due{ID: id, NewID: w.newID()})
	w.do(By{"ada", Answer{ID: id, Number: 1, Answer: events.Answer{Choice: events.ChoiceEdit, Value: json.RawMessage(`{"sum": 4}`), Comment: "less"}, Who: by("ada")}})
	r = w.run(id)
	w.do(GiveToken{Run: r, Name: "ok", Hash: aTokenHash(2), For: "bob"})
	w.ask(r, events.Question{})
	w.do(PresentToken{ID: id, Hash: aTokenHash(2), Number: 2, Result: json.RawMessage(`{"choice":"reject"}`)})
	w.ask(w.run(id), events.Question{})
	w.do(Cancel{ID: id})
}
