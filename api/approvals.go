package api

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/api/markdown"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
	"github.com/streamwright/streamwright/wire/form"
)

// approvalAPI shows the questions that items ask, and takes answers to them, and what else comes by
// a token.
type approvalAPI struct{ *engine }

func (a *approvalAPI) handle(h *handlers) {
	projected(h, wire.APIApprovals, a.list)
	projected(h, wire.APIApproval, a.show)
	on(h, wire.APIAnswer, a.answer)
	on(h, wire.APILink, a.link)
	on(h, wire.APIToken, a.token)
}

// answerer returns who asks, as one who may answer a question.
func (c *call) answerer() events.Answerer {
	who := events.Answerer{Name: c.actor, Known: true, Roles: strings.Split(c.roles.String(), ",")}
	if c.author("") == "" {
		who.Name, who.Known = "", false
	}
	return who
}

func (a *approvalAPI) list(ctx context.Context, c *call, req wire.Approvals) (any, error) {
	reply, err := a.Queries.Approvals(req, c.answerer(), c.roles.Has(access.RolesOf(access.Read)))
	if err == nil {
		reply.Stale = a.lacking(ctx)
	}
	return reply, err
}

// sees reports whether whoever asks may know of an item's question, and that there is an item.
func (c *call) sees(as *asked) bool {
	if c.roles.Has(access.RolesOf(access.Read)) {
		return true
	}
	if as.question == nil {
		return false
	}
	return as.question.Who.MayAnswer(c.answerer(), as.item.SubmittedBy) == nil
}

// asked is an item with the last question that it has asked.
type asked struct {
	item     *events.Item
	question *events.Question // nil: none
	box      *events.Mailbox
}

func (a *approvalAPI) asked(ctx context.Context, id events.ID) (asked, error) {
	return lookup(ctx, a.engine, id, func() (as asked, found bool, err error) {
		as.item, as.question, as.box, err = a.Queries.Asked(id)
		return as, as.item != nil, err
	})
}

// show shows the question, whole, and how it was answered, if it was.
func (as *asked) show(who events.Answerer) (wire.Approval, error) {
	q, it := as.question, as.item
	if q == nil {
		return wire.Approval{}, events.Refuse(events.CodeNotFound, "item %s has asked nothing: it is %s", it.ID, it.State)
	}
	shown, open := wire.ApprovalOf(it, who)
	if !open {
		shown = wire.Approval{ID: it.ID.String(), Type: string(it.Type), Number: q.Number, Title: q.Title, Choices: q.Choices, Who: q.Who,
			SubmittedBy: it.SubmittedBy, Tenant: it.Tenant, WhyNot: "it is no longer open"}
		if err := q.Who.MayAnswer(who, it.SubmittedBy); err != nil {
			shown.WhyNot = wire.FromError(err).Message
		}
		if by := as.box.Answer(q.Number); by != nil {
			shown.WhyNot = "it was answered"
			shown.Answered = &wire.AnsweredShown{Choice: by.Choice, By: by.By, At: by.At}
		}
	}
	shown.Text, shown.Form, shown.Proposal = q.Text, q.Form, q.Proposal
	if q.Text != "" {
		nodes, err := json.Marshal(markdown.Nodes(q.Text))
		if err != nil {
			return shown, err
		}
		shown.Nodes = nodes
	}
	return shown, nil
}

func (a *approvalAPI) show(ctx context.Context, c *call, req wire.ShowApproval) (any, error) {
	id, err := parseID(req.ID)
	if err != nil {
		return nil, err
	}
	as, err := a.asked(ctx, id)
	if err != nil {
		return nil, err
	}
	if !c.sees(&as) {
		return nil, noItem(id)
	}
	return as.show(c.answerer())
}

