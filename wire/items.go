package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Position is an opaque place in the log. A query that carries the position of an
// earlier reply as min_position sees at least what that reply reported.
type Position string

// Submit asks for a new item.
type Submit struct {
	Type           string            `json:"type"`
	Params         json.RawMessage   `json:"params,omitempty"`
	ID             string            `json:"id,omitempty"`
	Priority       *Priority         `json:"priority,omitempty"`
	DedupKey       string            `json:"dedup_key,omitempty"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
	AvailableAt    time.Time         `json:"available_at,omitzero"`
	Delay          events.Duration   `json:"delay_ms,omitzero"`
	MaxAttempts    int               `json:"max_attempts,omitempty" strict:"positive"`
	Timeout        events.Duration   `json:"timeout_ms,omitzero" strict:"positive"`
	Capabilities   []string          `json:"capabilities,omitempty"`
	Source         string            `json:"source,omitempty"`
	Trigger        string            `json:"trigger,omitempty"`
	Tenant         string            `json:"tenant,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Trace          string            `json:"traceparent,omitempty"`
	// Namespace is another namespace that the item is handed to, and which must accept that;
	// in a request to submit alone. Empty: the one that is asked.
	Namespace string `json:"namespace,omitempty"`
	// Signal goes to the item, or to the one that this repeats or is merged into: it starts an item
	// or wakes one, in one decision. Not of a child, and not with Namespace.
	Signal *FirstSignal `json:"signal,omitempty"`
	SubmitOptions
}

// FirstSignal is a signal that comes with a submission.
type FirstSignal struct {
	Name    string          `json:"name"`              // 1 to 256 bytes
	Payload json.RawMessage `json:"payload,omitempty"` // at most 64 KiB
	MsgID   string          `json:"msg_id"`            // a signal with the id of one that has come is that one: the submission may be repeated
}

// Submitted answers a Submit. In the answer to an array, an element that was
// refused has only Error.
type Submitted struct {
	ID         string           `json:"id,omitempty"`
	State      events.ItemState `json:"state,omitempty"`
	MergedInto string           `json:"merged_into,omitempty"`
	// Raised: the item that it was merged into had a lower priority, and has taken this
	// one's. NotRaised is the state in which that item keeps its lower priority.
	Raised    bool             `json:"raised,omitempty"`
	NotRaised events.ItemState `json:"not_raised,omitzero"`
	Repeat    bool             `json:"repeat,omitempty"` // it was already there
	// ContentDiffers: the first submission with this idempotency key had other content.
	// That one counts.
	ContentDiffers bool     `json:"content_differs,omitempty"`
	Position       Position `json:"position,omitempty"`
	// Namespace is the one that the item was handed to, and then has no position here.
	Namespace string `json:"namespace,omitempty"`
	Error     *Error `json:"error,omitempty"`
}

