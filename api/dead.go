package api

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

func (s *Service) dead(ctx context.Context, c *call) (any, error) {
	req, err := decode[wire.Selection](c.data)
	if err != nil {
		return nil, err
	}
	if err := s.await(ctx, req.MinPosition); err != nil {
		return nil, err
	}
	page, err := s.Queries.Dead(req)
	return page, err
}

func (s *Service) causes(ctx context.Context, c *call) (any, error) {
	req, err := decode[wire.CausesQuery](c.data)
	if err != nil {
		return nil, err
	}
	if err := s.await(ctx, req.MinPosition); err != nil {
		return nil, err
	}
	reply, err := s.Queries.Causes(req)
	return reply, err
}

// replay decides the replay of one item.
func (s *Service) replay(c *call) {
	req, err := decode[wire.Replay](c.data)
	if err != nil {
		c.reply(nil, err)
		return
	}
	cmd, err := req.Command()
	c.change(cmd, err)
}

// purge decides the end of one item.
func (s *Service) purge(c *call) {
	req, err := decode[wire.Purge](c.data)
	if err != nil {
		c.reply(nil, err)
		return
	}
	cmd, err := req.Command()
	c.change(cmd, err)
}

// change decides a command about one item, unless reading it failed.
func (c *call) change(cmd events.Command, err error) {
	if err != nil {
		c.reply(nil, err)
		return
	}
	c.do([]events.Command{cmd}, func(o []dispatcher.Outcome) {
		a := wire.ReplayReply{ID: o[0].Decision.ID.String(), Position: wire.PositionOf(o[0].Position)}
		if o[0].Item != nil {
			a.State = o[0].Item.State
		}
		c.reply(a, o[0].Err)
	})
}

// decideAll has commands decided, and waits for what becomes of them.
func (s *Service) decideAll(ctx context.Context, cmds []events.Command) ([]dispatcher.Outcome, error) {
	answer := make(chan []dispatcher.Outcome, 1)
	enqueue, cancel := context.WithTimeout(ctx, enqueueTimeout)
	defer cancel()
	if err := s.Core.Do(enqueue, cmds, func(o []dispatcher.Outcome) { answer <- o }); err != nil {
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
	// MaxBulk is how many items one bulk request changes.
	MaxBulk = 1000
	// MaxBulks is how many of them are under way at once.
	MaxBulks = 2
	// maxBulkErrors is how many of the failures a reply names.
	maxBulkErrors = 10
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
func (s *Service) bulk(ctx context.Context, c *call) (any, error) {
	req, err := decode[wire.Bulk](c.data)
	if err != nil {
		return nil, err
	}
	if err := checkBulk(&req); err != nil {
		return nil, err
	}
	if err := s.await(ctx, req.Select.MinPosition); err != nil {
		return nil, err
	}
	page, err := s.Queries.Select(req.Select, bulkStates[req.Action]...)
	if err != nil {
		return nil, err
	}
	reply := wire.BulkReply{Matched: len(page.Items), NextCursor: page.NextCursor}
	if req.DryRun || len(page.Items) == 0 {
		return reply, nil
	}
	return s.bulkPage(ctx, &req, page.Items, reply)
}

func (s *Service) bulkPage(ctx context.Context, req *wire.Bulk, items []wire.Item, reply wire.BulkReply) (any, error) {
	cmds := make([]events.Command, len(items))
	for i := range items {
		var err error
		if cmds[i], err = req.Command(items[i].ID, s.Core.Now()); err != nil {
			return nil, err
		}
	}
	outcomes, err := s.decideAll(ctx, cmds)
	if err != nil {
		return nil, err
	}
	last := events.Seq(0)
	for i, o := range outcomes {
		last = max(last, o.Position)
		switch {
		case o.Err != nil:
			if reply.Failed++; len(reply.Errors) < maxBulkErrors {
				reply.Errors = append(reply.Errors, wire.BulkError{ID: items[i].ID, Error: wire.FromError(o.Err)})
			}
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
		return events.Refuse(events.CodeBadRequest, "%q is no action: use replay, purge, cancel or reschedule", clip(b.Action, 64))
	}
	if b.Select.Limit == 0 {
		b.Select.Limit = MaxBulk
	}
	if b.Select.Limit < 0 || b.Select.Limit > MaxBulk {
		return events.Refuse(events.CodeBadRequest, "limit is %d: one request changes 1 to %d items; follow next_cursor for more", b.Select.Limit, MaxBulk)
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
		if !contains(states, st) {
			return events.Refuse(events.CodeBadRequest, "what is %s can't be %s: %s", st, pastTense[b.Action], listStates(states))
		}
	}
	_, err := b.Command(anyID, time.Time{})
	return err
}

// anyID stands for an item where only the rest of a command is checked.
const anyID = "00000000000000000000000001"

var pastTense = map[string]string{wire.BulkReplay: "replayed", wire.BulkPurge: "purged", wire.BulkCancel: "cancelled", wire.BulkReschedule: "rescheduled"}

func contains(states []events.ItemState, st events.ItemState) bool {
	for _, s := range states {
		if s == st {
			return true
		}
	}
	return false
}

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
