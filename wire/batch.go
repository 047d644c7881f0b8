package wire

import (
	"github.com/streamwright/streamwright/events"
)

// Batch opens a batch, or seals one that is open. A batch is an item that runs
// nothing: it waits for the items that are submitted to it, and completes when
// their number is settled and the last of them has ended.
type Batch struct {
	// ID is the batch's id, a ULID; without one the engine chooses it. With an id
	// the request may be repeated.
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"` // for people, at most 256 bytes
	// Count is the number of items to come; 0: a later request with Seal says.
	Count int `json:"count,omitempty" strict:"positive"`
	// Seal settles the number of items of the batch ID: Count, or, with 0, as many
	// as there are. Name and Callback are not used then.
	Seal     bool              `json:"seal,omitempty"`
	Tenant   string            `json:"tenant,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Source   string            `json:"source,omitempty"`
	Trigger  string            `json:"trigger,omitempty"`
	Priority *Priority         `json:"priority,omitempty"` // of the batch's own item
	Trace    string            `json:"traceparent,omitempty"`
	// Callback is submitted along with the batch and runs once it has ended. Its
	// AfterPolicy says what becomes of it if the batch is cancelled. A batch whose
	// items end dead or cancelled completes all the same.
	Callback *Submit `json:"callback,omitempty"`
}

// BatchReply answers a Batch with the batch's new state.
type BatchReply struct {
	ID       string           `json:"id"`
	State    events.ItemState `json:"state"`
	Repeat   bool             `json:"repeat,omitempty"` // it was already so
	Batch    BatchCounts      `json:"batch"`
	Callback *Submitted       `json:"callback,omitempty"`
	Position Position         `json:"position,omitempty"`
}

// BatchOf returns the progress of a batch; false if the item is not one.
func BatchOf(it *events.Item) (BatchCounts, bool) {
	if it == nil || it.Relations == nil || !it.Relations.Batch {
		return BatchCounts{}, false
	}
	return *batchOf(it.Relations), true
}
