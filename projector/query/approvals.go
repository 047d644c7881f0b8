package query

import (
	"encoding/json"
	"fmt"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/internal/layout"
	"github.com/streamwright/streamwright/wire"
)

// Approvals returns a page of the questions that are open, as [Reader.List] does of items: all, or
// those that who may answer.
func (s Reader) Approvals(q wire.Approvals, who events.Answerer, all bool) (reply wire.ApprovalsReply, err error) {
	l, err := newListing(wire.List{State: events.StateWaiting.String(), Type: q.Type, Limit: q.Limit, Cursor: q.Cursor}, "")
	if err != nil {
		return reply, err
	}
	reply.Approvals = []wire.Approval{}
	l.also = func(it *events.Item) bool {
		a, asks := wire.ApprovalOf(it, who)
		if !asks || !a.MayAnswer && (q.Mine || !all) {
			return false
		}
		reply.Approvals = append(reply.Approvals, a)
		return true
	}
	err = s.snapshot(func(v layout.View) error {
		page, err := l.page(v)
		reply.NextCursor = page.NextCursor
		return err
	})
	return reply, err
}

// Asked returns an item, nil if there is none, with the last question that it has asked, nil for
// none, and its mailbox, as of one moment.
func (s Reader) Asked(id events.ID) (it *events.Item, q *events.Question, box *events.Mailbox, err error) {
	box = &events.Mailbox{}
	err = s.snapshot(func(v layout.View) error {
		if it, err = v.Item(id); it == nil || err != nil || it.Signals == nil {
			return err
		}
		if _, err := readDocument(v, events.DocMailbox, id, box); err != nil {
			return err
		}
		asked := &events.Question{}
		found, err := readDocument(v, events.DocQuestion, id, asked)
		if found {
			q = asked
		}
		return err
	})
	return it, q, box, err
}

func readDocument(v layout.View, kind events.DocKind, id events.ID, into any) (found bool, err error) {
	doc, err := v.Document(layout.DocPrefix(kind), id)
	if err != nil || doc == nil {
		return false, err
	}
	if err := json.Unmarshal(doc, into); err != nil {
		return false, fmt.Errorf("document %c of item %s: %w: %w", kind, id, layout.ErrRecord, err)
	}
	return true, nil
}
