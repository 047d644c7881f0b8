package api

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// change decides a command, and returns once queries see the change.
func (e *engine) change(ctx context.Context, cmd core.Command) (any, error) {
	o, err := e.one(ctx, cmd)
	if err != nil {
		return nil, err
	}
	pos := wire.PositionOf(o.Position)
	return wire.Changed{Changed: !o.Decision.Repeat, Position: pos}, e.await(ctx, pos)
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
