package api

import (
	"context"

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

func (s *Service) get(ctx context.Context, c *call) (any, error) {
	req, err := decode[wire.Get](c.data)
	if err != nil {
		return nil, err
	}
	if (req.ID == "") == (req.IntakeSeq == 0) {
		return nil, events.Refuse(events.CodeBadRequest, "give either id or intake_seq")
	}
	if err := s.await(ctx, req.MinPosition); err != nil {
		return nil, err
	}
	id, err := s.idOf(ctx, req)
	if err != nil {
		return nil, err
	}
	if req.AtPosition != "" || !req.AtTime.IsZero() {
		return s.past(ctx, id, req)
	}
	return lookup(ctx, s, id, func() (wire.Item, bool, error) { return s.Queries.Full(id) })
}

// Documents returns an item's state, params and result, nil for none, byte for
// byte as they were submitted and reported, where the reply to a get has them
// compacted.
func (s *Service) Documents(ctx context.Context, id string) (state events.ItemState, params, result []byte, err error) {
	known, err := parseID(id)
	if err != nil {
		return 0, nil, nil, err
	}
	if err := s.await(ctx, ""); err != nil {
		return 0, nil, nil, err
	}
	it, err := lookup(ctx, s, known, func() (wire.Item, bool, error) { return s.Queries.Full(known) })
	return it.State, it.Params, it.Result, err
}

// lookup finds something of an item. What is not there is looked for once more
// when all that is durable by now is projected: another client may have just
// submitted the item. An item that is not there then is refused.
func lookup[T any](ctx context.Context, s *Service, id events.ID, find func() (T, bool, error)) (T, error) {
	v, found, err := find()
	if err == nil && !found {
		if err = s.await(ctx, wire.PositionOf(s.Core.Position())); err == nil {
			v, found, err = find()
		}
	}
	if err == nil && !found {
		err = noItem(id)
	}
	return v, err
}

// item is the lookup of an item alone.
func (s *Service) item(ctx context.Context, id events.ID) (*events.Item, error) {
	return lookup(ctx, s, id, func() (*events.Item, bool, error) {
		it, err := s.Queries.Item(id)
		return it, it != nil, err
	})
}

func (s *Service) full(id events.ID) (any, error) {
	it, found, err := s.Queries.Full(id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, noItem(id)
	}
	return it, nil
}

func (s *Service) list(ctx context.Context, c *call) (any, error) {
	req, err := decode[wire.List](c.data)
	if err != nil {
		return nil, err
	}
	if err := s.await(ctx, req.MinPosition); err != nil {
		return nil, err
	}
	page, err := s.Queries.List(req)
	if page.Items == nil {
		page.Items = []wire.Item{}
	}
	return page, err
}

func (s *Service) history(ctx context.Context, c *call) (any, error) {
	req, err := decode[wire.History](c.data)
	if err != nil {
		return nil, err
	}
	id, err := parseID(req.ID)
	if err != nil {
		return nil, err
	}
	if err := s.await(ctx, req.MinPosition); err != nil {
		return nil, err
	}
	list, err := lookup(ctx, s, id, func() ([]wire.HistoryEvent, bool, error) {
		list, err := s.Queries.History(id)
		return list, len(list) > 0, err
	})
	if err != nil {
		return nil, err
	}
	totals := wire.Measure(list)
	return wire.HistoryReply{Events: list, Totals: totals}, nil
}

func (s *Service) logs(ctx context.Context, c *call) (any, error) {
	req, err := decode[wire.Logs](c.data)
	if err != nil {
		return nil, err
	}
	id, err := parseID(req.ID)
	if err != nil {
		return nil, err
	}
	if req.Limit < 0 || req.Limit > MaxLogRecords {
		return nil, events.Refuse(events.CodeBadRequest, "limit is %d: it must be 1 to %d, or left out for %d", req.Limit, MaxLogRecords, defaultLogRecords)
	}
	it, err := s.item(ctx, id)
	if err != nil {
		return nil, err
	}
	if req.After != nil {
		return s.Logs.After(ctx, it.Type, id, *req.After, req.Limit)
	}
	records, err := s.Logs.Last(ctx, it.Type, id, req.Limit)
	if err != nil {
		return nil, err
	}
	return wire.LogsReply{Records: records}, nil
}

func (s *Service) see(ctx context.Context, c *call) error {
	req, err := decode[wire.See](c.data)
	if err != nil {
		return err
	}
	return s.await(ctx, req.MinPosition)
}

func (s *Service) types(ctx context.Context, c *call) (any, error) {
	if err := s.see(ctx, c); err != nil {
		return nil, err
	}
	types, err := s.Queries.Types()
	if err != nil {
		return nil, err
	}
	defaults := s.typeDefaults()
	reply := wire.TypesReply{Types: make([]wire.TypeReply, len(types)), Defaults: &defaults}
	for i, t := range types {
		reply.Types[i] = s.typeReply(t)
	}
	unset := events.UnsetTypeSettings()
	reply.Unset = &unset
	return reply, nil
}

// typeReply is a type as queries show it.
func (s *Service) typeReply(t events.TypeInfo) wire.TypeReply {
	out := wire.FromType(t)
	if s.NamedByFile != nil {
		out.SetInFile = s.NamedByFile(t.Type)
	}
	return out
}

// workersNow are the workers with what each has claimed or runs by the log, as the
// states of the items count it: what heartbeats say is as old as they are. While
// the engine owns no log that is all that is known.
func (s *Service) workersNow(ctx context.Context) []wire.WorkerInfo {
	list := s.Core.Workers()
	if len(list) == 0 {
		return list
	}
	ctx, cancel := context.WithTimeout(ctx, loadsTimeout)
	defer cancel()
	if runs, err := s.Core.Runs(ctx); err == nil {
		for i := range list {
			list[i].InFlight = runs[events.WorkerID(list[i].Worker)]
		}
	}
	return list
}

func (s *Service) workers(ctx context.Context, c *call) (any, error) {
	if _, err := decode[wire.See](c.data); err != nil {
		return nil, err
	}
	list := s.workersNow(ctx)
	if list == nil {
		list = []wire.WorkerInfo{}
	}
	circuits, err := s.workerCircuits()
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].Circuit = circuits[list[i].Worker]
	}
	return wire.WorkersReply{Workers: list, Drains: s.Core.Drains()}, nil
}

func (s *Service) info(ctx context.Context, c *call) (any, error) {
	if _, err := decode[wire.See](c.data); err != nil {
		return nil, err
	}
	s.mu.Lock()
	reply := s.Info
	s.mu.Unlock()
	reply.Epoch = uint64(s.Core.Epoch())
	reply.Position = wire.PositionOf(s.Core.Position())
	reply.Projected = wire.PositionOf(s.Queries.Applied())
	reply.Now = s.Core.Now()
	reply.JetStreamDomain = c.domain()
	reply.Retention = s.retention(ctx)
	reply.Refused, reply.Held = s.Full().texts()
	if c := s.clockStatus(); c != nil && c.Verdict != wire.ClockPlausible {
		reply.Clock = c
	}
	return reply, nil
}