// Error is a refused request.
type Error struct {
	Code       events.Code     `json:"code"`
	Message    string          `json:"message"`
	RetryAfter events.Duration `json:"retry_after_ms,omitzero"`
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Err turns the reply's error into an *events.Error; nil stays nil.
func (e *Error) Err() error {
	if e == nil {
		return nil
	}
	return &events.Error{Code: e.Code, Message: e.Message, RetryAfter: e.RetryAfter.Duration}
}

// ErrorReply is the body of a refused request.
type ErrorReply struct {
	Error *Error `json:"error"`
}

// Refusal returns the *events.Error that the body of a reply carries, or nil. An
// error reply is an object with nothing but "error": an item has a field of that
// name too.
func Refusal(reply []byte) error {
	if body := bytes.TrimLeft(reply, " \t\r\n"); !bytes.HasPrefix(body, []byte(`{"error"`)) {
		return nil
	}
	var all map[string]json.RawMessage
	var e Error
	if json.Unmarshal(reply, &all) == nil && len(all) == 1 && json.Unmarshal(all["error"], &e) == nil && e.Code != "" {
		return e.Err()
	}
	return nil
}

// Item is a work item as queries show it.
type Item struct {
	ID               string             `json:"id"`
	Type             string             `json:"type"`
	State            events.ItemState   `json:"state"`
	Priority         int                `json:"priority"`
	Params           json.RawMessage    `json:"params,omitempty"`
	Attempt          int                `json:"attempt"`
	MaxAttempts      int                `json:"max_attempts"`           // the limit that applied to the last failure, attempts_spared counted in
	OwnAttempts      bool               `json:"own_attempts,omitempty"` // its submission or replay chose max_attempts
	Timeout          events.Duration    `json:"timeout_ms"`             // of the next or current attempt
	OwnTimeout       bool               `json:"own_timeout,omitempty"`  // its submission chose timeout_ms
	Worker           string             `json:"worker,omitempty"`
	DedupKey         string             `json:"dedup_key,omitempty"`
	IdempotencyKey   string             `json:"idempotency_key,omitempty"`
	Capabilities     []string           `json:"capabilities,omitempty"`
	Tenant           string             `json:"tenant,omitempty"`
	Labels           map[string]string  `json:"labels,omitempty"`
	Provenance       events.Provenance  `json:"provenance,omitzero"`
	MergedProvenance []MergedProvenance `json:"merged_provenance,omitempty"`
	MergedCount      int                `json:"merged_count,omitempty"`
	MergedInto       string             `json:"merged_into,omitempty"`
	IntakeSeq        uint64             `json:"intake_seq,omitempty"`
	AvailableAt      time.Time          `json:"available_at,omitzero"`
	CreatedAt        time.Time          `json:"created_at"`
	QueuedAt         time.Time          `json:"queued_at,omitzero"`
	ClaimedAt        time.Time          `json:"claimed_at,omitzero"`
	StartedAt        time.Time          `json:"started_at,omitzero"`
	Deadline         time.Time          `json:"deadline,omitzero"`
	FinishedAt       time.Time          `json:"finished_at,omitzero"`
	Result           json.RawMessage    `json:"result,omitempty"`
	Error            *ItemError         `json:"error,omitempty"`
	Reason           string             `json:"reason,omitempty"`
	Cause            string             `json:"cause,omitempty"` // of a dead one: see Cause
	Position         Position           `json:"position"`        // of the last event that touched it
	AsOf             *PastPosition      `json:"as_of,omitempty"` // shown as it was then
	Notes            []string           `json:"notes,omitempty"` // what can't be shown, and why
	ItemFlow
}

// MergedProvenance is one submission that was merged into an item.
type MergedProvenance struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
	events.Provenance
}

// ItemError is an item's last failure.
type ItemError struct {
	Message   string `json:"message"`
	Code      string `json:"code"`
	Retryable bool   `json:"retryable"`
}

// Get asks for one item, by id or by the intake sequence that the JetStream
// ack of a plain publish gave.
type Get struct {
	ID        string `json:"id,omitempty"`
	IntakeSeq uint64 `json:"intake_seq,omitempty"`
	// AtPosition or AtTime asks for the item as it was then, from its own history.
	AtPosition  Position  `json:"at_position,omitempty"`
	AtTime      time.Time `json:"at_time,omitzero"`
	MinPosition Position  `json:"min_position,omitempty"`
}

