package streamwright

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// What the engine answers about types.
type (
	// TypeInfo is a type and its settings.
	TypeInfo = wire.TypeReply
	// Pause records since when and why a type is paused.
	Pause = events.Pause
	// Circuit is a circuit that is not closed.
	Circuit = wire.Circuit
)

// PauseOptions say why a type is paused, who pauses it, and for how long.
type PauseOptions struct {
	Reason string // at most 256 bytes
	By     string // at most 256 bytes
	// Until is the time at which the pause ends by itself, For its length from now
	// on; set at most one. With neither, it lasts until [Types.Resume].
	Until time.Time
	For   time.Duration // at most ten years
}

// Types manages the types of work. [Client.Types] returns one.
type Types struct{ c *Client }

// Types returns the handle for the types of work:
//
//	_, err := client.Types().Pause(ctx, "email", streamwright.PauseOptions{Reason: "provider is down"})
func (c *Client) Types() Types { return Types{c} }

// List returns the types and their settings. Where some may be missing, since the node that
// answers is cut off from the others, the error is CodeUnavailable beside the list.
func (t Types) List(ctx context.Context) ([]TypeInfo, error) {
	r, err := ask[wire.TypesReply](ctx, t.c, wire.APITypes, wire.StatsRequest{MinPosition: t.c.Position()})
	return r.Types, cmp.Or(err, listStale(r.Stale))
}

// Configure changes some of a type's settings and returns the type as changed:
//
//	info, err := client.Types().Configure(ctx, "email", streamwright.Settings{Capacity: new(20)})
func (t Types) Configure(ctx context.Context, typ string, s Settings) (TypeInfo, error) {
	patch, err := s.patch()
	if err != nil {
		return TypeInfo{}, events.Refuse(events.CodeBadRequest, "settings of %s can't be written as JSON: %v", typ, err)
	}
	return t.ConfigureJSON(ctx, typ, patch)
}

// ConfigureJSON is Configure with the settings as a JSON object that has some of the
// fields of [TypeSettings], for programs that are given them as such.
func (t Types) ConfigureJSON(ctx context.Context, typ string, patch json.RawMessage) (TypeInfo, error) {
	return ask[TypeInfo](ctx, t.c, wire.APIConfigure, wire.Configure{Type: typ, Settings: patch})
}

// Pause holds the items of a type back until [Types.Resume]: running items go
// on, none begins, and submissions are accepted. A type can be paused before its
// first item. The pause outlives a restart of
// the engine. For a type that is paused already, Pause changes when that ends, if
// the options say so. It reports whether it changed anything.
func (t Types) Pause(ctx context.Context, typ string, o PauseOptions) (changed bool, err error) {
	return t.c.change(ctx, wire.APIPause, wire.Pause{Type: typ, Reason: o.Reason, By: o.By, Until: o.Until, For: events.DurationOf(o.For)})
}

// Resume ends a pause, and reports whether there was one. A type that nobody has
// used is CodeNotFound.
func (t Types) Resume(ctx context.Context, typ string) (changed bool, err error) {
	return t.c.change(ctx, wire.APIResume, wire.Resume{Type: typ})
}

// Remove forgets an unused type, with its settings and its pause. It is
// CodeWrongState while the type has items (including ended items that are still
// kept), a schedule or a worker, CodeSetInFile while engine.toml has a table for
// it, and CodeNotFound if there is no such type. The next submission makes the
// type known again.
func (t Types) Remove(ctx context.Context, typ string) error {
	_, err := t.c.change(ctx, wire.APITypeRemove, wire.TypeRemove{Type: typ})
	return err
}

// ResetCircuit closes the circuit of a type at once, and reports whether it was
// open or half open.
func (t Types) ResetCircuit(ctx context.Context, typ string) (changed bool, err error) {
	return t.c.change(ctx, wire.APICircuitReset, wire.CircuitReset{Type: typ})
}
