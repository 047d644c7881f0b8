package api

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// pause, resume and resetCircuit answer once queries see the change.

func (a *typeAPI) pause(ctx context.Context, c *call, req wire.Pause) (any, error) {
	lasts := time.Duration(min(max(req.ForMS, -1), events.MaxDelay.Milliseconds()+1)) * time.Millisecond
	return a.change(ctx, core.PauseType{Type: events.Type(req.Type), Reason: req.Reason, By: req.By, Until: req.Until, For: lasts})
}

func (a *typeAPI) resume(ctx context.Context, c *call, req wire.Resume) (any, error) {
	return a.change(ctx, core.ResumeType{Type: events.Type(req.Type), By: req.By})
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

func (e *engine) change(ctx context.Context, cmd core.Command) (any, error) {
	o, err := e.one(ctx, cmd)
	if err != nil {
		return nil, err
	}
	pos := wire.PositionOf(o.Position)
	return wire.Changed{Changed: !o.Decision.Repeat, Position: pos}, e.await(ctx, pos)
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

var (
	descPaused  = desc("paused", "1 if the type is paused.", "type")
	descCircuit = desc("circuit", "1 for the state that the type's circuit is in; none for a type without a circuit.", "type", "state")
	descBenched = desc("worker_circuits", "Workers whose circuit is not closed, by its state.", "state")
)

type gauge func(d *prometheus.Desc, v float64, labels ...string)

// protection shows the pauses and circuits of types.
func (c collector) protection(out gauge, t *events.TypeInfo) {
	out(descPaused, boolean(t.Paused != nil), string(t.Type))
	if !t.Settings.Circuit.On() && t.Circuit.State == events.CircuitShut {
		return
	}
	for _, state := range []events.CircuitState{events.CircuitShut, events.CircuitOpen, events.CircuitHalfOpen} {
		out(descCircuit, boolean(t.Circuit.State == state), string(t.Type), state.String())
	}
}

// benched shows how many workers are left out.
func (c collector) benched(out gauge) {
	circuits, err := c.s.workers.circuits()
	if err != nil {
		c.s.Logger.Warn("metrics lack the circuits of workers", "error", err)
		return
	}
	n := map[string]int{events.CircuitOpen.String(): 0, events.CircuitHalfOpen.String(): 0}
	for _, w := range circuits {
		n[w.State]++
	}
	for state, n := range n {
		out(descBenched, float64(n), state)
	}
}
