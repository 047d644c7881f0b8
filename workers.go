package streamwright

import (
	"context"

	"github.com/streamwright/streamwright/wire"
)

// What the engine answers about workers.
type (
	// WorkerInfo is a registered worker.
	WorkerInfo = wire.WorkerInfo
	// DrainMark records that a worker is to drain.
	DrainMark = wire.DrainMark
)

// Workers manages the registered workers. [Client.Workers] returns one;
// [NewWorker] makes a worker.
type Workers struct{ c *Client }

// Workers returns the handle for registered workers:
//
//	err := client.Workers().Drain(ctx, "mailer-7")
func (c *Client) Workers() Workers { return Workers{c} }

// List returns the registered workers.
func (w Workers) List(ctx context.Context) ([]WorkerInfo, error) {
	r, err := ask[wire.WorkersReply](ctx, w.c, wire.APIWorkers, struct{}{})
	return r.Workers, err
}

// Drain asks a worker to finish what it runs and take no more. The drain is
// recorded, and outlives a restart of the engine and of the worker. It ends when
// the worker unregisters, with [Workers.Undrain], or after 24 hours without a
// sign of life from the worker.
func (w Workers) Drain(ctx context.Context, worker string) error {
	_, err := ask[wire.OK](ctx, w.c, wire.APIDrain, wire.Drain{Worker: worker})
	return err
}

// Undrain ends the drain of a worker, and reports whether there was one. A worker
// that has learned of the drain may have stopped for good.
func (w Workers) Undrain(ctx context.Context, worker string) (changed bool, err error) {
	return w.c.change(ctx, wire.APIUndrain, wire.Undrain{Worker: worker})
}

// Drains lists the workers that are marked to drain, by id, registered or not.
func (w Workers) Drains(ctx context.Context) ([]DrainMark, error) {
	r, err := ask[wire.WorkersReply](ctx, w.c, wire.APIWorkers, struct{}{})
	return r.Drains, err
}

// ResetCircuit closes the circuit of a worker at once, and reports whether it was
// open or half open.
func (w Workers) ResetCircuit(ctx context.Context, worker string) (changed bool, err error) {
	return w.c.change(ctx, wire.APICircuitReset, wire.CircuitReset{Worker: worker})
}
