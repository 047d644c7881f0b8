package events

import (
	"encoding/json"
	"time"
)

// Version is the v of nearly all events: the format level that their reader must
// know. Those that say which level the log has (format_raised, and the snapshot that
// begins a round) carry that level. A reader refuses a v above what it knows, and
// ignores fields that it does not know.
const Version = 1

// Event is one thing that has happened. Its place in the log is Seq, which
// follows from its frame, so that the JSON does not repeat it.
type Event struct {
	Seq     Seq
	Kind    Kind
	ID      ID   // zero for events that belong to no item
	Type    Type // empty for events of the partition
	At      time.Time
	Attempt Attempt  // where it applies, else 0
	Worker  WorkerID // where it applies, else empty
	By      string   // who asked for an act, as the access layer knew; see [Kind.Act]
	Body    Body     // a pointer to the payload of the kind; nil for none
}

// Together reports whether e and an event that follows it may be of one decision: they
// are in one frame, and have one time. A moment of the past is never between them.
func (e *Event) Together(next *Event) bool {
	return e.Seq.Frame() == next.Seq.Frame() && e.At.Equal(next.At)
}

// Body is the payload of an event: one of the structs below, by pointer.
type Body interface{ Kind() Kind }

// Provenance says why an item exists.
type Provenance struct {
	Source  string `json:"source,omitempty"`
	Trigger string `json:"trigger,omitempty"`
}

// Intake says which message an event answers, if any: one of the intake stream, or
// one of a site's stream, which has a Site.
type Intake struct {
	Seq     uint64 `json:"intake_seq,omitempty"`
	Site    string `json:"site,omitempty"`
	SiteSeq uint64 `json:"site_seq,omitempty"`
	MsgID   string `json:"msg_id,omitempty"`
	// MsgIDUntil ends the time in which a message of the same type that repeats
	// MsgID makes no second item.
	MsgIDUntil time.Time `json:"msg_id_until,omitzero"`
}

// Created is the payload of created: all that the submitter said, with the
// type's defaults filled in.
type Created struct {
	Params           json.RawMessage   `json:"params"`
	Priority         Priority          `json:"priority"`
	MaxAttempts      Attempt           `json:"max_attempts"`
	Timeout          Duration          `json:"timeout_ms"`
	DedupKey         string            `json:"dedup_key,omitempty"`
	IdempotencyKey   string            `json:"idempotency_key,omitempty"`
	IdempotencyUntil time.Time         `json:"idempotency_until,omitzero"`
	AvailableAt      time.Time         `json:"available_at,omitzero"` // zero: at once
	Delayed          bool              `json:"delayed,omitempty"`     // AvailableAt is a delay from the event, not a moment that somebody named
	Capabilities     []string          `json:"capabilities,omitempty"`
	Tenant           string            `json:"tenant,omitempty"`
	Labels           map[string]string `json:"labels,omitempty"`
	Provenance       Provenance        `json:"provenance,omitzero"`
	Trace            string            `json:"traceparent,omitempty"`
	Digest           string            `json:"digest,omitempty"` // of the submission, when the submitter chose the id
	Intake
	*SubmitOptions // nil: none
}

// Merged is the payload of merged: the event's item has become part of Into.
type Merged struct {
	Into   ID     `json:"into"`
	Reason string `json:"reason"`
	// Raised says that Into, of a lower priority, takes the item's: by the rescheduled
	// event that follows. NotRaised is the state in which it keeps its own.
	Raised    bool      `json:"raised,omitempty"`
	NotRaised ItemState `json:"not_raised,omitzero"`
}

// Queued is the payload of queued. OrderAt is the item's place among the items of
// its type and priority; AvailableAt, if set, is the earliest time at which it may
// run.
type Queued struct {
	Reason      string    `json:"reason"` // submitted, retry, after, continuation, signalled, timed_out
	OrderAt     time.Time `json:"order_at"`
	AvailableAt time.Time `json:"available_at,omitzero"`
	Jitter      Duration  `json:"jitter_ms,omitzero"`  // the part of the wait that was drawn at random
	Timeout     Duration  `json:"timeout_ms,omitzero"` // of the attempts from here on; 0: as it was
	// Outcomes tell the continuation how the children ended: an array of
	// [Outcome].
	Outcomes json.RawMessage `json:"outcomes,omitempty"`
	// Signals are the numbers of those that the item's wait, which has ended, has taken.
	Signals []int `json:"signals,omitempty"`
}

// Claimed is the payload of claimed. The item goes back to the queue if it has
// not started by StartBy.
type Claimed struct {
	Token   Token     `json:"token"`
	StartBy time.Time `json:"start_by,omitzero"`
	// Probe says that the run tries the half-open circuit of its type,
	// WorkerProbe that it tries its worker's.
	Probe       bool `json:"probe,omitempty"`
	WorkerProbe bool `json:"worker_probe,omitempty"`
	// Rates are the limits at dispatch that the run counts against.
	Rates []RateTaken `json:"rates,omitempty"`
	// DeliveredAt is the time when an ack worker was given it, if the server has said
	// so: the claim itself is recorded when the run is first known of.
	DeliveredAt time.Time `json:"delivered_at,omitzero"`
}