// List asks for a page of items, newest state change first. An item must match all
// of the filters.
//
// Error finds items by the words of their last failure's message and code; all of
// them must occur, in any order, and the last may be the beginning of a word. A
// word is a run of letters and digits of 2 bytes or more, in upper or lower case;
// only the first 40 bytes of a longer one count. The first 24 different words of an
// item are known, beginning with those of its code; the first 8 of a query count.
//
// Q finds what a person types: the item with that id; else the items whose type,
// tenant, dedup key or a label's value equals it, and those that Error would find.
type List struct {
	State         string    `json:"state,omitempty"`                   // only in this state: queued, waiting, claimed, running, completed, failed, dead, cancelled, merged
	Type          string    `json:"type,omitempty"`                    // only of this type
	Tenant        string    `json:"tenant,omitempty"`                  // only of this tenant
	Label         string    `json:"label,omitempty"`                   // only with this label: name=value
	Worker        string    `json:"worker,omitempty"`                  // only items that this worker holds now: claimed or running
	Schedule      string    `json:"schedule,omitempty"`                // only items that this schedule has made
	Batch         string    `json:"batch,omitempty"`                   // only items of this batch, or spawned by this item
	WaitsFor      string    `json:"waits_for,omitempty"`               // only items that wait for the signal of this name
	Reason        string    `json:"reason,omitempty"`                  // only items that are in their state for this reason
	Code          string    `json:"code,omitempty"`                    // only those whose last failure has this code
	Error         string    `json:"error,omitempty"`                   // only those whose last failure has all these words, in any order; the last may be the beginning of one
	Q             string    `json:"q,omitempty"`                       // an item's id; else a type, tenant, dedup key or label's value, or words of the last failure
	CreatedAfter  time.Time `json:"created_after,omitzero"`            // only those created after this time
	CreatedBefore time.Time `json:"created_before,omitzero"`           // only those created before this time
	Limit         int       `json:"limit,omitempty" strict:"positive"` // how many at most: 1 to 1,000, 50 if left out
	Cursor        string    `json:"cursor,omitempty"`                  // the next_cursor of the page before
	MinPosition   Position  `json:"min_position,omitempty"`
}

// Listed is a page. Items come without params and result. A page may be
// shorter than the limit, even empty, and still have a NextCursor: a page
// reads a bounded number of entries. No NextCursor: the end.
type Listed struct {
	Items      []Item `json:"items"`
	NextCursor string `json:"next_cursor,omitempty"`
	// Stale says why the page may lack items: the node that answers is cut off from the others,
	// or behind them; empty: it has all.
	Stale string `json:"stale,omitempty"`
}

// staleRetry is when to ask a node again that may lack something.
const staleRetry = time.Second

// StaleError returns the error of a reply in which something is not there (what says what)
// because the node that answers may lack it: stale says why, as in [Listed]. It is nil
// where stale is empty.
func StaleError(what, stale string) error {
	if stale == "" {
		return nil
	}
	return &events.Error{Code: events.CodeUnavailable, RetryAfter: staleRetry, Message: fmt.Sprintf("%s %s: ask another node, or again", what, stale)}
}

// History asks for the events of an item.
type History struct {
	ID          string   `json:"id"`
	MinPosition Position `json:"min_position,omitempty"`
}

// HistoryReply holds an item's events, oldest first.
type HistoryReply struct {
	Events []HistoryEvent `json:"events"`
	Totals StateDurations `json:"totals"`
}

// HistoryEvent is one event as queries and tails show it.
type HistoryEvent struct {
	Seq     events.Seq      `json:"seq"`
	Kind    events.Kind     `json:"kind"`
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type,omitempty"`
	At      time.Time       `json:"at"`
	Attempt int             `json:"attempt,omitempty"`
	Worker  string          `json:"worker,omitempty"`
	By      string          `json:"by,omitempty"` // who asked for it, as the access layer knew
	Data    json.RawMessage `json:"data,omitempty"`
	// The time spent in the state that the event ends; in histories only.
	*StateDurations
}

// Cancel stops an item from running, or from running on.
type Cancel struct {
	ID     string `json:"id"`
	Reason string `json:"reason,omitempty"` // why; it is kept with the item
}

// Cancelled answers a Cancel. WorkerTold says that a registered worker was
// running it and was sent the cancel at once; a worker that missed it hears of
// it with its next heartbeat or report.
type Cancelled struct {
	ID         string           `json:"id"`
	State      events.ItemState `json:"state"`
	WasRunning bool             `json:"was_running"`
	WorkerTold bool             `json:"worker_told"`
	Position   Position         `json:"position"`
}

// Reschedule changes a queued item's order.
type Reschedule struct {
	ID          string          `json:"id"`
	Priority    *Priority       `json:"priority,omitempty"`
	AvailableAt time.Time       `json:"available_at,omitzero"`
	Delay       events.Duration `json:"delay_ms,omitzero" strict:"positive"`
	Now         bool            `json:"now,omitempty"`
}

// Rescheduled answers a Reschedule.
type Rescheduled struct {
	ID       string           `json:"id"`
	State    events.ItemState `json:"state"`
	Position Position         `json:"position"`
}

// MaxWaitIDs bounds the items of a Wait.
const MaxWaitIDs = 1000

