package streamwright

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/quickjson"
	"github.com/streamwright/streamwright/wire"
)

// Item is one piece of work to submit. Only Type must be set.
type Item struct {
	Type     string // a-z and 0-9 with single - or _ between them, at most 63 bytes
	Params   any    // what to do, as JSON; a json.RawMessage is sent as it is; nil is null
	ID       string // a ULID; empty: the client chooses one
	Priority int    // orders the items of a type: 1 to 9, higher first; 0: the default, 5; [Lowest]: below 1
	// DedupKey merges the item into another of its type that has the same key
	// and is not finished.
	DedupKey string
	// IdempotencyKey answers a repeat within 24 hours with the first item,
	// finished or not.
	IdempotencyKey string
	Delay          time.Duration // available so long after it was decided; rounded up to ms
	AvailableAt    time.Time     // available from then on, at most ten years ahead; not with Delay
	MaxAttempts    int           // 0: the type's
	Timeout        time.Duration // of one attempt; rounded up to ms; 0: the type's
	Capabilities   []string      // that a worker must have
	Source         string        // who asked
	Trigger        string        // and why
	Tenant         string
	Labels         map[string]string
	Trace          string // W3C traceparent

	// After are the ids of items that must have ended first, at most 1,000; the
	// item is waiting until then. AfterPolicy says what becomes of it if one of
	// them ends dead or cancelled; empty: AfterCancel.
	After       []string
	AfterPolicy AfterPolicy
	// DedupPolicy decides what happens if the DedupKey is taken, and
	// DedupWindow how long the key stays taken once it has completed (up to
	// 30 days, rounded up to ms; [NoWindow]: not at all). Empty and 0: the type's,
	// which by default are DedupMerge and none.
	DedupPolicy DedupPolicy
	DedupWindow time.Duration
	ExpiresAt   time.Time // cancelled, as expired, if it has not started by then

	// Batch is the id of the batch that it belongs to: see [Batches.Open].
	Batch string
	// Namespace is another namespace that the item is handed to, which must accept that; in
	// [Client.Submit] and its like alone. It can't have After or Batch, and its params must go
	// with it. Repeat it with the same ID: the other namespace recognises that.
	Namespace string
	// Signal goes to the item, or to the one that this repeats or is merged into: it starts an item
	// or wakes one, in one decision, and refuses the submission where no signal reaches that one
	// (CodeEnded, CodeMailboxFull). Not with Namespace, and not of a plain publish.
	Signal *Signal
	// EstimatedDuration is the likely duration of a run, at most 30 days, rounded up
	// to ms. The estimated waits of the items behind it use it. It bounds nothing. 0:
	// the mean of the type's runs.
	EstimatedDuration time.Duration
}

const (
	// Lowest is the priority below 1, for [Item].Priority and its like. The engine shows
	// it as 0.
	Lowest = -1
	// NoWindow is the [Item].DedupWindow of an item whose key is free once it has
	// completed, whatever its type says.
	NoWindow time.Duration = -1
)

// priority returns a priority as requests have it, nil for one that is not set.
func priority(p int) *wire.Priority {
	switch p {
	case 0:
		return nil
	case Lowest:
		p = 0
	}
	return new(wire.Priority(p))
}

// PriorityOf returns what [Item].Priority and its like say for a priority as the engine
// shows it, 0 to 9: [Lowest] for 0. A negative one stays out of range.
func PriorityOf(shown int) int {
	if shown <= 0 {
		return shown - 1
	}
	return shown
}

// Submission returns the item as it goes over the wire, for programs that don't send
// it with a [Client]. It is encoded, but not checked against the engine's bounds:
// command.OfSubmit of wire/command does that. The error is an *[Error].
func (it *Item) Submission() (wire.Submit, error) {
	params, err := encodeParams(it.Params)
	if err != nil {
		return wire.Submit{}, err
	}
	if it.Delay < 0 || it.Timeout < 0 {
		return wire.Submit{}, events.Refuse(events.CodeBadTime, "delay and timeout must not be negative (they are %v and %v)", it.Delay, it.Timeout)
	}
	first, err := it.Signal.first()
	if err != nil {
		return wire.Submit{}, err
	}
	terms, err := it.terms()
	return wire.Submit{
		Type: it.Type, Params: params, ID: it.ID, Priority: priority(it.Priority), DedupKey: it.DedupKey,
		IdempotencyKey: it.IdempotencyKey, AvailableAt: it.AvailableAt, Delay: events.DurationOf(it.Delay),
		MaxAttempts: it.MaxAttempts, Timeout: events.DurationOf(it.Timeout), Capabilities: it.Capabilities,
		Source: it.Source, Trigger: it.Trigger, Tenant: it.Tenant, Labels: it.Labels, Trace: it.Trace, Namespace: it.Namespace, Signal: first, SubmitOptions: terms,
	}, err
}

