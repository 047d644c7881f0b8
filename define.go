package streamwright

import (
	"context"
	"fmt"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// Definition is one type of work, with params P and a result R, for both sides: the
// code that submits it and the code that handles it. Make one with [Define]; it never
// changes, and all its methods may be called from any goroutine.
type Definition[P, R any] struct {
	typ      events.Type
	defaults []ItemOption
	settings Settings
}

// ItemOption sets fields of an item before it is submitted.
type ItemOption func(*Item)

// Define describes a type of work, usually in a package-level variable that
// both sides import:
//
//	var Resize = streamwright.Define[Picture, Thumbnail]("resize", func(it *streamwright.Item) {
//		it.MaxAttempts = 5
//	})
//
// The defaults apply to every item submitted through the definition, before the
// options of that submission. Define panics if typ is not a valid type name.
func Define[P, R any](typ string, defaults ...ItemOption) *Definition[P, R] {
	t, err := events.ParseType(typ)
	if err != nil {
		panic(fmt.Sprintf("streamwright: define %q: %v", typ, err))
	}
	return &Definition[P, R]{typ: t, defaults: defaults}
}

// Type returns the name of the type.
func (d *Definition[P, R]) Type() events.Type { return d.typ }

// Item returns the item that Submit would submit, for [Client.SubmitMany] and
// [Batches.Submit].
func (d *Definition[P, R]) Item(params P, opts ...ItemOption) Item {
	it := Item{Type: string(d.typ), Params: params}
	for _, o := range d.defaults {
		o(&it)
	}
	for _, o := range opts {
		o(&it)
	}
	return it
}

// Child returns the item as a child for [workers.Spawn]. What is wrong with it fails the item
// that spawns it.
func (d *Definition[P, R]) Child(params P, opts ...ItemOption) workers.Child {
	it := d.Item(params, opts...)
	sub, err := it.Submission()
	child := workers.Child{Type: it.Type, With: sub}
	switch {
	case err != nil:
		child.Params = unfit{err}
	case sub.Params != nil:
		child.Params = sub.Params
	}
	return child
}

// unfit stands for params that can't be submitted. Encoding it returns the reason.
type unfit struct{ error }

func (u unfit) MarshalJSON() ([]byte, error) { return nil, u.error }

// Submit submits an item, as [Client.Submit] does.
func (d *Definition[P, R]) Submit(ctx context.Context, c *Client, params P, opts ...ItemOption) (Submitted, error) {
	return c.Submit(ctx, d.Item(params, opts...))
}

// Publish submits an item by a plain publish, as [Client.Publish] does. The item
// exists once the engine has decided it: see [Client.GetByIntake].
func (d *Definition[P, R]) Publish(ctx context.Context, c *Client, params P, opts ...ItemOption) (Published, error) {
	return c.Publish(ctx, d.Item(params, opts...))
}

// Wait waits until the item has ended and returns its result, also one that is
// kept in the object store. For an item that has not completed the error is an
// [*OutcomeError]; for one of another type it is an *Error with
// CodeBadType.
func (d *Definition[P, R]) Wait(ctx context.Context, c *Client, id string) (R, error) {
	var zero R
	item, err := c.Wait(ctx, id)
	if err != nil {
		return zero, err
	}
	if item.Type != string(d.typ) {
		return zero, events.Refuse(events.CodeBadType, "item %s is of type %s, not %s", id, item.Type, d.typ)
	}
	if item.State != events.StateCompleted {
		return zero, &OutcomeError{Item: item}
	}
	if item.Result, err = c.Result(ctx, item); err != nil {
		return zero, err
	}
	return Result[R](item)
}

// Handle makes w run fn for the items of this type. Params that do not fit P
// fail the item for good, with code bad_params. A handler spawns children, snoozes, waits
// or asks by returning a [workers.Spawn], a [workers.Snooze], a [workers.Wait] or a
// [workers.Ask] as its error:
//
//	return Thumbnail{}, workers.Snooze(time.Minute).Because("the upload has not ended")
//
// The error is that of [workers.Handle], which Start returns once more.
func (d *Definition[P, R]) Handle(w *workers.Worker, fn func(ctx context.Context, item *workers.Item[P]) (R, error), opts ...workers.Option) error {
	return workers.Handle(w, string(d.typ), fn, opts...)
}

// WithSettings returns the definition with settings of the type, which
// [Definition.Configure] puts in force:
//
//	var Resize = streamwright.Define[Picture, Thumbnail]("resize").WithSettings(streamwright.Settings{
//		Capacity: new(20),
//		Backoff:  &streamwright.Backoff{Initial: 5 * time.Second, Factor: 2, Max: time.Minute, Jitter: 0.3},
//		Rates:    []streamwright.RateLimit{{Per: "tenant", At: "dispatch", N: 20, Interval: time.Second}},
//	})
func (d *Definition[P, R]) WithSettings(s Settings) *Definition[P, R] {
	with := *d
	with.settings = s
	return &with
}

// Configure puts the definition's settings in force, as [Types.Configure] does; a
// worker's program calls it before it starts the worker. It needs the permissions of an
// operator, changes nothing that is as wanted, and is CodeSetInFile if engine.toml sets
// one of them.
func (d *Definition[P, R]) Configure(ctx context.Context, c *Client) (TypeInfo, error) {
	return c.Types().Configure(ctx, string(d.typ), d.settings)
}

// NewWorker makes a worker on the client's connection, with its login and its
// names. The worker does not close the connection: stop it before the client.
func NewWorker(c *Client, cfg workers.Config) (*workers.Worker, error) {
	if cfg.Names == (wire.Names{}) {
		cfg.Names = c.set.names
	}
	return workers.New(c.nc, cfg)
}
