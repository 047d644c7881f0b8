package streamwright

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// putAgain bounds the time for which a submission is tried before its large params are put
// again, so that what an engine does not take for long is not swept away as
// belonging to nobody; well under blobs.DefaultGrace.
const putAgain = blobs.DefaultGrace / 3

// submit asks for one item, putting its params first if they are large.
func (c *Client) submit(ctx context.Context, s wire.Submit) (Submitted, error) {
	if len(s.Params) <= c.set.inline {
		return askFor[Submitted](ctx, c, wire.APISubmit, s, 0, forever)
	}
	for {
		byRef, err := c.offload(ctx, s)
		if err != nil {
			return Submitted{}, err
		}
		round, cancel := context.WithTimeout(ctx, putAgain)
		out, err := askFor[Submitted](round, c, wire.APISubmit, byRef, 0, forever)
		over := round.Err() != nil
		cancel()
		if err == nil || !over || ctx.Err() != nil {
			return out, err
		}
	}
}

// offload puts large params into the object store, trying until ctx ends, and
// leaves a reference in their place.
func (c *Client) offload(ctx context.Context, s wire.Submit) (wire.Submit, error) {
	s.Params = bytes.TrimSpace(s.Params)
	if len(s.Params) <= c.set.inline {
		return s, nil
	}
	if s.Namespace != "" && events.Namespace(s.Namespace) != c.Namespace() {
		return s, events.Refuse(events.CodeTooLarge, "the params have %d bytes: those of an item that is handed to another namespace have at most %d; keep them elsewhere, and submit where they are", len(s.Params), c.set.inline)
	}
	id, err := events.ParseID(s.ID)
	if err != nil {
		return s, events.Refuse(events.CodeBadID, "%v", err)
	}
	var ref blobs.Ref
	err = c.retry(ctx, "put params", forever, func(ctx context.Context) (err error) {
		ref, err = c.blobs.PutBytes(ctx, id, blobs.Params, s.Params)
		return c.ofStore("put params", err)
	})
	if err != nil {
		return s, err
	}
	s.Params = ref.Document()
	return s, nil
}

// ofStore turns the end of a context into what retry takes for one.
func (l *link) ofStore(op string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return l.failed(op, err)
	}
	return err
}

// Params returns an item's params, from the object store if they are there. They
// are held in memory, at most 64 MiB (see [WithMaxDocument]). The error may be
// blobs.ErrGone or blobs.ErrDamaged.
func (c *Client) Params(ctx context.Context, item WorkItem) (json.RawMessage, error) {
	return c.document(ctx, "get params", item.Params)
}

// Result returns the result of a completed item, as [Client.Params] returns its
// params; nil if there is none. For an item that has not completed the error is an
// [*OutcomeError].
func (c *Client) Result(ctx context.Context, item WorkItem) (json.RawMessage, error) {
	if item.State != events.StateCompleted {
		return nil, &OutcomeError{Item: item}
	}
	return c.document(ctx, "get result", item.Result)
}

func (c *Client) document(ctx context.Context, op string, doc json.RawMessage) (json.RawMessage, error) {
	ref, ok, err := blobs.Find(doc)
	if err != nil || !ok {
		return doc, err
	}
	err = c.retry(ctx, op, c.set.patience, func(ctx context.Context) (err error) {
		doc, err = c.blobs.Get(ctx, ref)
		return c.ofStore(op, err)
	})
	if err != nil {
		return nil, err
	}
	return doc, nil
}

// OpenParams reads an item's params as a stream, of any size, in bounded memory.
// That they are whole is known at their end: then Read returns io.EOF, or an
// error such as blobs.ErrDamaged. The reader ends with ctx; close it.
func (c *Client) OpenParams(ctx context.Context, item WorkItem) (io.ReadCloser, error) {
	return c.open(ctx, item.Params)
}

// OpenResult reads the result of a completed item as a stream, like
// [Client.OpenParams].
func (c *Client) OpenResult(ctx context.Context, item WorkItem) (io.ReadCloser, error) {
	if item.State != events.StateCompleted {
		return nil, &OutcomeError{Item: item}
	}
	return c.open(ctx, item.Result)
}

func (c *Client) open(ctx context.Context, doc json.RawMessage) (io.ReadCloser, error) {
	ref, ok, err := blobs.Find(doc)
	if err != nil {
		return nil, err
	}
	if !ok {
		return io.NopCloser(bytes.NewReader(doc)), nil
	}
	r, err := c.blobs.Open(ctx, ref)
	if err != nil && ctx.Err() != nil && !errors.As(err, new(*events.Error)) {
		return nil, endOf("open document", ctx.Err(), nil)
	}
	return r, err
}

// Stored returns the reference of a document in the object store; ok is false for a
// document that is kept with its item.
func Stored(doc json.RawMessage) (ref blobs.Ref, ok bool) {
	ref, ok, _ = blobs.Find(doc)
	return ref, ok
}
