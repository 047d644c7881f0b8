package api

import (
	"context"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// held says which item holds a dedup key. It tells what the bucket of taken keys
// tells, and without its delay.
func (s *Service) held(ctx context.Context, c *call) (any, error) {
	req, err := decode[wire.Held](c.data)
	if err != nil {
		return nil, err
	}
	t, err := events.ParseType(req.Type)
	if err != nil {
		return nil, events.Refuse(events.CodeBadType, "%v", err)
	}
	if req.Key == "" || len(req.Key) > events.MaxKeyLen {
		return nil, events.Refuse(events.CodeBadRequest, "key has %d bytes: give the dedup key, of 1 to %d", len(req.Key), events.MaxKeyLen)
	}
	if err := s.await(ctx, req.MinPosition); err != nil {
		return nil, err
	}
	find := func() (*events.Item, error) { return s.Queries.DedupHolder(t, req.Key) }
	it, err := find()
	if it == nil && err == nil { // another client may have just submitted it
		if err = s.await(ctx, wire.PositionOf(s.Core.Position())); err == nil {
			it, err = find()
		}
	}
	if err != nil {
		return nil, err
	}
	if it == nil {
		return nil, events.Refuse(events.CodeNotFound, "no live item of type %s holds the dedup key %q", t, req.Key)
	}
	return wire.Holder{ID: it.ID.String(), State: it.State}, nil
}
