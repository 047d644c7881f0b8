package api

import (
	"context"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// held says which item holds a dedup key. It tells what the bucket of taken keys
// tells, and without its delay.
func (a *itemAPI) held(ctx context.Context, c *call, req wire.Held) (any, error) {
	t, err := events.ParseType(req.Type)
	if err != nil {
		return nil, events.Refuse(events.CodeBadType, "%v", err)
	}
	if req.Key == "" || len(req.Key) > events.MaxKeyLen {
		return nil, events.Refuse(events.CodeBadRequest, "key has %d bytes: give the dedup key, of 1 to %d", len(req.Key), events.MaxKeyLen)
	}
	if err := a.await(ctx, req.MinPosition); err != nil {
		return nil, err
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
		return nil, events.Refuse(events.CodeNotFound, "no live item of type %s holds the dedup key %q", t, req.Key)
	}
	return wire.Holder{ID: it.ID.String(), State: it.State}, nil
}
