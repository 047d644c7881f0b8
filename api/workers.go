package api

import (
	"context"
	"slices"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// workerAPI answers workers, and shows them.
type workerAPI struct{ *engine }

func (a *workerAPI) handle(h *handlers) {
	on(h, wire.APIRegister, a.register)
	on(h, wire.APIHeartbeat, a.heartbeat)
	on(h, wire.APIProbed, a.probed)
	on(h, wire.APIOffer, a.offer)
	on(h, wire.APIUnregister, a.unregister)
	on(h, wire.APIWorkers, a.list)
	on(h, wire.APIDrain, a.drain)
	on(h, wire.APIUndrain, a.undrain)
	on(h, wire.APICircuitReset, a.resetCircuit)
}

func (a *workerAPI) register(ctx context.Context, c *call, req wire.Register) (any, error) {
	return a.Core.Register(ctx, req)
}

func (a *workerAPI) heartbeat(ctx context.Context, c *call, req wire.Heartbeat) (any, error) {
	return a.Core.Heartbeat(ctx, req)
}

func (a *workerAPI) probed(_ context.Context, c *call, req wire.Probed) (any, error) {
	a.Core.Probed(req)
	return wire.OK{OK: true}, nil
}

func (a *workerAPI) offer(ctx context.Context, c *call, req wire.Offer) (any, error) {
	return wire.OK{OK: true}, a.Core.Offer(ctx, req)
}

func (a *workerAPI) unregister(ctx context.Context, c *call, req wire.Unregister) (any, error) {
	return wire.OK{OK: true}, a.Core.Unregister(ctx, req)
}

func (a *workerAPI) drain(ctx context.Context, c *call, req wire.Drain) (any, error) {
	if _, err := events.ParseWorkerID(req.Worker); err != nil {
		return nil, events.Refuse(events.CodeBadRequest, "%v", err)
	}
	req.By = c.author(req.By)
	if _, err := a.Core.Drain(ctx, req, c.actor); err != nil {
		return nil, err
	}
	return wire.OK{OK: true}, nil
}

func (a *workerAPI) undrain(ctx context.Context, c *call, req wire.Undrain) (any, error) {
	req.By = c.author(req.By)
	o, err := a.Core.Undrain(ctx, req, c.actor)
	if err != nil {
		return nil, err
	}
	return wire.Changed{Changed: !o.Decision.Repeat, Position: wire.PositionOf(o.Position)}, nil
}

// now returns the workers with what each has claimed or runs by the log, as the
// states of the items count it: what heartbeats say is as old as they are. While
// the engine owns no log that is all that is known.
func (a *workerAPI) now(ctx context.Context) []wire.WorkerInfo {
	list := a.Core.Workers()
	if len(list) == 0 {
		return list
	}
	ctx, cancel := context.WithTimeout(ctx, loadsTimeout)
	defer cancel()
	if runs, err := a.Core.Runs(ctx); err == nil {
		for i := range list {
			list[i].InFlight = runs[events.WorkerID(list[i].Worker)]
		}
	}
	return list
}

func (a *workerAPI) list(ctx context.Context, c *call, _ wire.StatsRequest) (any, error) {
	list := a.now(ctx)
	if list == nil {
		list = []wire.WorkerInfo{}
	}
	circuits, err := a.circuits()
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].Circuit = circuits[list[i].Worker]
	}
	return wire.WorkersReply{Workers: list, Drains: a.Core.Drains()}, nil
}

func (a *workerAPI) resetCircuit(ctx context.Context, c *call, req wire.CircuitReset) (any, error) {
	reply, err := a.change(ctx, core.ResetCircuit{Type: events.Type(req.Type), Worker: events.WorkerID(req.Worker)})
	if changed, is := reply.(wire.Changed); err == nil && is && !changed.Changed && req.Worker != "" && !a.knowsWorker(req.Worker) {
		return nil, events.Refuse(events.CodeNotFound, "no worker %s: see `engine workers`", events.Clip(req.Worker, 64))
	}
	return reply, err
}

// knowsWorker reports whether a worker is registered.
func (a *workerAPI) knowsWorker(id string) bool {
	return slices.ContainsFunc(a.Core.Workers(), func(w wire.WorkerInfo) bool { return w.Worker == id })
}

// circuits returns the circuits of workers that are not closed, by worker.
func (a *workerAPI) circuits() (map[string]*wire.Circuit, error) {
	out := map[string]*wire.Circuit{}
	return out, eachRecord(a.Queries, events.RecordWorker, func(worker string, c events.Circuit) {
		if w := wire.FromCircuit(worker, c); w != nil {
			out[worker] = w
		}
	})
}
