package wire

import (
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
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

// Commands returns the commands of the request: the one that makes the batch and, with
// a callback, the callback's submission. newID returns fresh, ascending ids. The error
// is an *events.Error.
func (b Batch) Commands(newID func() events.ID) ([]core.Command, error) {
	if b.Count < 0 {
		return nil, events.Refuse(events.CodeBadRequest, "count is %d: a batch has 1 to %d items", b.Count, events.MaxBatchCount)
	}
	if b.Count > events.MaxBatchCount {
		return nil, events.Refuse(events.CodeTooLarge, "count is %d: a batch has 1 to %d items", b.Count, events.MaxBatchCount)
	}
	if b.Seal {
		return b.seal()
	}
	if err := checkText("name", b.Name, events.MaxNameLen); err != nil {
		return nil, err
	}
	own, err := Submit{
		Type: string(events.BatchType), ID: b.ID, Tenant: b.Tenant, Labels: b.Labels, Source: b.Source, Trigger: b.Trigger, Priority: b.Priority, Trace: b.Trace,
	}.Command(newID(), events.MaxParamsCeiling)
	if err != nil {
		return nil, err
	}
	if own.ID.IsZero() {
		own.ID = own.NewID // so that the callback can name it
	}
	cmds := []core.Command{core.OpenBatch{Submit: own, Name: b.Name, Count: b.Count}}
	if b.Callback == nil {
		return cmds, nil
	}
	callback := *b.Callback
	callback.After = append([]string{own.ID.String()}, callback.After...)
	cmd, err := callback.Command(newID(), events.MaxParamsCeiling)
	if err != nil {
		return nil, events.Refuse(events.CodeOf(err), "the callback: %s", FromError(err).Message)
	}
	if cmd.ID.IsZero() {
		cmd.ID = callbackID(own.ID)
	}
	return append(cmds, cmd), nil
}

// callbackID returns the id of a batch's callback, unless its submitter chose one.
// It is the same each time, so a repeated request makes no second callback.
func callbackID(batch events.ID) events.ID {
	id := batch
	id[6] ^= 0x80 // the first byte behind the time: far from the ids made next
	return id
}

func (b Batch) seal() ([]core.Command, error) {
	if b.Callback != nil {
		return nil, events.Refuse(events.CodeBadRequest, "a batch is given its callback when it is opened: submit an item with after, or leave callback out")
	}
	id, err := parseID(b.ID)
	if err != nil {
		return nil, err
	}
	return []core.Command{core.SealBatch{ID: id, Count: b.Count}}, nil
}

// BatchOf returns the progress of a batch; false if the item is not one.
func BatchOf(it *events.Item) (BatchCounts, bool) {
	if it == nil || it.Relations == nil || !it.Relations.Batch {
		return BatchCounts{}, false
	}
	return *batchOf(it.Relations), true
}
