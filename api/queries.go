package api

import (
	"context"

	"github.com/streamwright/streamwright/eventlog/pages"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

func noItem(id events.ID) error {
	return events.Refuse(events.CodeNotFound, "no item has the id %s", id)
}

func parseID(text string) (events.ID, error) {
	id, err := events.ParseID(text)
	if err != nil {
		return id, events.Refuse(events.CodeBadID, "%v", err)
	}
	return id, nil
}

// itemAPI shows items.
type itemAPI struct {
	*engine
	undecided chan struct{} // a token for each request for an intake message that is not decided yet
	commits   commits
	pages     *pages.Reader
}

func (a *itemAPI) handle(h *handlers) {
	projected(h, wire.APIGet, a.get)
	projected(h, wire.APIList, func(ctx context.Context, _ *call, r wire.List) (any, error) {
		page, err := a.Queries.List(r)
		return a.listed(ctx, page, err)
	})
	projected(h, wire.APIHistory, a.history)
	on(h, wire.APILogs, a.logs)
	on(h, wire.APIOutput, a.output)
	// In a room of its own: heartbeats don't wait behind output.
	raw[wire.OutputWrite](h, wire.APIOutputWrite, limited(h.s, h.s.outputs, outputWithin, a.writeOutput))
	projected(h, wire.APITree, a.tree)
	projected(h, wire.APIWhy, a.why)
	projected(h, wire.APIHeld, a.held)
}

func (a *itemAPI) get(ctx context.Context, c *call, req wire.Get) (any, error) {
	if (req.ID == "") == (req.IntakeSeq == 0) {
		return nil, events.Refuse(events.CodeBadRequest, "give either id or intake_seq")
	}
	id, err := a.idOf(ctx, req)
	if err != nil {
		return nil, err
	}
	if req.AtPosition != "" || !req.AtTime.IsZero() {
		return a.past(ctx, id, req)
	}
	return lookup(ctx, a.engine, id, func() (wire.Item, bool, error) { return a.Queries.Full(id) })
}

// Document returns an item's params or result, byte for byte as they were submitted or
// reported, where the reply to a get has them compacted. An item that has none is
// CodeNotFound.
func (s *Service) Document(ctx context.Context, id string, result bool) ([]byte, error) {
	known, err := parseID(id)
	if err != nil {
		return nil, err
	}
	if err := s.engine.await(ctx, ""); err != nil {
		return nil, err
	}
	it, err := lookup(ctx, s.engine, known, func() (wire.Item, bool, error) { return s.Queries.Full(known) })
	doc, name := it.Params, "params"
	if result {
		doc, name = it.Result, "result"
	}
	if err == nil && len(doc) == 0 {
		err = events.Refuse(events.CodeNotFound, "item %s has no %s: it is %s", id, name, it.State)
	}
	if events.CodeOf(err) == events.CodeNotFound {
		err = s.absent(ctx, err)
	}
	return doc, err
}

// lookup finds something of an item. What is not there is looked for once more
// when all that is durable by now is projected: another client may have just
// submitted the item. An item that is not there then is refused.
func lookup[T any](ctx context.Context, e *engine, id events.ID, find func() (T, bool, error)) (T, error) {
	v, found, err := find()
	if err == nil && !found {
		if err = e.await(ctx, wire.PositionOf(e.Core.Position())); err == nil {
			v, found, err = find()
		}
	}
	if err == nil && !found {
		err = noItem(id)
	}
	return v, err
}

// item looks up an item without its documents.
func (e *engine) item(ctx context.Context, id events.ID) (*events.Item, error) {
	return lookup(ctx, e, id, func() (*events.Item, bool, error) {
		it, err := e.Queries.Item(id)
		return it, it != nil, err
	})
}

func (a *itemAPI) history(ctx context.Context, c *call, req wire.History) (any, error) {
	id, err := parseID(req.ID)
	if err != nil {
		return nil, err
	}
	list, err := lookup(ctx, a.engine, id, func() ([]wire.HistoryEvent, bool, error) {
		list, err := a.Queries.History(id)
		return list, len(list) > 0, err
	})
	if err != nil {
		return nil, err
	}
	totals := wire.Measure(list)
	return wire.HistoryReply{Events: list, Totals: totals}, nil
}

func (a *itemAPI) logs(ctx context.Context, c *call, req wire.Logs) (any, error) {
	id, err := parseID(req.ID)
	if err != nil {
		return nil, err
	}
	if req.Limit < 0 || req.Limit > MaxLogRecords {
		return nil, events.Refuse(events.CodeBadRequest, "limit is %d: it must be 1 to %d, or left out for %d", req.Limit, MaxLogRecords, defaultLogRecords)
	}
	it, err := a.item(ctx, id)
	if err != nil {
		return nil, err
	}
	if req.After != nil {
		return a.Logs.After(ctx, it.Type, id, *req.After, req.Limit)
	}
	records, err := a.Logs.Last(ctx, it.Type, id, req.Limit)
	if err != nil {
		return nil, err
	}
	return wire.LogsReply{Records: records}, nil
}

func (s *Service) info(ctx context.Context, c *call, _ wire.StatsRequest) (any, error) {
	s.mu.Lock()
	reply := s.Info
	s.mu.Unlock()
	reply.Role, reply.Epoch = wire.RoleOwner, uint64(s.Core.Epoch())
	if st := s.standsBy(); st != nil {
		reply.Role, reply.Owner = s.standbyRole(), st.owner
	}
	reply.Position = wire.PositionOf(s.Core.Position())
	reply.Projected = wire.PositionOf(s.Queries.Applied())
	reply.Now = s.Core.Now()
	meta, err := s.Queries.Meta()
	if err != nil {
		return nil, err
	}
	reply.FormatLevel, reply.ReadsLevel = max(1, meta.Level), events.FormatLevel
	reply.JetStreamDomain = c.domain()
	reply.Retention = s.retention(ctx)
	reply.Refused, reply.Held = s.Full().texts()
	if c := s.clockStatus(); c != nil && c.Verdict != wire.ClockPlausible {
		reply.Clock = c
	}
	return reply, nil
}

// held says which item holds a dedup key. It tells what the bucket of taken keys
// tells, and without its delay.
func (a *itemAPI) held(ctx context.Context, c *call, req wire.HolderRequest) (any, error) {
	t, err := events.ParseType(req.Type)
	if err != nil {
		return nil, events.Refuse(events.CodeBadType, "%v", err)
	}
	if req.Key == "" || len(req.Key) > events.MaxKeyLen {
		return nil, events.Refuse(events.CodeBadRequest, "key has %d bytes: give the dedup key, of 1 to %d", len(req.Key), events.MaxKeyLen)
	}
	find := func() (*events.Item, error) { return a.Queries.DedupHolder(t, req.Key) }
	it, err := find()
	if it == nil && err == nil { // another client may have just submitted it
		if err = a.await(ctx, wire.PositionOf(a.Core.Position())); err == nil {
			it, err = find()
		}
	}
	if err != nil {
		return nil, err
	}
	if it == nil {
		return nil, events.Refuse(events.CodeNotFound, "no live item of type %s holds the dedup key", t)
	}
	return wire.Holder{ID: it.ID.String(), State: it.State}, nil
}

// why says why an item is not running.
func (a *itemAPI) why(ctx context.Context, c *call, req wire.Why) (any, error) {
	id, err := parseID(req.ID)
	if err != nil {
		return nil, err
	}
	return a.Core.Why(ctx, id)
}
