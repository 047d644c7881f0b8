package dispatcher

import (
	"context"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Outcome is what became of one command, told only once its events are
// durable (or, for a repeat, once what it repeats is).
type Outcome struct {
	Decision events.Decision // Events is left out
	Item     *events.Item    // the item of Decision.ID after the decision; nil for none
	Position events.Seq      // what a query must have seen to see this
	Err      error           // an *events.Error when the command was refused
}

// Engine owns a partition and dispatches its work.
type Engine struct{}

// Do decides commands, in order, each on its own. done is called exactly once,
// from a goroutine that it must not hold up, with an outcome for each. Do
// blocks while the engine's bounded queue is full, until ctx ends; when it
// returns an error (an *events.Error with CodeUnavailable) done is not called.
func (e *Engine) Do(ctx context.Context, cmds []events.Command, done func([]Outcome)) error {
	panic("being written")
}

// Report decides workers' reports, in order, each on its own; done as in Do.
func (e *Engine) Report(ctx context.Context, reports []wire.Report, done func([]wire.Reported)) error {
	panic("being written")
}

// Register announces a worker: its types and their consumers exist when it
// returns.
func (e *Engine) Register(ctx context.Context, r wire.Register) (wire.Registered, error) {
	panic("being written")
}

// Heartbeat keeps a worker registered, registering it if it is not known.
func (e *Engine) Heartbeat(ctx context.Context, h wire.Heartbeat) (wire.HeartbeatReply, error) {
	panic("being written")
}

// Unregister takes a worker out of the rotation.
func (e *Engine) Unregister(ctx context.Context, u wire.Unregister) error { panic("being written") }

// Drain asks a worker to take no more work.
func (e *Engine) Drain(ctx context.Context, w events.WorkerID) error { panic("being written") }

// Workers lists the registered workers, by id.
func (e *Engine) Workers() []wire.WorkerInfo { panic("being written") }

// Load is what the engine holds in memory for a type.
type Load struct {
	InFlight int // dispatched or running
	Capacity int
	Workers  int
}

// Loads returns the load of each type that has any.
func (e *Engine) Loads() map[events.Type]Load { panic("being written") }

// Position is the last durable event.
func (e *Engine) Position() events.Seq { panic("being written") }

// Await returns once the projection has reached seq, or with ctx's error.
func (e *Engine) Await(ctx context.Context, seq events.Seq) error { panic("being written") }
