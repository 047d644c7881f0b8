package wire

import (
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Approvals asks for the questions that items ask now, those last touched first.
type Approvals struct {
	Type        string   `json:"type,omitempty"`                    // only of items of this type
	Mine        bool     `json:"mine,omitempty"`                    // only those that whoever asks may answer
	Limit       int      `json:"limit,omitempty" strict:"positive"` // how many at most: 1 to 1,000, 50 if left out
	Cursor      string   `json:"cursor,omitempty"`                  // the next_cursor of the page before
	MinPosition Position `json:"min_position,omitempty"`
}

// ApprovalsReply is a page of questions, without text, nodes, form and proposal. It may be shorter
// than the limit, even empty, and still have a NextCursor. No NextCursor: the end.
type ApprovalsReply struct {
	Approvals  []Approval `json:"approvals"`
	NextCursor string     `json:"next_cursor,omitempty"`
	Stale      string     `json:"stale,omitempty"` // see [Listed]
}

// ShowApproval asks for the last question that an item has asked.
type ShowApproval struct {
	ID          string   `json:"id"`
	MinPosition Position `json:"min_position,omitempty"`
}

// ShowLink asks for the question that a link is for.
type ShowLink struct {
	Token string `json:"token"`
}

// Approval is a question of an item.
type Approval struct {
	ID      string           `json:"id"`   // of the item
	Type    string           `json:"type"` // and its type
	Name    string           `json:"name"` // of the signal that the answer becomes
	Number  int              `json:"number"`
	Title   string           `json:"title"`
	Choices []events.Choice  `json:"choices"`
	Who     events.Answerers `json:"who,omitzero"`
	Since   time.Time        `json:"since,omitzero"`
	Until   time.Time        `json:"until,omitzero"` // the deadline; with since, zero if it is not open
	Then    events.WaitThen  `json:"then,omitempty"` // what becomes of the item then

	SubmittedBy string `json:"submitted_by,omitempty"`
	Tenant      string `json:"tenant,omitempty"`
	Reminded    int    `json:"reminded,omitempty"` // reminders so far

	// MayAnswer says that whoever asks may answer it, and WhyNot why not.
	MayAnswer bool           `json:"may_answer"`
	WhyNot    string         `json:"why_not,omitempty"`
	Answered  *AnsweredShown `json:"answered,omitempty"` // nil: nobody has answered

	Text     string          `json:"text,omitempty"`  // Markdown
	Nodes    json.RawMessage `json:"nodes,omitempty"` // the same as a tree of elements: texts and {tag, href, children}
	Form     json.RawMessage `json:"form,omitempty"`  // a JSON schema
	Proposal json.RawMessage `json:"proposal,omitempty"`
	For      string          `json:"for,omitempty"` // of a link: whom it was given to
}

// AnsweredShown says how a question was answered.
type AnsweredShown struct {
	Choice events.Choice `json:"choice"`
	By     string        `json:"by,omitempty"`
	At     time.Time     `json:"at"`
}

// Answer answers a question.
type Answer struct {
	ID      string          `json:"id"`              // of the item
	Number  int             `json:"number"`          // of the question
	Choice  events.Choice   `json:"choice"`          // approve, reject, edit or answer
	Value   json.RawMessage `json:"value,omitempty"` // what the form is filled in with, or the changed proposal: at most 32 KiB
	Comment string          `json:"comment,omitempty"`
	By      string          `json:"by,omitempty"` // where nobody logs in: who answers
}

// AnswerReply answers an Answer.
type AnswerReply struct {
	ID       string           `json:"id"`
	State    events.ItemState `json:"state"`
	Repeat   bool             `json:"repeat,omitempty"` // he had given this answer before
	Position Position         `json:"position"`
}

// ApprovalOf shows the question that an item asks now, without what its document has; false if it
// asks nothing.
func ApprovalOf(it *events.Item, who events.Answerer) (Approval, bool) {
	w := it.Wait()
	if w == nil || w.Ask == nil {
		return Approval{}, false
	}
	a := Approval{
		ID: it.ID.String(), Type: string(it.Type), Name: w.Names[0], Number: w.Ask.Number, Title: w.Ask.Title, Choices: w.Ask.Choices, Who: w.Ask.Who,
		Since: w.Since, Until: w.Until, Then: w.Then, SubmittedBy: it.SubmittedBy, Tenant: it.Tenant, Reminded: w.Ask.Reminded, MayAnswer: true,
	}
	if err := w.Ask.Who.MayAnswer(who, it.SubmittedBy); err != nil {
		a.MayAnswer, a.WhyNot = false, FromError(err).Message
	}
	return a, true
}
