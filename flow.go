package streamwright

import (
	"context"
	"errors"
	"fmt"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Tree returns an item with what it has spawned, to a depth of 10 and at most
// 200 items, and with the items that it was spawned by.
func (c *Client) Tree(ctx context.Context, id string) (Tree, error) {
	return c.TreeOf(ctx, id, 0, 0)
}

// TreeOf is Tree with bounds of the caller's: at most depth levels (to 100) and
// limit items (to 10,000) below the item; 0 is the default.
func (c *Client) TreeOf(ctx context.Context, id string, depth, limit int) (Tree, error) {
	return ask[Tree](ctx, c, wire.APITree, wire.Tree{ID: id, Depth: depth, Limit: limit, MinPosition: c.Position()})
}

// Batch is what became of SubmitBatch.
type Batch struct {
	Items    []Submitted // in the order of the items; Error is set for one that was refused
	Callback Submitted   // the zero Submitted if it was not submitted
}

// SubmitBatch submits items and one more that comes after them all: the
// callback waits until the last of them has ended, and its AfterPolicy says
// what becomes of it if one ends dead or cancelled.
//
// Items without an id are given one, in the slice, and so is the callback, so
// that the same call can be repeated after a failure and still makes each once.
// If an item is refused, the callback is not submitted, and the error says why;
// the items that were accepted run all the same. At most 1,000 items, all in
// all, can be waited for; what comes in callback.After counts as well.
func (c *Client) SubmitBatch(ctx context.Context, items []Item, callback *Item, opts ...BulkOption) (Batch, error) {
	if n := len(items) + len(callback.After); len(items) == 0 || n > events.MaxAfter {
		return Batch{}, events.Refuse(events.CodeTooLarge, "the callback would wait for %d items: 1 to %d are allowed; give each part of a larger batch a callback, and let one more wait for those", n, events.MaxAfter)
	}
	if err := c.name(items, callback); err != nil {
		return Batch{}, err
	}
	var b Batch
	var err error
	if b.Items, err = c.SubmitMany(ctx, items, opts...); err != nil {
		return b, err
	}
	last := *callback
	last.After = append([]string(nil), callback.After...)
	var refused []error
	for i, s := range b.Items {
		if s.Error != nil {
			refused = append(refused, fmt.Errorf("item %d of the batch: %w", i+1, s.Error.Err()))
		}
		last.After = append(last.After, s.ID)
	}
	if len(refused) > 0 {
		const told = 3
		if more := len(refused) - told; more > 0 {
			refused = append(refused[:told], fmt.Errorf("and %d more", more))
		}
		return b, fmt.Errorf("the callback was not submitted: %w", errors.Join(refused...))
	}
	b.Callback, err = c.Submit(ctx, last)
	return b, err
}

// name gives an id to each item that has none.
func (c *Client) name(items []Item, callback *Item) (err error) {
	for i := range items {
		if items[i].ID == "" {
			if items[i].ID, err = c.ids.next(); err != nil {
				return err
			}
		}
	}
	if callback.ID == "" {
		callback.ID, err = c.ids.next()
	}
	return err
}
