package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Question is what a run asks people: see [Ask].
type Question struct {
	Title string // what is asked, in a line of plain text of at most 256 bytes; needed
	Text  string // more of it, in Markdown, at most 16 KiB
	// Choices are the ways to answer; none: to approve and to reject. [ChoiceEdit] needs a Proposal.
	Choices []Choice
	// Form is a JSON schema of the value that an answer has, of an object: as JSON at most 16 KiB. Nil: an
	// answer has none, unless the proposal is changed.
	Form     any
	Proposal any // what is to be approved, the form's first values: as JSON at most 32 KiB; nil: nothing
	Who      Answerers
	Remind   Reminders
}

// Choice is one of the ways to answer a question.
type Choice = events.Choice

// The choices.
const (
	ChoiceApprove = events.ChoiceApprove // the proposal as it is, or the form as it is filled in
	ChoiceReject  = events.ChoiceReject
	ChoiceEdit    = events.ChoiceEdit   // approve, with changes to the proposal
	ChoiceAnswer  = events.ChoiceAnswer // in words
)

// Answerers say who may answer a question.
type Answerers = events.Answerers

// Reminders have the engine submit an item again and again while a question is open.
type Reminders struct {
	Every  time.Duration // 1 s or more; 0: there are none
	Type   string        // of the items, whose params are a [Reminder]
	Params any           // for the handler of that type: as JSON at most 16 KiB
	Most   int           // how many; 0: 1,000
}

// Reminder is the params of an item that reminds of a question.
type Reminder = events.Reminder

// Ask has the run end in a question to people. It is a [Wait] for a signal of a name that only an
// answer is; others are further signals that end it. It must say how long it is:
//
//	return nil, workers.Ask("ok", workers.Question{Title: "Pay 80 €?"}).For(48 * time.Hour)
//
// The run that follows reads the answer by [AnswerOf].
func Ask(name string, q Question, others ...string) Waits {
	w := WaitAny(append([]string{name}, others...)...)
	w.ask = &q
	return w
}

// encode writes the question for the engine.
func (q *Question) encode() (json.RawMessage, error) {
	asked := events.Question{Title: q.Title, Text: q.Text, Choices: q.Choices, Who: q.Who}
	var err error
	if asked.Form, err = optional("form of the question", q.Form); err != nil {
		return nil, err
	}
	if asked.Proposal, err = optional("proposal of the question", q.Proposal); err != nil {
		return nil, err
	}
	if r := q.Remind; r.Every != 0 {
		asked.Remind = &events.Remind{Every: events.DurationOf(r.Every), Type: events.Type(r.Type), Most: r.Most}
		if asked.Remind.Params, err = optional("params of the reminders", r.Params); err != nil {
			return nil, err
		}
	}
	return json.Marshal(asked)
}

// optional encodes a document, nil for none.
func optional(what string, v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	return encodeDocument(what, v)
}

// Answer is an answer to a question.
type Answer[T any] struct {
	Choice  Choice
	Value   T         // the form as it was filled in, or the proposal, changed or not; the zero T if there is none
	Comment string    // of [ChoiceAnswer]: the answer
	By      string    // who answered: the name of his login, or of whom the link was for; where nobody logs in, who he says he is
	At      time.Time // when
}

// Approved reports whether it is a yes, be it with changes.
func (a Answer[T]) Approved() bool { return a.Choice == ChoiceApprove || a.Choice == ChoiceEdit }

// AnswerOf returns the answer to the question of a name that the item's last wait has asked; false
// if nobody has answered: the wait has timed out, or another signal has ended it.
func AnswerOf[T any](it *RawItem, name string) (a Answer[T], ok bool, err error) {
	s, ok := it.Signal(name)
	if !ok || s.Answer == 0 {
		return a, false, nil
	}
	var doc events.Answer
	if err := json.Unmarshal(s.Payload, &doc); err != nil {
		return a, true, fmt.Errorf("read the answer to %s: %w", name, err)
	}
	a.Choice, a.Comment, a.By, a.At = doc.Choice, doc.Comment, doc.By, s.At
	if len(doc.Value) > 0 {
		if err := json.Unmarshal(doc.Value, &a.Value); err != nil {
			return a, true, fmt.Errorf("read the value of the answer to %s: %w", name, err)
		}
	}
	return a, true, nil
}

// Link makes a token with which somebody answers the question that the run is to end in by [Ask]
// with that name, without a login: the engine's page shows it at BASE/#/answer/TOKEN, with BASE the URL
// at which people reach the engine. The answer is in the name of the one whom it is given to, of at
// most 256 bytes. Of several links to a question the first that is used counts. It fails as [Token]
// does.
func Link(ctx context.Context, name, to string) (token string, err error) {
	if to == "" {
		return "", badSpawn("the link is for nobody: say whom it is given to")
	}
	return newToken(ctx, wire.WaitToken{Name: name, For: to})
}
