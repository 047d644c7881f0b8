package api

import (
	"context"

	"github.com/streamwright/streamwright/wire"
)

// why says why an item is not running.
func (a *itemAPI) why(ctx context.Context, c *call, req wire.Why) (any, error) {
	id, err := parseID(req.ID)
	if err != nil {
		return nil, err
	}
	if err := a.await(ctx, req.MinPosition); err != nil {
		return nil, err
	}
	return a.Core.Why(ctx, id)
}