func (it *Item) terms() (wire.SubmitOptions, error) {
	t := wire.SubmitOptions{After: it.After, AfterPolicy: it.AfterPolicy, DedupPolicy: it.DedupPolicy, ExpiresAt: it.ExpiresAt, Batch: it.Batch}
	if it.EstimatedDuration < 0 {
		return t, events.Refuse(events.CodeBadTime, "the estimated duration must not be negative (it is %v)", it.EstimatedDuration)
	}
	t.EstimatedDuration = events.DurationOf(it.EstimatedDuration)
	switch w := it.DedupWindow; {
	case w == NoWindow:
		t.DedupWindow = new(events.Duration)
	case w < 0:
		return t, events.Refuse(events.CodeBadTime, "the dedup window must not be negative (it is %v): use NoWindow for none", w)
	case w > 0:
		t.DedupWindow = new(events.DurationOf(w))
	}
	return t, nil
}

func encodeParams(params any) (json.RawMessage, error) {
	return encodeDocument("params", "are", params)
}

// encodeDocument writes a document as JSON, a json.RawMessage as it is; nil is none. Errors
// call it what, a noun with its verb.
func encodeDocument(what, verb string, v any) (json.RawMessage, error) {
	switch p := v.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		if quickjson.Scan(p) != len(p) && !json.Valid(p) {
			return nil, events.Refuse(events.CodeBadParams, "%s %s no JSON document: a text must be in double quotes", what, verb)
		}
		return p, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, events.Refuse(events.CodeBadParams, "%s can't be written as JSON: %v", what, err)
	}
	return b, nil
}

// Params reads an item's params into a T. For params in the object store see
// [Client.Params].
func Params[T any](item WorkItem) (T, error) {
	var v T
	if len(item.Params) == 0 {
		return v, nil
	}
	if blobs.IsRef(item.Params) {
		return v, fmt.Errorf("the params of item %s are in the object store: get them with Client.Params", item.ID)
	}
	if err := json.Unmarshal(item.Params, &v); err != nil {
		return v, fmt.Errorf("read the params of item %s: %w", item.ID, err)
	}
	return v, nil
}

// Result reads the result of a completed item into a T; an item that completed
// without one gives the zero T. For any other item the error is an
// [*OutcomeError].
func Result[T any](item WorkItem) (T, error) {
	var v T
	if item.State != events.StateCompleted {
		return v, &OutcomeError{Item: item}
	}
	if len(item.Result) == 0 {
		return v, nil
	}
	if blobs.IsRef(item.Result) {
		return v, fmt.Errorf("the result of item %s is in the object store: get it with Client.Result", item.ID)
	}
	if err := json.Unmarshal(item.Result, &v); err != nil {
		return v, fmt.Errorf("read the result of item %s: %w", item.ID, err)
	}
	return v, nil
}

// OutcomeError says that an item has not completed: it is dead, cancelled, or
// not finished.
type OutcomeError struct{ Item WorkItem }

func (e *OutcomeError) Error() string {
	text := fmt.Sprintf("item %s is %s", e.Item.ID, e.Item.State)
	switch {
	case e.Item.Error != nil:
		first, _, _ := strings.Cut(e.Item.Error.Message, "\n") // what follows is a stack, say
		return fmt.Sprintf("%s after %s: %s (%s)", text, events.Count(e.Item.Attempt, "attempt"), first, e.Item.Error.Code)
	case e.Item.Reason != "":
		return text + ": " + e.Item.Reason
	case !e.Item.State.Terminal():
		return text + ", not finished: wait for it first"
	}
	return text
}
