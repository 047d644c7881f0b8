package core

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// A token counts once: the first answer is kept, the same one is a repeat, also after the end,
// and another is refused.
func TestTokenCountsOnce(t *testing.T) {
	for name, first := range map[string]bool{"before the wait": true, "during it": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.submit(Submit{})
			r := w.run(id)
			w.do(GiveToken{Run: r, Name: "paid", Hash: aTokenHash(1)})
			if !w.do(GiveToken{Run: r, Name: "paid", Hash: aTokenHash(1)}).Repeat {
				t.Error("the same token again is a new one")
			}
			paid := PresentToken{ID: id, Hash: aTokenHash(1), Result: json.RawMessage(`{"sum": 3}`)}
			if first {
				w.do(paid)
			}
			w.park(r, "paid")
			if !first {
				w.do(paid)
			}
			again := paid
			again.Result = json.RawMessage(`{"sum":3}`)
			if !w.do(again).Repeat {
				t.Error("the same answer again is another")
			}
			w.refused(events.CodeAlreadyCompleted, PresentToken{ID: id, Hash: aTokenHash(1)})
			w.refused(events.CodeAlreadyCompleted, PresentToken{ID: id, Hash: aTokenHash(1), Error: &events.SignalError{Code: "x"}})
			r = w.run(id)
			it := w.item(id)
			given, err := w.s.Given(&it)
			if err != nil || len(given) != 1 || given[0].Name != "paid" || !given[0].Token || string(given[0].Payload) != `{"sum":3}` {
				t.Fatalf("%+v, %v", given, err)
			}
			w.do(Complete{Run: r})
			if !w.do(paid).Repeat {
				t.Error("the same answer after the end is refused")
			}
			w.refused(events.CodeAlreadyCompleted, PresentToken{ID: id, Hash: aTokenHash(1)})
			w.readBack()
		})
	}
}

// A token outlives the run that has made it, and so does that of the attempt before.
func TestTokensOutliveTheirRun(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{MaxAttempts: 3})
	for n := range 2 {
		r := w.run(id)
		w.do(GiveToken{Run: r, Name: "paid", Hash: aTokenHash(n)})
		w.do(Fail{Run: r, Retryable: true})
		w.refused(events.CodeWrongState, GiveToken{Run: r, Name: "paid", Hash: aTokenHash(9)})
		w.now = w.now.Add(time.Hour)
	}
	w.do(PresentToken{ID: id, Hash: aTokenHash(0), Error: &events.SignalError{Code: "declined"}})
	w.do(PresentToken{ID: id, Hash: aTokenHash(1)})
	w.park(w.run(id), "paid")
	it := w.item(id)
	given, err := w.s.Given(&it)
	if err != nil || len(given) != 1 || given[0].Error == nil || given[0].Error.Error() != "declined" || it.Signals.Unread != 2 {
		t.Fatalf("%+v %+v, %v", given, it.Signals, err)
	}
	w.readBack()
}

func TestTokensThatAreRefused(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	r := w.run(id)
	w.refused(events.CodeBadRequest, GiveToken{Run: r, Hash: aTokenHash(1)})
	for _, hash := range []string{"", "x", strings.Repeat("A", 64), aTokenHash(1)[1:]} {
		w.refused(events.CodeBadRequest, GiveToken{Run: r, Name: "paid", Hash: hash})
	}
	w.do(GiveToken{Run: r, Name: "paid", Hash: aTokenHash(1)})
	w.refused(events.CodeBadRequest, GiveToken{Run: r, Name: "other", Hash: aTokenHash(1)})
	w.refused(events.CodeNotFound, PresentToken{ID: id, Hash: aTokenHash(2)})
	w.refused(events.CodeNotFound, PresentToken{ID: w.newID(), Hash: aTokenHash(1)})
	w.refused(events.CodeNotFound, PresentToken{ID: w.submit(Submit{}), Hash: aTokenHash(1)})
	w.refused(events.CodeBadRequest, PresentToken{ID: id, Hash: aTokenHash(1), Result: json.RawMessage("1"), Error: &events.SignalError{}})
	w.refused(events.CodeBadParams, PresentToken{ID: id, Hash: aTokenHash(1), Result: json.RawMessage("no")})
	w.refused(events.CodeTooLarge, PresentToken{ID: id, Hash: aTokenHash(1), Result: json.RawMessage(`"` + strings.Repeat("x", events.MaxSignalBytes) + `"`)})
	w.do(Cancel{ID: id})
	w.refused(events.CodeEnded, PresentToken{ID: id, Hash: aTokenHash(1)})
	w.refused(events.CodeNotFound, PresentToken{ID: id, Hash: aTokenHash(2)})
}

// The bounds: of tokens that nobody has presented, and of those that are kept once somebody has.
func TestTokensAreBounded(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	r := w.run(id)
	for n := range events.MaxTokens {
		w.do(GiveToken{Run: r, Name: "paid", Hash: aTokenHash(n)})
	}
	w.refused(events.CodeMailboxFull, GiveToken{Run: r, Name: "paid", Hash: aTokenHash(events.MaxTokens)})
	for n := range 2 * events.MaxTokens {
		w.do(PresentToken{ID: id, Hash: aTokenHash(n)})
		w.park(r, "paid")
		r = w.run(id)
		w.do(GiveToken{Run: r, Name: "paid", Hash: aTokenHash(events.MaxTokens + n)})
	}
	it := w.item(id)
	box, err := w.s.mailbox(&it)
	if err != nil || len(box.Tokens) != 2*events.MaxTokens || it.Signals.Tokens != events.MaxTokens {
		t.Fatalf("%d tokens, %+v, %v", len(box.Tokens), it.Signals, err)
	}
	w.refused(events.CodeNotFound, PresentToken{ID: id, Hash: aTokenHash(0)})
	w.readBack()
}

// Why says that a token ends the wait only if one does.
func TestWhyTellsOfTokens(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	r := w.run(id)
	w.do(GiveToken{Run: r, Name: "paid", Hash: aTokenHash(1)})
	says := func() bool {
		it := w.item(id)
		return strings.Contains(explainWaiting(w.s, &it).Message, "whoever holds a token for it")
	}
	w.do(Park{Run: r, For: time.Second, Wait: events.WaitTerms{Names: []string{"other"}, Then: events.WaitContinue}})
	if says() {
		t.Error("a token for another signal is told of")
	}
	w.passes(id)
	w.do(Due{ID: id})
	w.park(w.run(id), "paid")
	if !says() {
		t.Error("the token is not told of")
	}
}

// What an error counts is what it takes in the mailbox.
func TestErrorsCountAsTheyAreKept(t *testing.T) {
	w := newWorld(t)
	id := w.submit(Submit{})
	r := w.run(id)
	for n := range events.MaxTokens {
		w.do(GiveToken{Run: r, Name: "paid", Hash: aTokenHash(n)})
	}
	full := 0
	for n := range events.MaxTokens {
		if _, err := w.try(PresentToken{ID: id, Hash: aTokenHash(n), Error: &events.SignalError{Message: strings.Repeat("\x01", events.MaxErrorText)}}); events.CodeOf(err) == events.CodeMailboxFull {
			full++
		}
	}
	doc, err := w.s.Document(events.DocMailbox, id)
	if err != nil || full == 0 || len(doc) > 2*events.MaxMailboxBytes {
		t.Errorf("the mailbox has %d bytes, %d were refused, %v", len(doc), full, err)
	}
	w.readBack()
}
