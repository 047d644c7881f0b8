package api

import (
	"context"

	"github.com/streamwright/streamwright/wire"
)

// why says why an item is not running.
func (s *Service) why(ctx context.Context, c *call) (any, error) {
	req, err := decode[wire.Why](c.data)
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
	return s.Core.Why(ctx, id)
}
