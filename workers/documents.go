package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/events"
)

// invoke runs an item's handler with its params resolved, and puts a result
// that is too large for an event into the object store. All of it is under the
// attempt's context.
func (w *Worker) invoke(ctx context.Context, h Handler, item *RawItem) Outcome {
	if blobs.IsRef(item.Raw) {
		doc, err := w.fetchParams(ctx, item.Raw)
		if err != nil {
			return failedWith(ctx, item, err)
		}
		item.Raw = doc
	}
	out := Invoke(ctx, h, item)
	if out.Err == nil && out.Spawn != nil {
		return w.storeChildren(ctx, item, out)
	}
	if out.Err != nil || len(out.Result) <= events.MaxResultBytes {
		return out
	}
	ref, err := w.blobs.PutBytes(ctx, item.ID, blobs.Result, out.Result)
	if err != nil {
		return failedWith(ctx, item, blobFailure(fmt.Errorf("the result has %d bytes and could not be stored: %w", len(out.Result), err)))
	}
	return Outcome{Result: ref.Document()}
}

// maxInlineChildren bounds the JSON of the children that go with the report of a
// spawn itself, in bytes: what every server takes, beside other reports. Of more
// the report has a reference.
const maxInlineChildren = 512 << 10

// storeChildren puts the children of a spawn into the object store if they are
// too large for a message.
func (w *Worker) storeChildren(ctx context.Context, item *RawItem, out Outcome) Outcome {
	if out.report.Size() <= maxInlineChildren/2 {
		return out
	}
	doc, err := json.Marshal(out.report.Children)
	if err != nil || len(doc) <= maxInlineChildren {
		return out // it was checked: see Spawn
	}
	ref, err := w.blobs.PutBytes(ctx, item.ID, blobs.Children, doc)
	if err != nil {
		return failedWith(ctx, item, blobFailure(fmt.Errorf("the spawn's %d children could not be stored: %w", len(out.report.Children), err)))
	}
	rep := *out.report
	rep.Children, rep.ChildrenRef = nil, ref.Document()
	out.report = &rep
	return out
}

// fetchParams gets the params that a reference stands for.
func (w *Worker) fetchParams(ctx context.Context, doc json.RawMessage) (json.RawMessage, error) {
	ref, err := blobs.Parse(doc)
	if err == nil {
		doc, err = w.blobs.Get(ctx, ref)
	}
	if err != nil {
		return nil, blobFailure(fmt.Errorf("the params could not be had: %w", err))
	}
	if !json.Valid(doc) || !utf8.Valid(doc) {
		err := fmt.Errorf("the object %s is no JSON document in UTF-8: put the params as JSON", ref.Name)
		return nil, Permanent(WithCode(err, string(events.CodeBadParams)))
	}
	return doc, nil
}

// blobFailure gives a failure of the object store the code of the failed
// attempt.
func blobFailure(err error) error {
	if blobs.Permanent(err) {
		return Permanent(WithCode(err, string(events.CodeOf(err))))
	}
	return WithCode(err, blobs.FailUnavailable)
}

// failedWith is the outcome of a run that has failed outside its handler.
func failedWith(ctx context.Context, item *RawItem, err error) Outcome {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return Invoke(ctx, func(context.Context, *RawItem) (any, error) { return nil, err }, item)
}
