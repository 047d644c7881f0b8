package streamwright

import (
	"context"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Names of the wire's types.
type (
	// Approval is a question that an item asks.
	Approval = wire.Approval
	// ApprovalPage is a page of questions. No NextCursor: the last.
	ApprovalPage = wire.ApprovalsReply
	// Answered says what has become of an answer.
	Answered = wire.AnswerReply
)

// Approvals selects questions that are open.
type Approvals struct {
	Type   string // only of items of this type
	Mine   bool   // only those that one may answer
	Limit  int    // of a page: 1 to 1,000; 0: 50
	Cursor string // the NextCursor of the page before
}

// Approvals returns a page of the questions that items ask now, those last touched first, without
// their text, form and proposal. Who has not the role read sees those that he may answer.
func (c *Client) Approvals(ctx context.Context, q Approvals) (ApprovalPage, error) {
	return ask[ApprovalPage](ctx, c, wire.APIApprovals, wire.Approvals{Type: q.Type, Mine: q.Mine, Limit: q.Limit, Cursor: q.Cursor, MinPosition: c.Position()})
}

// Approval returns the last question that an item has asked, whole: with Answered, if somebody has
// answered it. An item that has asked nothing is CodeNotFound.
func (c *Client) Approval(ctx context.Context, id string) (Approval, error) {
	return ask[Approval](ctx, c, wire.APIApproval, wire.ShowApproval{ID: id, MinPosition: c.Position()})
}

// Answer answers a question.
type Answer struct {
	Number  int           // of the question; 0: the last that the item has asked, which is looked up first
	Choice  events.Choice // approve, reject, edit or answer
	Value   any           // the form as it is filled in, or the changed proposal: as JSON at most 32 KiB; nil: none
	Comment string        // at most 4 KiB; of the choice answer: the answer
	By      string        // where nobody logs in: who answers
}

// Answer answers the question that an item asks, once. The same answer again does nothing more.
// Errors are CodeAlreadyCompleted if somebody else was first (the message says who), CodeForbidden
// for one who may not answer, CodeBadRequest for a value that does not match the form,
// CodeWrongState if nothing is asked, and CodeEnded for an item that has ended.
func (c *Client) Answer(ctx context.Context, id string, a Answer) (Answered, error) {
	req := wire.Answer{ID: id, Number: a.Number, Choice: a.Choice, Comment: a.Comment, By: a.By}
	var err error
	if req.Value, err = encodeDocument("the value of the answer", "is", a.Value); err != nil {
		return Answered{}, err
	}
	if req.Number == 0 {
		asked, err := c.Approval(ctx, id)
		if err != nil {
			return Answered{}, err
		}
		req.Number = asked.Number
	}
	r, err := ask[Answered](ctx, c, wire.APIAnswer, req)
	c.ObservePosition(r.Position)
	return r, err
}
