package streamwright

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/wire"
)

// PauseOptions say why a type is paused, and who has done it.
type PauseOptions struct {
	Reason string // at most 256 bytes
	By     string // at most 256 bytes
	// Until is when the pause ends by itself, For how long it lasts from now on;
	// at most one of them. Neither: until [Client.Resume].
	Until time.Time
	For   time.Duration // at most ten years
}

// Pause holds the items of a type back until [Client.Resume]: none is begun,
// those that run go on, and submissions are accepted. It outlives the engine's
// restart. Of a type that is paused it changes when that ends, if the options say
// otherwise. It reports whether it has changed anything.
func (c *Client) Pause(ctx context.Context, typ string, o PauseOptions) (changed bool, err error) {
	return c.changed(ctx, wire.APIPause, wire.Pause{Type: typ, Reason: o.Reason, By: o.By, Until: o.Until, ForMS: wire.Millis(o.For)})
}

// Resume ends a pause, and reports whether there was one. A type that nobody has
// used is CodeNotFound.
func (c *Client) Resume(ctx context.Context, typ string) (changed bool, err error) {
	return c.changed(ctx, wire.APIResume, wire.Resume{Type: typ})
}

// RemoveType forgets a type that nothing uses, with its settings and its pause. It
// is CodeWrongState while the type has items (those that have ended and are still
// kept, too), a schedule or a worker, CodeSetInFile while engine.toml has a table
// for it, and CodeNotFound if there is no such type. Its next submission makes it
// known again.
func (c *Client) RemoveType(ctx context.Context, typ string) error {
	_, err := c.changed(ctx, wire.APITypeRemove, wire.TypeRemove{Type: typ})
	return err
}

// ResetCircuit closes the circuit of a type at once, and reports whether it was
// not closed.
func (c *Client) ResetCircuit(ctx context.Context, typ string) (changed bool, err error) {
	return c.changed(ctx, wire.APICircuitReset, wire.CircuitReset{Type: typ})
}

// ResetWorkerCircuit is ResetCircuit for that of a worker.
func (c *Client) ResetWorkerCircuit(ctx context.Context, worker string) (changed bool, err error) {
	return c.changed(ctx, wire.APICircuitReset, wire.CircuitReset{Worker: worker})
}

func (c *Client) changed(ctx context.Context, endpoint string, req any) (bool, error) {
	r, err := ask[wire.Changed](ctx, c, endpoint, req)
	c.Saw(r.Position)
	return r.Changed, err
}
