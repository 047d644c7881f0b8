package api

import (
	"context"
	"slices"
	"time"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// deadAPI shows dead items, replays and purges them, and changes many items at once.
type deadAPI struct {
	*engine
	bulks chan struct{} // a token for each bulk request
}

func (a *deadAPI) handle(h *handlers) {
	projected(h, wire.APIDead, func(ctx context.Context, _ *call, r wire.Selection) (any, error) {
		page, err := a.Queries.Dead(r)
		return a.listed(ctx, page, err)
	})
	projected(h, wire.APICauses, func(ctx context.Context, _ *call, r wire.CausesQuery) (any, error) {
		reply, err := a.Queries.Causes(r)
		if err == nil {
			reply.Stale = a.lacking(ctx)
		}
		return reply, err
	})
	at(h, wire.APIReplay, a.replay)
	at(h, wire.APIPurge, a.purge)
	raw[wire.Bulk](h, wire.APIBulk, limited(h.s, a.bulks, bulkTimeout, a.bulk))
}

// replay decides the replay of one item.
func (a *deadAPI) replay(c *call, req wire.Replay) {
	cmd, err := command.OfReplay(req)
	if err != nil || len(req.Patch) == 0 {
		c.change(cmd, err)
		return
	}
	c.s.async(c.s.queries, awaitTimeout+controlTimeout, func(ctx context.Context, _ *call) (any, error) { return a.replayPatched(ctx, req, cmd) })(c)
}

// replayPatched decides the replay of an item whose params are patched first. They
// can't change in between: only a replay changes them, and of two the second is
// refused.
func (a *deadAPI) replayPatched(ctx context.Context, req wire.Replay, cmd core.Replay) (any, error) {
	if err := a.await(ctx, wire.PositionOf(a.Core.Position())); err != nil {
		return nil, err
	}
	var err error
	if cmd.Params, err = a.patched(cmd.ID, req.Patch); err != nil {
		return nil, err
	}
	o, err := a.one(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return wire.ReplayReply{ID: req.ID, State: stateAfter(o), Position: wire.PositionOf(o.Position)}, nil
}

// patched returns an item's params with a merge patch applied to them.
func (a *deadAPI) patched(id events.ID, patch []byte) ([]byte, error) {
	it, ok, err := a.Queries.Full(id)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, events.Refuse(events.CodeNotFound, "no item %s", id)
	case blobs.IsRef(it.Params):
		return nil, events.Refuse(events.CodeBadParams, "the params of item %s are in the object store, where they can't be patched: replay it with whole params", id)
	}
	return command.MergePatch(it.Params, patch)
}

// purge decides the end of one item.
func (a *deadAPI) purge(c *call, req wire.Purge) {
	cmd, err := command.OfPurge(req)
	c.change(cmd, err)
}

// change decides a command about one item, unless reading it failed.
func (c *call) change(cmd core.Command, err error) {
	c.decide(cmd, err, func(o dispatcher.Outcome) any {
		return wire.ReplayReply{ID: o.Decision.ID.String(), State: stateAfter(o), Position: wire.PositionOf(o.Position)}
	})
}

// decideAll has commands decided, and waits for what becomes of them.
func (e *engine) decideAll(ctx context.Context, cmds []core.Command) ([]dispatcher.Outcome, error) {
	answer := make(chan []dispatcher.Outcome, 1)
	enqueue, cancel := context.WithTimeout(ctx, enqueueTimeout)
	defer cancel()
	if err := e.Core.Do(enqueue, askedBy(actorOf(ctx), cmds), func(o []dispatcher.Outcome) { answer <- o }); err != nil {
		return nil, err
	}
	select {
	case o := <-answer:
		return o, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

const (
	// MaxBulk bounds the items that one bulk request changes.
	MaxBulk = 1000
	// MaxBulks bounds the bulk requests under way at once.
	MaxBulks = 2
	// MaxPatched bounds the items that one bulk request replays with a patch, since it
	// holds the params of all of them: its pages are so much shorter.
	MaxPatched = 100
	// maxBulkErrors bounds the failures that a reply names.
	maxBulkErrors = 10
	// maxBulkSample bounds the items that a reply names.
	maxBulkSample = 5
	// bulkTimeout bounds a bulk request.
	bulkTimeout = 60 * time.Second
)

// bulkStates are the states in which an action can be done.
var bulkStates = map[string][]events.ItemState{
	wire.BulkReplay:     {events.StateDead, events.StateCancelled},
	wire.BulkPurge:      {events.StateCompleted, events.StateDead, events.StateCancelled, events.StateMerged},
	wire.BulkCancel:     {events.StateQueued, events.StateWaiting, events.StateClaimed, events.StateRunning},
	wire.BulkReschedule: {events.StateQueued},
}

// bulk does one thing to a page of items: it reads them from the projection,
// and has each changed by a command of its own.
func (a *deadAPI) bulk(ctx context.Context, c *call, req wire.Bulk) (any, error) {
	if err := checkBulk(&req); err != nil {
		return nil, err
	}
	if err := a.await(ctx, req.Select.MinPosition); err != nil {
		return nil, err
	}
	if err := a.knownType(req.Select.Type); err != nil {
		return nil, err
	}
	page, err := a.Queries.Select(req.Select, bulkStates[req.Action]...)
	if err != nil {
		return nil, err
	}
	reply := wire.BulkReply{Matched: len(page.Items), NextCursor: page.NextCursor}
	if len(page.Items) > 0 {
		reply.Types = map[string]int{}
	}
	for i, it := range page.Items {
		if reply.Types[it.Type]++; i < maxBulkSample {
			reply.Sample = append(reply.Sample, it.ID)
		}
	}
	if req.DryRun || len(page.Items) == 0 {
		return reply, nil
	}
	return a.bulkPage(ctx, &req, page.Items, reply)
}

// knownType refuses a selection by a type that does not exist, which is a typo.
func (a *deadAPI) knownType(name string) error {
	if name == "" {
		return nil
	}
	t, err := events.ParseType(name)
	if err != nil {
		return events.Refuse(events.CodeBadType, "%v", err)
	}
	types, err := a.Queries.Types()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(types, func(info events.TypeInfo) bool { return info.Type == t }) {
		return core.UnknownType(t)
	}
	return nil
}

func (a *deadAPI) bulkPage(ctx context.Context, req *wire.Bulk, items []wire.Item, reply wire.BulkReply) (any, error) {
	failed := func(id string, err error) {
		if reply.Failed++; len(reply.Errors) < maxBulkErrors {
			reply.Errors = append(reply.Errors, wire.BulkError{ID: id, Error: wire.FromError(err)})
		}
	}
	cmds, ids := make([]core.Command, 0, len(items)), make([]string, 0, len(items))
	for _, it := range items {
		cmd, err := command.OfBulk(req, it.ID, a.Core.Now())
		if err != nil {
			return nil, err
		}
		if replay, is := cmd.(core.Replay); is && len(req.Patch) > 0 {
			if replay.Params, err = a.patched(replay.ID, req.Patch); err != nil {
				failed(it.ID, err)
				continue
			}
			cmd = replay
		}
		cmds, ids = append(cmds, cmd), append(ids, it.ID)
	}
	if len(cmds) == 0 {
		return reply, nil
	}
	outcomes, err := a.decideAll(ctx, cmds)
	if err != nil {
		return nil, err
	}
	last := events.Seq(0)
	for i, o := range outcomes {
		last = max(last, o.Position)
		switch {
		case o.Err != nil:
			failed(ids[i], o.Err)
		case !o.Decision.Repeat:
			reply.Changed++
		}
	}
	reply.Position = wire.PositionOf(last)
	return reply, nil
}

// checkBulk checks what does not depend on an item, and fills in what is left
// out.
func checkBulk(b *wire.Bulk) error {
	states, known := bulkStates[b.Action]
	if !known {
		return b.UnknownAction()
	}
	if b.Select.Limit == 0 {
		b.Select.Limit = MaxBulk
	}
	if b.Select.Limit < 0 || b.Select.Limit > MaxBulk {
		return events.Refuse(events.CodeBadRequest, "limit is %d: one request changes 1 to %d items; follow next_cursor for more", b.Select.Limit, MaxBulk)
	}
	if len(b.Patch) > 0 {
		if b.Action != wire.BulkReplay {
			return events.Refuse(events.CodeBadRequest, "a patch is for replay, not for %s", events.Clip(b.Action, 64))
		}
		b.Select.Limit = min(b.Select.Limit, MaxPatched)
	}
	if !b.All && !b.Select.Narrow() {
		return events.Refuse(events.CodeBadRequest, "the selection names nothing but a state: narrow it (type, cause, code, tenant, label, a time), or say all")
	}
	if b.Select.State == "" && (b.Action == wire.BulkReplay || b.Action == wire.BulkPurge) {
		b.Select.State = events.StateDead.String()
	}
	if b.Select.State != "" {
		st, err := events.ParseItemState(b.Select.State)
		if err != nil {
			return events.Refuse(events.CodeBadRequest, "%v", err)
		}
		if !slices.Contains(states, st) {
			return events.Refuse(events.CodeBadRequest, "what is %s can't be %s: %s", st, pastTense[b.Action], listStates(states))
		}
	}
	_, err := command.OfBulk(b, anyID, time.Time{})
	return err
}

// anyID stands for an item where only the rest of a command is checked.
const anyID = "00000000000000000000000001"

var pastTense = map[string]string{wire.BulkReplay: "replayed", wire.BulkPurge: "purged", wire.BulkCancel: "cancelled", wire.BulkReschedule: "rescheduled"}

func listStates(states []events.ItemState) string {
	text := "only what is "
	for i, s := range states {
		switch {
		case i > 0 && i == len(states)-1:
			text += " or "
		case i > 0:
			text += ", "
		}
		text += s.String()
	}
	return text
}
