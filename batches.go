package streamwright

import (
	"context"
	"errors"
	"fmt"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Batch is the outcome of [Batches.Submit].
type Batch struct {
	ID       string      // of the batch
	Items    []Submitted // in the order of the items; Error is set for one that was refused
	Callback Submitted   // the zero Submitted if it was not submitted
}

// NewBatch is a batch to open: see [Batches.Open].
type NewBatch struct {
	ID       string // a ULID; empty: the client chooses one
	Name     string // for people, at most 256 bytes
	Count    int    // items to come; 0: until [Batches.Seal]
	Tenant   string
	Labels   map[string]string
	Source   string
	Trigger  string
	Priority int    // of the batch's own item: 1 to 9, higher first; 0: the default, 5; [Lowest]: below 1
	Trace    string // W3C traceparent
	// Callback is submitted along with the batch and runs once it has ended. Its
	// AfterPolicy says what becomes of it if the batch is cancelled. A batch whose
	// items end dead or cancelled completes all the same.
	Callback *Item
}

func (b *NewBatch) request() (wire.Batch, error) {
	req := wire.Batch{ID: b.ID, Name: b.Name, Count: b.Count, Tenant: b.Tenant, Labels: b.Labels, Source: b.Source, Trigger: b.Trigger, Priority: priority(b.Priority), Trace: b.Trace}
	if b.Callback == nil {
		return req, nil
	}
	callback, err := b.Callback.Submission()
	req.Callback = &callback
	return req, err
}

// BatchState is the state of a batch after a request.
type BatchState = wire.BatchReply

// Batches manages batches of items. [Client.Batches] returns one.
type Batches struct{ c *Client }

// Batches returns the handle for batches:
//
//	batch, err := client.Batches().Submit(ctx, resizes, &streamwright.Item{Type: "publish-album"})
func (c *Client) Batches() Batches { return Batches{c} }

// Open opens a batch: items that name it in [Item].Batch are counted by it,
// until it has Count of them, or until [Batches.Seal]. The batch is an item itself: Get
// and Wait return its progress ([WorkItem].Batch), Cancel cancels its items that have
// not ended, and an item that comes After it runs when all of them have ended.
//
// It tries until ctx ends, and makes one batch: without an id one is chosen.
func (h Batches) Open(ctx context.Context, b NewBatch) (BatchState, error) {
	req, err := b.request()
	if err == nil && req.ID == "" {
		req.ID, err = h.c.ids.next()
	}
	if err == nil && req.Callback != nil {
		err = h.c.sign(req.Callback)
	}
	if err != nil {
		return BatchState{}, err
	}
	out, err := h.ask(ctx, req)
	if err == nil && out.Callback != nil {
		err = out.Callback.Error.Err()
	}
	return out, err
}

// Seal settles how many items a batch has: count, or, with 0, as many as it
// has now. It ends with the last of them.
func (h Batches) Seal(ctx context.Context, id string, count int) (BatchState, error) {
	return h.ask(ctx, wire.Batch{ID: id, Count: count, Seal: true})
}

func (h Batches) ask(ctx context.Context, b wire.Batch) (BatchState, error) {
	out, err := askFor[BatchState](ctx, h.c, wire.APIBatch, b, 0, forever)
	if err == nil {
		h.c.ObservePosition(out.Position)
	}
	return out, err
}

// Submit submits items as one batch, and, unless callback is nil, one more
// that comes after them all: the callback waits until the last of them has ended,
// and its AfterPolicy says what becomes of it if one ends dead or cancelled.
//
// Items without an id are given one, in the slice, and so is the callback, so
// that the same call can be repeated after a failure and still makes each once.
// If an item is refused, the callback is not submitted, the batch stays open, and
// the error says why; the items that were accepted run all the same.
func (h Batches) Submit(ctx context.Context, items []Item, callback *Item, opts ...BulkOption) (Batch, error) {
	if n := len(items); n == 0 || n > events.MaxBatchCount {
		return Batch{}, events.Refuse(events.CodeTooLarge, "the batch has %d items: 1 to %d are allowed; make several, and let one item come after those", n, events.MaxBatchCount)
	}
	if err := h.c.ids.name(items, callback); err != nil {
		return Batch{}, err
	}
	id, err := batchID(items[0].ID)
	if err != nil {
		return Batch{}, err
	}
	b := Batch{ID: id}
	if _, err := h.Open(ctx, NewBatch{ID: id, Source: items[0].Source, Trigger: items[0].Trigger, Tenant: items[0].Tenant}); err != nil {
		return b, fmt.Errorf("open the batch: %w", err)
	}
	for i := range items {
		items[i].Batch = id
	}
	if b.Items, err = h.c.SubmitMany(ctx, items, opts...); err != nil {
		return b, err
	}
	if err := refusedOf(b.Items); err != nil {
		return b, fmt.Errorf("the callback was not submitted: %w", err)
	}
	if callback != nil {
		last := *callback
		last.After = append([]string{id}, callback.After...)
		if b.Callback, err = h.c.Submit(ctx, last); err != nil {
			return b, err
		}
	}
	_, err = h.Seal(ctx, id, 0)
	return b, err
}

// batchID returns the id of the batch whose first item has the id first. It is the
// same each time, so a repeated call opens no second batch.
func batchID(first string) (string, error) {
	id, err := events.ParseID(first)
	if err != nil {
		return "", events.Refuse(events.CodeBadID, "%v", err)
	}
	id[7] ^= 0x80 // behind the time: far from the ids made next
	return id.String(), nil
}

// refusedOf joins the refusals of some items, the first few in full.
func refusedOf(items []Submitted) error {
	var refused []error
	for i, s := range items {
		if s.Error != nil {
			refused = append(refused, fmt.Errorf("item %d of the batch: %w", i+1, s.Error.Err()))
		}
	}
	const told = 3
	if more := len(refused) - told; more > 0 {
		refused = append(refused[:told], fmt.Errorf("and %d more", more))
	}
	return errors.Join(refused...)
}

// name gives an id to each item that has none.
func (s *idSource) name(items []Item, callback *Item) (err error) {
	for i := range items {
		if items[i].ID == "" {
			if items[i].ID, err = s.next(); err != nil {
				return err
			}
		}
	}
	if callback != nil && callback.ID == "" {
		callback.ID, err = s.next()
	}
	return err
}
