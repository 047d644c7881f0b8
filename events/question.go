package events

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// The bounds of questions.
const (
	MaxTitle         = 256      // bytes of a question's title
	MaxQuestionText  = 16 << 10 // and of its text
	MaxForm          = 16 << 10 // of its form
	MaxProposal      = 32 << 10 // of its proposal
	MaxAnswerComment = 4 << 10  // of an answer's comment
	MaxAnswerers     = 100      // users and roles that a question names
	MaxAnswererBytes = 4 << 10  // of their names together
	MaxReminders     = 1000     // of one question
	MaxReminderParam = 16 << 10 // bytes of the params that a question gives its reminders
	// MinRemindEvery is the least time between two reminders.
	MinRemindEvery = time.Second
	// MaxAnswered bounds the answered questions of an item that are remembered: the last.
	MaxAnswered = 100
)

// Question is what a wait asks people. It does not change while it is asked.
type Question struct {
	Number   int             `json:"number,omitempty"`   // from 1, in the item; the engine's
	Title    string          `json:"title"`              // what is asked, in a line of plain text
	Text     string          `json:"text,omitempty"`     // more of it, in Markdown
	Choices  []Choice        `json:"choices,omitempty"`  // none: approve and reject
	Form     json.RawMessage `json:"form,omitempty"`     // a JSON schema of the value that an answer has
	Proposal json.RawMessage `json:"proposal,omitempty"` // what is to be approved: the form's first values
	Who      Answerers       `json:"who,omitzero"`
	Remind   *Remind         `json:"remind,omitempty"`
}

// Choice is one of the ways to answer a question.
type Choice string

// SourceReminder is the source of an item that reminds of a question; its trigger is the id of
// the item that asks.
const SourceReminder = "reminder"

// The choices.
const (
	ChoiceApprove Choice = "approve" // the proposal as it is, or the form as it is filled in
	ChoiceReject  Choice = "reject"
	ChoiceEdit    Choice = "edit"   // approve, with changes to the proposal
	ChoiceAnswer  Choice = "answer" // in words
)

// Choices lists them all.
var Choices = [...]Choice{ChoiceApprove, ChoiceReject, ChoiceEdit, ChoiceAnswer}

// Answerers say who may answer a question, among those whose role lets them answer any: whoever
// is one of Users or has one of Roles; everybody if there are neither.
type Answerers struct {
	Users []string `json:"users,omitempty"` // names that the access layer knows
	Roles []string `json:"roles,omitempty"`
	// NotSubmitter excludes the one who submitted the item, and where it is not known who that was,
	// everybody whose own name is known.
	NotSubmitter bool `json:"not_submitter,omitempty"`
}

// Answerer is somebody who answers.
type Answerer struct {
	Name  string
	Known bool     // he has logged in; else Name is what he says it is
	Roles []string // that he has
}

// MayAnswer refuses (CodeForbidden) somebody who may not answer the question, of an item that
// submitter has submitted; empty: that is not known.
func (a *Answerers) MayAnswer(who Answerer, submitter string) error {
	switch {
	case a.NotSubmitter && submitter != "" && who.Name == submitter:
		return Refuse(CodeForbidden, "%s has submitted the item, and may not answer its question", submitter)
	case a.NotSubmitter && submitter == "" && who.Known:
		return Refuse(CodeForbidden, "the log does not say who submitted the item, so nobody with a login may answer its question: submit it with a login")
	case len(a.Users) == 0 && len(a.Roles) == 0, slices.Contains(a.Users, who.Name) && who.Name != "":
		return nil
	case slices.ContainsFunc(who.Roles, func(r string) bool { return slices.Contains(a.Roles, r) }):
		return nil
	}
	return Refuse(CodeForbidden, "the question is for %s%s", strings.Join(a.Names(), " or "), map[bool]string{false: ": say in by who answers"}[who.Known || who.Name != ""])
}

// Fills reports whether an answer of a choice has a value of its own: that of a form, or a
// changed proposal.
func (q *Question) Fills(c Choice) bool {
	switch c {
	case ChoiceEdit:
		return true
	case ChoiceApprove:
		return q.Form != nil && !slices.Contains(q.Choices, ChoiceEdit)
	}
	return false
}

// Names names those who may answer, roles as such; none: everybody.
func (a *Answerers) Names() []string {
	names := slices.Clone(a.Users)
	for _, r := range a.Roles {
		names = append(names, "whoever has the role "+r)
	}
	return names
}

// Remind has the engine submit an item again and again while a question is open.
type Remind struct {
	Every  Duration        `json:"every_ms"`
	Type   Type            `json:"type"`             // of the items
	Params json.RawMessage `json:"params,omitempty"` // the member params of theirs; see [Reminder]
	Most   int             `json:"most,omitempty"`   // how many; 0: [MaxReminders]
}

// Reminder is the params of an item that reminds of a question.
type Reminder struct {
	ID     string          `json:"id"`     // of the item that asks
	Number int             `json:"number"` // of the question
	Title  string          `json:"title"`
	Since  time.Time       `json:"since"`
	Until  time.Time       `json:"until"`
	Nth    int             `json:"nth"` // of the question's reminders, from 1
	Params json.RawMessage `json:"params,omitempty"`
}

// Asked is a question as its item has it. The whole is a document of its own: [DocQuestion].
type Asked struct {
	Number  int       `json:"number"`
	Title   string    `json:"title"`
	Choices []Choice  `json:"choices"`
	Who     Answerers `json:"who,omitzero"`

	RemindEvery Duration  `json:"remind_every_ms,omitzero"`
	RemindAt    time.Time `json:"remind_at,omitzero"` // the next reminder; zero: none
	Reminded    int       `json:"reminded,omitempty"` // reminders so far
	RemindMost  int       `json:"remind_most,omitempty"`
}

// Answer is an answer to a question: the payload of the signal that it becomes.
type Answer struct {
	Choice  Choice          `json:"choice"`
	By      string          `json:"by,omitempty"` // the login's name, the one whom a link was given to, or where nobody logs in whoever he says he is
	Value   json.RawMessage `json:"value,omitempty"`
	Comment string          `json:"comment,omitempty"` // of ChoiceAnswer: the answer
}

// Answered is a question that was answered.
type Answered struct {
	Number int       `json:"number"`
	Signal int       `json:"signal"` // the number of the signal that the answer became
	Choice Choice    `json:"choice"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at"`
	Digest string    `json:"digest"` // [DigestAnswer] of it
}

// Reminded is the payload of reminded: a reminder of the item's question was due.
type Reminded struct {
	Number int       `json:"number"`         // of the question
	Nth    int       `json:"nth"`            // of its reminders
	Next   time.Time `json:"next,omitzero"`  // zero: none
	Item   ID        `json:"item,omitzero"`  // that reminds; zero: it was refused
	Code   Code      `json:"code,omitempty"` // of the refusal
	Error  string    `json:"error,omitempty"`
}

func (*Reminded) Kind() Kind { return KindReminded }

func (b *Reminded) check(*Event) error { return inRange(Writable(b.Next)) }

// Answer returns what is remembered of the answer to a question; nil for nothing.
func (b *Mailbox) Answer(question int) *Answered {
	if i := slices.IndexFunc(b.Answered, func(a Answered) bool { return a.Number == question }); i >= 0 {
		return &b.Answered[i]
	}
	return nil
}