// Wait asks for items once all of them have ended, or with Any one of them, or for what is
// known after Timeout. An item has ended when it is completed, dead or cancelled; for one
// that was merged into another, that other one counts.
type Wait struct {
	IDs         []string        `json:"ids"`                                   // 1 to 1,000
	Any         bool            `json:"any,omitempty"`                         // answer once one of them has ended
	Timeout     events.Duration `json:"timeout_ms,omitzero" strict:"positive"` // at most 5 minutes; 30 s if left out
	MinPosition Position        `json:"min_position,omitempty"`
}

// Waited answers a Wait. Ended are the items that have ended, in the order asked, whole up
// to 1 MiB; a note of each of the others says what is left out. Pending are those that have
// not. Merged says into which item one that was asked for was merged, if that has ended; it
// stands in Ended once.
type Waited struct {
	Ended   []Item            `json:"ended"`
	Pending []PendingItem     `json:"pending,omitempty"`
	Merged  map[string]string `json:"merged,omitempty"`
}

// PendingItem is an item that has not ended. MergedInto is the item that is waited for in
// its place, whose state it shows.
type PendingItem struct {
	ID         string           `json:"id"`
	State      events.ItemState `json:"state"`
	MergedInto string           `json:"merged_into,omitempty"`
}

// StatsRequest is the body of stats and types, which ask for nothing else. An empty
// body will do too.
type StatsRequest struct {
	MinPosition Position `json:"min_position,omitempty"`
}

// Logs asks for an item's log records, oldest first.
type Logs struct {
	ID    string `json:"id"`
	Limit int    `json:"limit,omitempty" strict:"positive"` // the last so many, of 4 MiB together; default 1,000, at most 10,000
	// After asks for the first records behind this sequence, in place of the last
	// ones: 0 for those from the beginning.
	After *uint64 `json:"after,omitempty"`
}

// LogsReply is an item's log. More says that there are records behind these,
// if they were asked for by After.
type LogsReply struct {
	Records []LogRecord `json:"records"`
	More    bool        `json:"more,omitempty"`
}

// Bounds of a request for events.
const (
	MaxEvents      = 1000
	MaxEventsBytes = 1 << 20
	MaxEventsWait  = 60 * time.Second
	MaxEventTypes  = 256 // and as many kinds
)

// ReadEvents asks for events of the log, in order, in whole decisions. It begins
// at FromSeq, or with the first event stored at Since or later; with neither,
// behind the end.
type ReadEvents struct {
	FromSeq events.Seq `json:"from_seq,omitempty"`
	Since   time.Time  `json:"since,omitzero"`
	Types   []string   `json:"types,omitempty"`  // only of these types
	Kinds   []string   `json:"kinds,omitempty"`  // only of these kinds
	ID      string     `json:"id,omitempty"`     // only of this item
	Tenant  string     `json:"tenant,omitempty"` // only of items of this tenant
	Label   string     `json:"label,omitempty"`  // only of items with this label: name=value
	// Limit and MaxBytes bound the reply: at most 1,000 events and 1 MiB, which
	// are the defaults. One event is sent in any case.
	Limit    int `json:"limit,omitempty" strict:"positive"`
	MaxBytes int `json:"max_bytes,omitempty" strict:"positive"`
	// Wait is the time to wait for an event if there is none yet; at most a
	// minute.
	Wait events.Duration `json:"wait_ms,omitzero"`
}

// EventsReply answers a ReadEvents.
type EventsReply struct {
	Events  []HistoryEvent `json:"events"`
	NextSeq events.Seq     `json:"next_seq"`       // where to continue
	More    bool           `json:"more,omitempty"` // the reply is at a bound: ask again at once
	Gap     *EventsGap     `json:"gap,omitempty"`
}

// Audit asks who did what: for the acts that somebody asked for, oldest first.
type Audit struct {
	By     string    `json:"by,omitempty"`                      // only of this token, certificate or user; anyone: where the engine is open
	Action string    `json:"action,omitempty"`                  // only events of this kind, such as cancelled; left out: all but created
	Type   string    `json:"type,omitempty"`                    // only of this type
	Since  time.Time `json:"since,omitzero"`                    // only those stored at this time or later
	Limit  int       `json:"limit,omitempty" strict:"positive"` // how many at most: 1 to 1,000, 50 if left out
	Cursor string    `json:"cursor,omitempty"`                  // the next_cursor of the answer before
}

