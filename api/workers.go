package api

import (
	"context"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

func (s *Service) register(ctx context.Context, c *call) (any, error) {
	req, err := decode[wire.Register](c.data)
	if err != nil {
		return nil, err
	}
	reply, err := s.Core.Register(ctx, req)
	reply.JetStreamDomain = c.domain()
	return reply, err
}

func (s *Service) heartbeat(ctx context.Context, c *call) (any, error) {
	req, err := decode[wire.Heartbeat](c.data)
	if err != nil {
		return nil, err
	}
	return s.Core.Heartbeat(ctx, req)
}

func (s *Service) probed(_ context.Context, c *call) (any, error) {
	req, err := decode[wire.Probed](c.data)
	if err != nil {
		return nil, err
	}
	s.Core.Probed(req)
	return wire.OK{OK: true}, nil
}

func (s *Service) unregister(ctx context.Context, c *call) (any, error) {
	req, err := decode[wire.Unregister](c.data)
	if err != nil {
		return nil, err
	}
	return wire.OK{OK: true}, s.Core.Unregister(ctx, req)
}

func (s *Service) drain(ctx context.Context, c *call) (any, error) {
	req, err := decode[wire.Drain](c.data)
	if err != nil {
		return nil, err
	}
	if _, err := events.ParseWorkerID(req.Worker); err != nil {
		return nil, events.Refuse(events.CodeBadRequest, "%v", err)
	}
	if _, err := s.Core.Drain(ctx, req); err != nil {
		return nil, err
	}
	return wire.OK{OK: true}, nil
}

func (s *Service) undrain(ctx context.Context, c *call) (any, error) {
	req, err := decode[wire.Undrain](c.data)
	if err != nil {
		return nil, err
	}
	o, err := s.Core.Undrain(ctx, req)
	if err != nil {
		return nil, err
	}
	return wire.Changed{Changed: !o.Decision.Repeat, Position: wire.PositionOf(o.Position)}, nil
}
