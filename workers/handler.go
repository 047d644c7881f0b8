package workers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/streamwright/streamwright/events"
)

// Handler runs one work item. The result is recorded as JSON (nil: none; a
// json.RawMessage as it is), at most Config.MaxDocument; beyond 256 KiB it goes
// to the object store and the item keeps a reference. A [Spawned], a [Snoozed] or a [Waits] ends
// the run otherwise, returned as the result or as the error. Any other error makes the
// attempt failed; it is retried unless marked by [Permanent].
//
// The goroutine that a handler runs on may run another one next. So a handler must undo what
// it sets there, such as a lock of its thread, or profiling labels.
type Handler func(ctx context.Context, item *RawItem) (result any, err error)

// Middleware wraps every handler of a worker.
type Middleware func(next Handler) Handler

// Option changes how one type is handled.
type Option func(*registration)

// Limit bounds how many items of the type run at once in this worker, below
// its Concurrency.
func Limit(n int) Option { return func(r *registration) { r.limit = n } }

// Strict refuses params that have fields which the params type does not.
func Strict() Option { return func(r *registration) { r.strict = true } }

// registration is a type and its handler. limit is 0 for none.
type registration struct {
	typ     events.Type
	handler Handler
	limit   int
	strict  bool

	// Guarded by Worker.mu.
	inSlots int // runs of the type that hold a slot, or wait for one
}

// Handle makes w run fn for items of a type, with their params decoded into a
// P. Params that do not fit P fail the item for good, with code bad_params. A handler
// without a result has the R any, and returns nil. One that ends a run otherwise returns a
// [Snoozed], a [Spawned] or a [Waits] as its error.
//
// It returns an error, and adds nothing, for a mistake (a bad or repeated type name,
// a nil function) and after Start ([ErrNotNew]). Start returns mistakes once more, so
// a program that calls Handle before it need not look.
func Handle[P, R any](w *Worker, typ string, fn func(ctx context.Context, item *Item[P]) (R, error), opts ...Option) error {
	r := newRegistration(typ, opts)
	if fn != nil {
		r.handler = typed(fn, r.strict)
	}
	return w.register(r)
}

// HandleRaw is Handle with the params left as they are.
func HandleRaw(w *Worker, typ string, fn Handler, opts ...Option) error {
	r := newRegistration(typ, opts)
	r.handler = fn
	return w.register(r)
}

func newRegistration(typ string, opts []Option) *registration {
	r := &registration{typ: events.Type(typ)}
	for _, o := range opts {
		o(r)
	}
	return r
}

// Typed turns a handler with decoded params into a [Handler].
func Typed[P, R any](fn func(ctx context.Context, item *Item[P]) (R, error)) Handler {
	return typed(fn, false)
}

func typed[P, R any](fn func(context.Context, *Item[P]) (R, error), strict bool) Handler {
	return func(ctx context.Context, raw *RawItem) (any, error) {
		item := &Item[P]{RawItem: raw}
		if err := decodeParams(raw.Raw, &item.Params, strict); err != nil {
			err = fmt.Errorf("the params do not fit %T: %w", item.Params, err)
			return nil, Permanent(WithCode(err, string(events.CodeBadParams)))
		}
		return fn(ctx, item)
	}
}

func decodeParams(doc json.RawMessage, into any, strict bool) error {
	if len(doc) == 0 {
		doc = json.RawMessage("null")
	}
	if !strict {
		return json.Unmarshal(doc, into)
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}