// AuditReply answers an Audit. It may have fewer acts than the limit, even none, and still
// have a NextCursor: an answer reads a bounded part of the log. No NextCursor: the end. From
// is when the log begins: what was done before is no longer known. It is in answers to
// requests without a cursor.
type AuditReply struct {
	Acts       []HistoryEvent `json:"acts"`
	NextCursor string         `json:"next_cursor,omitempty"`
	From       time.Time      `json:"from,omitzero"`
	FromSeq    events.Seq     `json:"from_seq,omitempty"`
}

// EventsGap says that retention has cut these positions from the log.
type EventsGap struct {
	From events.Seq `json:"from"`
	To   events.Seq `json:"to"`
}

// LogRecord is one line of an item's log. It is also the body of a message on
// the item's log subject.
type LogRecord struct {
	Seq     uint64    `json:"seq,omitempty"`
	At      time.Time `json:"at"`
	Level   string    `json:"level"` // debug, info, warn, error
	Attempt int       `json:"attempt,omitempty"`
	Worker  string    `json:"worker,omitempty"`
	Message string    `json:"message"` // at most 8 KiB
}

// TypesReply lists the types and their settings. Defaults are the settings of a type
// that has none of its own: the built-in ones, overridden by engine.toml.
type TypesReply struct {
	Types    []TypeReply          `json:"types"`
	Stale    string               `json:"stale,omitempty"` // as in [Listed]
	Defaults *events.TypeSettings `json:"defaults,omitempty"`
	// Unset shows the effect of each setting that is left out or 0.
	Unset *events.TypeSettings `json:"unset,omitempty"`
}

// TypeReply is one type.
type TypeReply struct {
	Type     string              `json:"type"`
	Source   string              `json:"source"` // of the settings: default, file, api
	Settings events.TypeSettings `json:"settings"`
	Paused   *events.Pause       `json:"paused,omitempty"`  // nil: it is not
	Circuit  *Circuit            `json:"circuit,omitempty"` // nil: closed, or none exists
	// SetInFile names the settings that engine.toml makes for the type, as it
	// spells them (lease, backoff.max): requests can't change them.
	SetInFile []string `json:"set_in_file,omitempty"`
	// Defaults and Unset as in TypesReply; in replies about one type over HTTP.
	Defaults *events.TypeSettings `json:"defaults,omitempty"`
	Unset    *events.TypeSettings `json:"unset,omitempty"`
}

// FromType is a type as queries show it.
func FromType(t events.TypeInfo) TypeReply {
	return TypeReply{Type: string(t.Type), Source: t.Source, Settings: t.Settings, Paused: t.Paused, Circuit: FromCircuit("", t.Circuit)}
}

// Configure changes some of a type's settings.
type Configure struct {
	Type     string          `json:"type"`
	Settings json.RawMessage `json:"settings"` // the fields of TypeSettings to change
}

