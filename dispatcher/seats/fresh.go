package seats

import (
	"iter"
	"slices"

	"github.com/streamwright/streamwright/events"
)

// maxFresh bounds the items of a Fresh: about those of two batches.
const maxFresh = 4096

// Fresh holds items that were queued by decisions that are not durable yet, and so are in
// no queue: they may be assigned in the same batch. The zero value is empty.
type Fresh struct {
	items []freshItem // in the order of the decisions
	// passed is the position of the last event that queued an item that is not here.
	passed events.Seq
}

type freshItem struct {
	id  events.ID
	seq events.Seq
}

// Add adds an item that the decision at a position has queued.
func (f *Fresh) Add(id events.ID, at events.Seq) {
	if len(f.items) >= maxFresh {
		f.passed = at
		return
	}
	f.items = append(f.items, freshItem{id, at})
}

// Durable forgets the items up to a position: they are in their queues now.
func (f *Fresh) Durable(last events.Seq) {
	n := 0
	for n < len(f.items) && f.items[n].seq <= last {
		n++
	}
	f.items = slices.Delete(f.items, 0, n)
}

// All returns the items.
func (f *Fresh) All() iter.Seq[events.ID] {
	return func(yield func(events.ID) bool) {
		for _, it := range f.items {
			if !yield(it.id) {
				return
			}
		}
	}
}

// None reports whether there are no items.
func (f *Fresh) None() bool { return len(f.items) == 0 }

// Whole reports whether all items that were queued by decisions that are not durable yet
// are here. last is the last durable position.
func (f *Fresh) Whole(last events.Seq) bool { return last >= f.passed }
