package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/wire"
)

// by is who the engine's events name for what is done here.
const by = "mcp"

type submitIn struct {
	Type           string            `json:"type" jsonschema:"the type of work; list_types shows those there are"`
	Params         any               `json:"params,omitempty" jsonschema:"what to do: any JSON value that the type's workers understand"`
	IdempotencyKey string            `json:"idempotency_key" jsonschema:"a text of your own that names this submission: the same key within 24 hours gives the same item, so a repeat is safe"`
	Priority       *int              `json:"priority,omitempty" jsonschema:"0 to 9, higher first; 5 if left out"`
	DedupKey       string            `json:"dedup_key,omitempty" jsonschema:"merges it into an unfinished item of the type that has the same key"`
	DelaySeconds   float64           `json:"delay_seconds,omitempty" jsonschema:"not before so many seconds from now"`
	Tenant         string            `json:"tenant,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
}

// submitting adds the tools of the role submit.
func (t *tools) submitting() {
	add(t, adds, "submit_item", "Submit an item of work. It is durable when this answers; wait_for_item waits for its end.", t.submit)
	add(t, adds, "signal_item", "Send an item a signal, which it may wait for now or later; explain_item says what an item waits for. It can't answer what list_approvals shows.", t.signal)
}

type signalIn struct {
	itemIn
	Name    string `json:"name" jsonschema:"the signal's name"`
	Payload any    `json:"payload,omitempty" jsonschema:"any JSON value that the item's workers understand"`
	MsgID   string `json:"msg_id" jsonschema:"a text of your own that names this signal: the same one again sends nothing, so a repeat is safe"`
}

func (t *tools) signal(ctx context.Context, in signalIn) (any, error) {
	if in.MsgID == "" {
		return nil, fmt.Errorf("msg_id is missing: choose a text that names this signal")
	}
	return t.c.Signal(ctx, in.ID, streamwright.Signal{Name: in.Name, Payload: in.Payload, MsgID: in.MsgID})
}

func (t *tools) submit(ctx context.Context, in submitIn) (any, error) {
	if in.IdempotencyKey == "" {
		return nil, fmt.Errorf("idempotency_key is missing: choose a text that names this submission")
	}
	it := streamwright.Item{Type: in.Type, Params: in.Params, IdempotencyKey: in.IdempotencyKey, DedupKey: in.DedupKey,
		Delay: time.Duration(in.DelaySeconds * float64(time.Second)), Tenant: in.Tenant, Labels: in.Labels, Source: by, Priority: priority(in.Priority)}
	return t.c.Submit(ctx, it)
}

// priority is the client's form of a priority, of which nil is none.
func priority(p *int) int {
	if p == nil {
		return 0
	}
	return streamwright.PriorityOf(*p)
}

type reasonIn struct {
	Reason string `json:"reason" jsonschema:"why, for the history; at most 256 bytes"`
}

type retryIn struct {
	itemIn
	reasonIn
	Params any `json:"params,omitempty" jsonschema:"new params in place of the item's"`
}

type rescheduleIn struct {
	itemIn
	Priority     *int    `json:"priority,omitempty" jsonschema:"0 to 9, higher first"`
	Now          bool    `json:"now,omitempty" jsonschema:"make it available at once"`
	DelaySeconds float64 `json:"delay_seconds,omitempty" jsonschema:"make it available so many seconds from now"`
}

type oneIn struct {
	itemIn
	reasonIn
	confirmIn
}

type manyIn struct {
	Action string `json:"action" jsonschema:"retry (dead and cancelled items run again), cancel (those that have not ended), or purge (ended ones are deleted for good)"`
	filters
	reasonIn
	confirmIn
}

type pauseIn struct {
	Type string `json:"type"`
	reasonIn
	Minutes float64 `json:"minutes,omitempty" jsonschema:"for so long; left out: until resume_type"`
}

type typeIn struct {
	Type string `json:"type"`
}

type workerIn struct {
	Worker string `json:"worker" jsonschema:"the worker's id, from list_workers"`
}

// operating adds the tools of the role operate.
func (t *tools) operating() {
	add(t, adds, "retry_item", "Queue a dead or cancelled item again.", t.retry)
	add(t, adds, "reschedule_item", "Change a queued item's priority, or when it is due.", t.reschedule)
	add(t, destroys, "cancel_item", "Cancel an item that has not ended; a run under way is told to stop. Two calls: see confirm.", t.cancel)
	add(t, destroys, "purge_item", "Delete an item that has ended, with its history. It can't be undone. Two calls: see confirm.", t.purge)
	add(t, destroys, "change_items", "Retry, cancel or purge all items that match the filters. Two calls: see confirm.", t.many)
	add(t, adds, "pause_type", "Hold the items of a type back; running ones go on, and submissions are accepted.", t.pause)
	add(t, adds, "resume_type", "End the pause of a type.", func(ctx context.Context, in typeIn) (any, error) { return changed(t.c.Types().Resume(ctx, in.Type)) })
	add(t, adds, "reset_circuit", "Close the circuit of a type, so that its items run again at once.", func(ctx context.Context, in typeIn) (any, error) {
		return changed(t.c.Types().ResetCircuit(ctx, in.Type))
	})
	add(t, adds, "drain_worker", "Have a worker finish what it runs, and take no more; it may then stop for good.", func(ctx context.Context, in workerIn) (any, error) {
		return changed(true, t.c.Workers().Drain(ctx, in.Worker))
	})
	add(t, adds, "undrain_worker", "End the drain of a worker.", func(ctx context.Context, in workerIn) (any, error) {
		return changed(t.c.Workers().Undrain(ctx, in.Worker))
	})
}

// changed is the answer of a tool that has done something, or had nothing to do.
func changed(did bool, err error) (any, error) { return map[string]bool{"changed": did}, err }

func (t *tools) retry(ctx context.Context, in retryIn) (any, error) {
	o := streamwright.ReplayOptions{Reason: in.Reason}
	if in.Params != nil {
		o.Params, _ = json.Marshal(in.Params) // it was read as JSON
	}
	state, err := t.c.Replay(ctx, in.ID, o)
	return map[string]any{"id": in.ID, "state": state}, err
}

func (t *tools) reschedule(ctx context.Context, in rescheduleIn) (any, error) {
	o := streamwright.RescheduleOptions{Now: in.Now, Delay: time.Duration(in.DelaySeconds * float64(time.Second)), Priority: priority(in.Priority)}
	if err := t.c.Reschedule(ctx, in.ID, o); err != nil {
		return nil, err
	}
	it, err := t.c.Get(ctx, in.ID)
	if err != nil {
		return changed(true, nil) // done, all the same
	}
	return briefOf(it), nil
}

// one is a tool that acts on one item in two calls.
func (t *tools) one(ctx context.Context, tool string, in oneIn, would string, do func() (any, error)) (any, error) {
	token := in.Confirm
	in.Confirm = ""
	call := callOf(tool, in)
	if token == "" {
		it, err := t.c.Get(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return t.confirm.propose(call, fmt.Sprintf(would, in.ID), briefOf(it)), nil
	}
	if err := t.confirm.use(token, call); err != nil {
		return nil, err
	}
	return do()
}

func (t *tools) cancel(ctx context.Context, in oneIn) (any, error) {
	return t.one(ctx, "cancel_item", in, "cancel item %s", func() (any, error) {
		state, was, err := t.c.Cancel(ctx, in.ID, in.Reason)
		return map[string]any{"id": in.ID, "state": state, "was_running": was}, err
	})
}

func (t *tools) purge(ctx context.Context, in oneIn) (any, error) {
	return t.one(ctx, "purge_item", in, "delete item %s and its history for good", func() (any, error) { return changed(true, t.c.Purge(ctx, in.ID, in.Reason)) })
}

// many acts on a selection in two calls. What matches may change between them.
func (t *tools) many(ctx context.Context, in manyIn) (any, error) {
	actions := map[string]string{"retry": wire.BulkReplay, "cancel": wire.BulkCancel, "purge": wire.BulkPurge}
	action := actions[in.Action]
	if action == "" {
		return nil, fmt.Errorf("action is %q: use retry, cancel or purge", in.Action)
	}
	sel, err := in.selection()
	if err != nil {
		return nil, err
	}
	if !sel.Narrow() {
		return nil, fmt.Errorf("the filters name nothing but a state: say which items are meant, by type for instance")
	}
	token := in.Confirm
	in.Confirm = ""
	b, call := streamwright.Bulk{Action: action, Select: sel, Reason: in.Reason}, callOf("change_items", in)
	if token != "" {
		if err := t.confirm.use(token, call); err != nil {
			return nil, err
		}
		did, err := t.c.Bulk(ctx, b, nil)
		if err != nil {
			err = fmt.Errorf("%d items were changed before this ended it: %w", did.Changed, err)
		}
		return did, err
	}
	b.DryRun = true
	meant, err := t.c.Bulk(ctx, b, nil)
	if err != nil || meant.Matched == 0 {
		return map[string]int{"matched": 0}, err
	}
	return t.confirm.propose(call, fmt.Sprintf("%s %d items", in.Action, meant.Matched), map[string]any{"types": meant.Types, "sample": meant.Sample}), nil
}

func (t *tools) pause(ctx context.Context, in pauseIn) (any, error) {
	return changed(t.c.Types().Pause(ctx, in.Type, streamwright.PauseOptions{Reason: in.Reason, By: by, For: time.Duration(in.Minutes * float64(time.Minute))}))
}
