package api

import (
	"context"
	"slices"

	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// submitAPI decides the requests of producers and workers.
type submitAPI struct {
	*engine
	spawns  chan struct{} // a token for each request with large spawns
	handing chan struct{} // a token for each request that is handed to another namespace
}

func (a *submitAPI) handle(h *handlers) {
	raw[wire.Submit](h, wire.APISubmit, a.submit)
	raw[[]wire.Report](h, wire.APIReport, a.report)
	at(h, wire.APIBatch, a.batch)
	at(h, wire.APICancel, a.cancelItem)
	at(h, wire.APIReschedule, a.reschedule)
	at(h, wire.APISignal, a.signal)
}

// submit decides one item or an array of them.
func (a *submitAPI) submit(c *call) {
	turn := a.Turns.Turn()
	turn.Begin()
	subs, array, errs, err := decodeSubmits(c.data)
	turn.End()
	to := events.Namespace("")
	if err == nil {
		to, err = a.elsewhere(subs, errs)
	}
	if full := a.Full(); full != nil && to == "" { // which room the other one has is for it to say
		err = full.Why
	}
	if err == nil {
		err = c.user.Submit(len(subs), int64(len(c.data)))
	}
	switch {
	case err != nil:
		c.reply(nil, err)
		return
	case to != "":
		a.hand(c, to, subs, array)
		return
	}
	answers := make([]wire.Submitted, len(subs))
	cmds := make([]core.Command, 0, len(subs))
	at := make([]int, 0, len(subs)) // the element of each command
	var claims claims
	for i := range subs {
		cmd, err := a.submission(&subs[i], errs, i)
		if err == nil {
			err = claims.add(c.user, cmd.Type)
		}
		if err != nil {
			if !array {
				c.reply(nil, err)
				return
			}
			answers[i] = wire.Submitted{Error: wire.FromError(err)}
			continue
		}
		cmds, at = append(cmds, cmd), append(at, i)
	}
	if len(cmds) == 0 {
		c.reply(answers, nil)
		return
	}
	c.claim(claims, cmds, func(outcomes []dispatcher.Outcome) {
		for n, o := range outcomes {
			answers[at[n]] = submitted(o)
		}
		if array {
			c.reply(answers, nil)
		} else {
			c.reply(answers[0], outcomes[0].Err)
		}
	})
}

// claims are those of the types of submissions, one for each or none.
type claims []quota.Claim

func (l *claims) add(u *quota.User, t events.Type) error {
	if u == nil {
		return nil
	}
	claim, err := u.Type(t)
	if err == nil {
		*l = append(*l, claim)
	}
	return err
}

// claim is do for submissions whose types are claimed: those that are refused create none.
// The claims are those of the last commands.
func (c *call) claim(claims claims, cmds []core.Command, done func([]dispatcher.Outcome)) {
	first := len(cmds) - len(claims)
	handed := c.do(cmds, func(outcomes []dispatcher.Outcome) {
		for i, claim := range claims {
			claim.Decided(outcomes[first+i].Err == nil)
		}
		done(outcomes)
	})
	if !handed {
		for _, claim := range claims {
			claim.Decided(false)
		}
	}
}

// decodeSubmits is decodeMany for submissions.
func decodeSubmits(data []byte) (list []wire.Submit, array bool, errs []error, err error) {
	if list, array, ok := wire.DecodeSubmits(data); ok {
		return list, array, nil, nil
	}
	return decodeMany[wire.Submit](data, events.MaxSubmitBatch)
}

// submission makes the command of the i-th element, unless reading it failed.
func (a *submitAPI) submission(sub *wire.Submit, errs []error, i int) (core.Submit, error) {
	if errs != nil && errs[i] != nil {
		return core.Submit{}, errs[i]
	}
	return command.OfSubmit(*sub, a.Core.NewID(), events.MaxParamsCeiling)
}

func submitted(o dispatcher.Outcome) wire.Submitted {
	if o.Err != nil {
		return wire.Submitted{Error: wire.FromError(o.Err)}
	}
	a := wire.Submitted{ID: o.Decision.ID.String(), State: stateAfter(o), Repeat: o.Decision.Repeat, Raised: o.Decision.Raised, NotRaised: o.Decision.NotRaised,
		ContentDiffers: o.Decision.ContentDiffers, Position: wire.PositionOf(o.Position)}
	if o.Item != nil && !o.Item.MergedInto.IsZero() {
		a.MergedInto = o.Item.MergedInto.String()
	}
	return a
}

// do hands commands to the engine, and reports whether it has taken them. done must reply.
func (c *call) do(cmds []core.Command, done func([]dispatcher.Outcome)) (handed bool) {
	ctx, cancel := context.WithTimeout(c.s.ctx, enqueueTimeout)
	defer cancel()
	if err := c.s.Core.Do(ctx, askedBy(c.actor, cmds), done); err != nil {
		c.reply(nil, err)
		return false
	}
	return true
}

// decide has one command decided, unless reading it failed, and answers with what
// reply makes of the outcome.
func (c *call) decide(cmd core.Command, err error, reply func(dispatcher.Outcome) any) {
	if err != nil {
		c.reply(nil, err)
		return
	}
	c.do([]core.Command{cmd}, func(o []dispatcher.Outcome) { c.reply(reply(o[0]), o[0].Err) })
}

// stateAfter returns the state that a decision has left its item in.
func stateAfter(o dispatcher.Outcome) (s events.ItemState) {
	if o.Item != nil {
		s = o.Item.State
	}
	return s
}

// report decides one report or an array of them.
func (a *submitAPI) report(c *call) {
	turn := a.Turns.Turn()
	turn.Begin()
	list, array, errs, err := decodeReports(c.data)
	turn.End()
	if err != nil {
		c.reply(nil, err)
		return
	}
	reports := command.Reports(list)
	if !slices.ContainsFunc(reports, storesChildren) {
		a.decideReports(c, reports, array, a.check(reports, errs))
		return
	}
	select { // the object store takes its time, which other reports must not wait for
	case a.spawns <- struct{}{}:
	default:
		c.reply(nil, errBusy)
		return
	}
	go func() {
		defer func() { <-a.spawns }()
		ctx, cancel := context.WithTimeout(a.ctx, childrenTimeout)
		defer cancel()
		errs := a.fetchChildren(ctx, reports, errs)
		errs = a.storeChildren(ctx, reports, a.check(reports, errs))
		a.decideReports(c, reports, array, errs)
	}()
}

// decideReports decides the reports that are sound and answers all.
func (a *submitAPI) decideReports(c *call, reports []command.Report, array bool, errs []error) {
	if !array && errs != nil {
		c.reply(nil, errs[0])
		return
	}
	reports, place := sound(reports, errs)
	finish := func(answers []wire.Reported) {
		if !array {
			c.reply(answers[0], answers[0].Error.Err())
			return
		}
		c.reply(place(answers), nil)
	}
	if len(reports) == 0 {
		c.reply(place(nil), nil)
		return
	}
	ctx, cancel := context.WithTimeout(a.ctx, enqueueTimeout)
	defer cancel()
	if err := a.Core.Report(ctx, reports, finish); err != nil {
		c.reply(nil, err)
	}
}

// decodeReports is decodeMany for reports.
func decodeReports(data []byte) (list []wire.Report, array bool, errs []error, err error) {
	if list, ok := wire.DecodeReports(data); ok && len(list) <= MaxReports {
		return list, true, nil, nil
	}
	return decodeMany[wire.Report](data, MaxReports)
}

// sound leaves out the reports that could not be read, and returns how to put
// the answers of the others into their places.
func sound(reports []command.Report, errs []error) ([]command.Report, func([]wire.Reported) []wire.Reported) {
	if errs == nil {
		return reports, func(answers []wire.Reported) []wire.Reported {
			if answers == nil {
				return []wire.Reported{}
			}
			return answers
		}
	}
	var good []command.Report
	for i, r := range reports {
		if errs[i] == nil {
			good = append(good, r)
		}
	}
	return good, func(answers []wire.Reported) []wire.Reported {
		all := make([]wire.Reported, len(errs))
		for i, err := range errs {
			if err != nil {
				all[i].Error = wire.FromError(err)
				continue
			}
			all[i], answers = answers[0], answers[1:]
		}
		return all
	}
}

// cancelItem decides a cancel.
func (a *submitAPI) cancelItem(c *call, req wire.Cancel) {
	cmd, err := command.OfCancel(req)
	c.decide(cmd, err, func(o dispatcher.Outcome) any {
		return wire.Cancelled{ID: o.Decision.ID.String(), State: stateAfter(o), WasRunning: o.Decision.WasRunning, WorkerTold: o.WorkerTold, Position: wire.PositionOf(o.Position)}
	})
}

// reschedule decides a change of a queued item's order.
func (a *submitAPI) reschedule(c *call, req wire.Reschedule) {
	cmd, err := command.OfReschedule(req, a.Core.Now())
	c.decide(cmd, err, func(o dispatcher.Outcome) any {
		return wire.Rescheduled{ID: o.Decision.ID.String(), State: stateAfter(o), Position: wire.PositionOf(o.Position)}
	})
}

// signal decides a signal to an item.
func (a *submitAPI) signal(c *call, req wire.Signal) {
	cmd, err := command.OfSignal(req)
	c.decide(cmd, err, func(o dispatcher.Outcome) any {
		return wire.Signalled{ID: o.Decision.ID.String(), State: stateAfter(o), Repeat: o.Decision.Repeat, Position: wire.PositionOf(o.Position)}
	})
}

// batch opens a batch, with its callback, or seals one.
func (a *submitAPI) batch(c *call, req wire.Batch) {
	if full := a.Full(); full != nil && !req.Seal {
		c.reply(nil, full.Why)
		return
	}
	cmds, err := command.OfBatch(req, a.Core.NewID)
	if err == nil && !req.Seal {
		err = c.user.Submit(len(cmds), int64(len(c.data)))
	}
	var claims claims
	if err == nil && len(cmds) > 1 {
		err = claims.add(c.user, cmds[1].(core.Submit).Type) // the callback's
	}
	if err != nil {
		c.reply(nil, err)
		return
	}
	c.claim(claims, cmds, func(o []dispatcher.Outcome) {
		a := wire.BatchReply{ID: o[0].Decision.ID.String(), State: stateAfter(o[0]), Repeat: o[0].Decision.Repeat, Position: wire.PositionOf(o[len(o)-1].Position)}
		a.Batch, _ = wire.BatchOf(o[0].Item)
		if o[0].Err == nil && len(o) > 1 {
			callback := submitted(o[1])
			a.Callback = &callback
		}
		c.reply(a, o[0].Err)
	})
}