// InfoReply describes the engine.
type InfoReply struct {
	Version string `json:"version"`
	Owner   string `json:"owner"` // of the log
	// Node names the engine that answers, and Role says whether it owns the log.
	Node       string    `json:"node"`
	Role       NodeRole  `json:"role"`
	Epoch      uint64    `json:"epoch"` // of the ownership; 0 from a standby
	Durability string    `json:"durability"`
	Position   Position  `json:"position"`
	Projected  Position  `json:"projected"`
	Now        time.Time `json:"now"`
	// FormatLevel is the log's format level, and ReadsLevel the highest that this
	// engine reads.
	FormatLevel int    `json:"format_level,omitempty"`
	ReadsLevel  int    `json:"reads_level,omitempty"`
	DataDir     string `json:"data_dir,omitempty"`
	HTTP        string `json:"http,omitempty"`
	// NATS is the address for other processes (`engine --server`), without
	// passwords; empty: nothing listens. Prefix begins the engine's subjects.
	NATS   string `json:"nats,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	// JetStreamDomain is the domain in which the caller reaches the engine's
	// streams: requests begin with $JS.<domain>.API. It is set if the caller's
	// account is not the engine's.
	JetStreamDomain string `json:"js_domain,omitempty"`
	// Retention is left out while the engine is not the partition's owner.
	Retention *Retention `json:"retention,omitempty"`
	// Refused says why new work is refused for want of room on the engine's disk,
	// and Held why nothing new is begun either; left out while there is room.
	Refused string `json:"refused,omitempty"`
	Held    string `json:"held,omitempty"`
	// Clock is left out while the NATS server's clock is plausible.
	Clock *Clock `json:"clock,omitempty"`
}

// VerifyReply answers verify and rebuild. The engine streams progress replies
// (Done false) before the last.
type VerifyReply struct {
	Done     bool            `json:"done"`
	Events   uint64          `json:"events"` // replayed so far
	Total    uint64          `json:"total"`
	Equal    bool            `json:"equal,omitempty"`
	Digest   string          `json:"digest,omitempty"` // of the store rebuilt from the log
	Live     string          `json:"live,omitempty"`   // of the live store
	Position Position        `json:"position,omitempty"`
	Elapsed  events.Duration `json:"elapsed_ms"`
	Diff     []string        `json:"diff,omitempty"` // the first keys that differ
	Node     string          `json:"node,omitempty"` // whose store it is
}

// Why asks why an item is not running now.
type Why struct {
	ID          string   `json:"id"`
	MinPosition Position `json:"min_position,omitempty"`
}

// WhyReply answers a Why. Reasons come with the most telling one first; an item
// may have several at once.
type WhyReply struct {
	ID       string               `json:"id"`
	Type     string               `json:"type"`
	State    events.ItemState     `json:"state"`
	At       time.Time            `json:"at"` // when this was so
	Reasons  []events.BlockReason `json:"reasons"`
	Position Position             `json:"position,omitempty"`
}

// HolderRequest asks which live item holds a dedup key.
type HolderRequest struct {
	Type        string   `json:"type"`
	Key         string   `json:"key"` // the dedup key
	MinPosition Position `json:"min_position,omitempty"`
}

// Holder is the live item that holds a dedup key. The KV bucket of taken dedup
// keys has it in the same form.
type Holder struct {
	ID    string           `json:"id"`
	State events.ItemState `json:"state"`
}

// DedupBucket is the KV bucket of taken dedup keys; see [Names.Bucket].
const DedupBucket = "dedup"

// DedupPosition is the bucket's entry with the position of the log that it shows.
// No type has this name.
const DedupPosition = "_.position"

// DedupEntry is a dedup key's form in the bucket: the type, a dot, and the key
// in unpadded base64url (RFC 4648 §5), since a dedup key may hold any byte and
// a KV key may not. The shell's
//
//	printf %s KEY | base64 -w0 | tr '+/' '-_' | tr -d =
//
// gives the second part.
func DedupEntry(t events.Type, key string) string {
	return string(t) + "." + base64.RawURLEncoding.EncodeToString([]byte(key))
}

// MaxPlaces is the largest number of items that one QueuePositions may ask about.
const MaxPlaces = 100

// QueuePositions asks where queued items stand. Counting takes time in a deep queue, so
// one request counts a bounded number of items and takes a bounded time: what
// is left over then has no Ahead in the answer.
type QueuePositions struct {
	IDs         []string `json:"ids"` // at most MaxPlaces
	MinPosition Position `json:"min_position,omitempty"`
}

// PlaceReply answers a QueuePositions, in its order.
type PlaceReply struct {
	Places []QueuePosition `json:"places"`
}

// QueuePosition is an item's present place in its queue. Ahead is left out for an item
// that is not queued, or is not due yet; 10,000 means 10,000 or more. EstimatedWait is
// left out where there is nothing to compute it from: no worker, or no recent run of the
// type.
type QueuePosition struct {
	ID            string           `json:"id"`
	Ahead         *int             `json:"ahead,omitempty"`
	EstimatedWait *events.Duration `json:"estimated_wait_ms,omitempty"`
}
