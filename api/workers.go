package api

import (
	"context"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// workerAPI answers workers, and shows them.
type workerAPI struct{ *engine }

func (a *workerAPI) handle(h *handlers) {
	on(h, wire.APIRegister, a.register)
	on(h, wire.APIHeartbeat, a.heartbeat)
	on(h, wire.APIProbed, a.probed)
	on(h, wire.APIUnregister, a.unregister)
	on(h, wire.APIWorkers, a.list)
	on(h, wire.APIDrain, a.drain)
	on(h, wire.APIUndrain, a.undrain)
	on(h, wire.APICircuitReset, a.resetCircuit)
}

func (a *workerAPI) register(ctx context.Context, c *call, req wire.Register) (any, error) {
	reply, err := a.Core.Register(ctx, req)
	reply.JetStreamDomain = c.domain()
	return reply, err
}

func (a *workerAPI) heartbeat(ctx context.Context, c *call, req wire.Heartbeat) (any, error) {
	return a.Core.Heartbeat(ctx, req)
}

func (a *workerAPI) probed(_ context.Context, c *call, req wire.Probed) (any, error) {
	a.Core.Probed(req)
	return wire.OK{OK: true}, nil
}

func (a *workerAPI) unregister(ctx context.Context, c *call, req wire.Unregister) (any, error) {
	return wire.OK{OK: true}, a.Core.Unregister(ctx, req)
}

func (a *workerAPI) drain(ctx context.Context, c *call, req wire.Drain) (any, error) {
	if _, err := events.ParseWorkerID(req.Worker); err != nil {
		return nil, events.Refuse(events.CodeBadRequest, "%v", err)
	}
	if _, err := a.Core.Drain(ctx, req); err != nil {
		return nil, err
	}
	return wire.OK{OK: true}, nil
}

func (a *workerAPI) undrain(ctx context.Context, c *call, req wire.Undrain) (any, error) {
	o, err := a.Core.Undrain(ctx, req)
	if err != nil {
		return nil, err
	}
	return wire.Changed{Changed: !o.Decision.Repeat, Position: wire.PositionOf(o.Position)}, nil
}