// answer answers a question, in the state that the projection has: what the form is can't change
// while the question has its number.
func (a *approvalAPI) answer(ctx context.Context, c *call, req wire.Answer) (any, error) {
	cmd, err := command.OfAnswer(req, c.answerer())
	if err != nil {
		return nil, err
	}
	as, err := a.current(ctx, cmd.ID)
	if err != nil {
		return nil, err
	}
	switch q := as.question; {
	case !c.sees(&as):
		return nil, noItem(cmd.ID)
	case cmd.Number == 0:
		return nil, events.Refuse(events.CodeBadRequest, "the answer does not say which question it is to: give the number of the one that you have read")
	case q == nil || cmd.Number > q.Number: // its form, if it is asked meanwhile, is not known here
		return nil, events.Refuse(events.CodeWrongState, "item %s has not asked question %d", cmd.ID, cmd.Number)
	}
	if err := as.fits(cmd.Number, cmd.Answer); err != nil {
		return nil, err
	}
	o, err := a.one(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return wire.AnswerReply{ID: req.ID, State: stateAfter(o), Repeat: o.Decision.Repeat, Position: wire.PositionOf(o.Position)}, nil
}

// current is asked with all that is decided by now.
func (a *approvalAPI) current(ctx context.Context, id events.ID) (asked, error) {
	if err := a.await(ctx, wire.PositionOf(a.Core.Position())); err != nil {
		return asked{}, err
	}
	return a.asked(ctx, id)
}

// ofToken is current of the item that a token names, of which nobody is told that it is not there.
func (a *approvalAPI) ofToken(ctx context.Context, id events.ID) (asked, error) {
	as, err := a.current(ctx, id)
	if events.CodeOf(err) == events.CodeNotFound {
		err = core.ErrNoToken
	}
	return as, err
}

// fits holds the value of an answer against the form of the question with a number, if that is
// open. Whatever else is wrong with it, the core says.
func (as *asked) fits(number int, given events.Answer) error {
	q := as.question
	if q == nil || q.Number != number || as.item.Wait().Asks() != number || q.Form == nil || len(given.Value) == 0 || !q.Fills(given.Choice) {
		return nil
	}
	return form.Validate(q.Form, given.Value)
}

// link shows the question that a link is for.
func (a *approvalAPI) link(ctx context.Context, _ *call, req wire.ShowLink) (any, error) {
	id, ok := wire.WaitTokenItem(req.Token)
	if !ok {
		return nil, core.ErrNoToken
	}
	as, err := a.ofToken(ctx, id)
	if err != nil {
		return nil, err
	}
	t := as.box.Token(wire.HashWaitToken(req.Token))
	if t == nil || t.For == "" {
		return nil, core.ErrNoToken
	}
	w, open := as.item.Wait(), false
	switch q := as.question; {
	case t.Question != 0:
		open = q != nil && q.Number == t.Question // it was answered, and is still kept
	case as.item.State.Terminal():
		return nil, events.Refuse(events.CodeEnded, "what was asked ended without an answer by this link")
	default:
		open = w.Asks() != 0 && w.Names[0] == t.Name
	}
	if !open {
		if was := as.box.Answer(t.Question); was != nil {
			return wire.Approval{ID: as.item.ID.String(), Type: string(as.item.Type), Name: t.Name, Number: was.Number, Choices: []events.Choice{}, For: t.For,
				WhyNot: "it was answered", Answered: &wire.AnsweredShown{Choice: was.Choice, By: was.By, At: was.At}}, nil
		}
		return nil, core.ErrNotAskedNow
	}
	shown, err := as.show(events.Answerer{Name: t.For, Known: true})
	if shown.Name, shown.For = t.Name, t.For; shown.Answered == nil {
		// Whoever has the link may answer, unless he has submitted the item.
		shown.MayAnswer, shown.WhyNot = true, ""
		if who := as.question.Who; who.NotSubmitter && as.item.SubmittedBy == t.For {
			shown.MayAnswer, shown.WhyNot = false, "whoever submitted the item may not answer its question"
		}
	}
	shown.Who, shown.SubmittedBy, shown.Tenant = events.Answerers{}, "", "" // of no concern to somebody outside
	return shown, err
}

// token decides what somebody who presents a token says.
func (a *approvalAPI) token(ctx context.Context, _ *call, req wire.PresentToken) (any, error) {
	cmd, err := command.OfToken(req)
	if err != nil {
		return nil, err
	}
	as, err := a.ofToken(ctx, cmd.ID)
	if err != nil {
		return nil, err
	}
	var given events.Answer
	if t := as.box.Token(cmd.Hash); t != nil && t.For != "" && as.question != nil && json.Unmarshal(cmd.Result, &given) == nil {
		cmd.Number = as.question.Number
		if err := as.fits(cmd.Number, given); err != nil {
			return nil, err
		}
	}
	o, err := a.one(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return wire.TokenPresented{ID: o.Decision.ID.String()}, nil
}