// Running is the payload of running. The attempt times out at Deadline.
type Running struct {
	Deadline time.Time `json:"deadline,omitzero"`
}

// Completed is the payload of completed.
type Completed struct {
	Duration Duration        `json:"duration_ms"`
	Result   json.RawMessage `json:"result,omitempty"`
	Unread   int             `json:"unread_signals,omitempty"` // signals that no run has used up
	TimedOut bool            `json:"timed_out,omitempty"`      // it is the deadline of its wait that has completed it
}

// Failed is the payload of failed.
type Failed struct {
	Error     string   `json:"error"`
	Code      string   `json:"code"`
	Retryable bool     `json:"retryable"` // another attempt makes sense, by the report and by the code's policy
	Duration  Duration `json:"duration_ms"`
	// MaxAttempts is the limit that applied, at least the attempt that failed.
	MaxAttempts Attempt `json:"max_attempts"`
	// Spared says that the worker was lost early in the attempt, which therefore
	// raises the limit by one; MaxAttempts counts it in.
	Spared bool `json:"spared,omitempty"`
}

// Dead is the payload of dead.
type Dead struct {
	Reason   string  `json:"reason"` // exhausted, not_retryable, poisoned, child_dead, children_not_made, upstream_dead, upstream_cancelled, upstream_failed
	Attempts Attempt `json:"attempts"`
	Error    string  `json:"error,omitempty"`
	Code     string  `json:"code,omitempty"`
	By       ID      `json:"by,omitzero"`     // the child or the item waited for that it is dead of
	Cause    string  `json:"cause,omitempty"` // see [policy.CauseOf]
}

// Cancelled is the payload of cancelled.
type Cancelled struct {
	Reason     string `json:"reason"`
	WasRunning bool   `json:"was_running,omitempty"`
	By         ID     `json:"by,omitzero"` // the item because of which, if any
}

// Released is the payload of released: the item is back in the queue, in its
// old place, with no attempt used.
type Released struct {
	Reason string `json:"reason"` // released, not_started, shutdown
}

// Rescheduled is the payload of rescheduled: what of a waiting item's order has
// changed, in full. By is the item that was merged into it and raised its priority,
// if it wasn't an operator. Delayed is as in [Created]. Limit is the new StartBy of a
// claimed item, or the new Deadline of a running one: after the clock was set back.
type Rescheduled struct {
	Priority    Priority  `json:"priority"`
	OrderAt     time.Time `json:"order_at"`
	AvailableAt time.Time `json:"available_at,omitzero"`
	Delayed     bool      `json:"delayed,omitempty"`
	Limit       time.Time `json:"limit,omitzero"`
	By          ID        `json:"by,omitzero"`
}

// Rejected is the payload of rejected: a submission that became no item.
// Text holds the original bytes when they are valid UTF-8, Bytes otherwise.
type Rejected struct {
	Code      string              `json:"code"`
	Message   string              `json:"message"`
	Subject   string              `json:"subject,omitempty"`
	Headers   map[string][]string `json:"headers,omitempty"`
	Text      string              `json:"text,omitempty"`
	Bytes     []byte              `json:"bytes,omitempty"`
	Size      int                 `json:"size"`
	Truncated bool                `json:"truncated,omitempty"`
	Of        ID                  `json:"of,omitzero"` // the item that a duplicate repeats
	Intake
}

// Owned is the payload of owned: from here on, only events of this epoch's
// owner may follow, until the next owned.
type Owned struct {
	Epoch   Epoch  `json:"epoch"`
	Owner   string `json:"owner"`
	Version string `json:"version,omitempty"`
	// Barrier is set when the same owner appends it to settle an append
	// whose outcome it does not know.
	Barrier bool `json:"barrier,omitempty"`
	// Clock is set when an operator has confirmed the server's clock: this event's
	// time may lie before the times of earlier events.
	Clock *ClockAccepted `json:"clock,omitempty"`
}

// TypeConfigured is the payload of type_configured: the settings of the
// event's type from here on, in full.
type TypeConfigured struct {
	Source   string       `json:"source"` // file, api
	Settings TypeSettings `json:"settings"`
}

func (*Created) Kind() Kind        { return KindCreated }
func (*Merged) Kind() Kind         { return KindMerged }
func (*Queued) Kind() Kind         { return KindQueued }
func (*Claimed) Kind() Kind        { return KindClaimed }
func (*Running) Kind() Kind        { return KindRunning }
func (*Completed) Kind() Kind      { return KindCompleted }
func (*Failed) Kind() Kind         { return KindFailed }
func (*Dead) Kind() Kind           { return KindDead }
func (*Cancelled) Kind() Kind      { return KindCancelled }
func (*Released) Kind() Kind       { return KindReleased }
func (*Rescheduled) Kind() Kind    { return KindRescheduled }
func (*Rejected) Kind() Kind       { return KindRejected }
func (*Owned) Kind() Kind          { return KindOwned }
func (*TypeConfigured) Kind() Kind { return KindTypeConfigured }

// ClockAccepted is part of the payload of owned: an operator has confirmed the
// server's clock. Time continues from this event's, which may lie before the times
// of earlier events. From is the log's last time before.
type ClockAccepted struct {
	From time.Time `json:"from"`
	By   string    `json:"by,omitempty"`
}
