package wire

import (
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Selection says which items are meant, and which page of them. Since and Until
// are about when they ended, both ends included. Cause is of dead items alone;
// see [Cause].
type Selection struct {
	List
	Cause string    `json:"cause,omitempty"` // only items that died of this cause
	Since time.Time `json:"since,omitzero"`  // only items that ended at this time or later
	Until time.Time `json:"until,omitzero"`  // only items that ended at this time or before
}

// Narrow reports whether a selection says more than a state.
func (s *Selection) Narrow() bool {
	return s.Type != "" || s.Tenant != "" || s.Label != "" || s.Worker != "" || s.Schedule != "" || s.Batch != "" || s.WaitsFor != "" || s.Reason != "" || s.Code != "" || s.Cause != "" || s.Error != "" || s.Q != "" ||
		!s.CreatedAfter.IsZero() || !s.CreatedBefore.IsZero() || !s.Since.IsZero() || !s.Until.IsZero()
}

// CausesQuery asks what items have died of.
type CausesQuery struct {
	Type        string   `json:"type,omitempty"`                    // only of this type
	Reason      string   `json:"reason,omitempty"`                  // only of this reason
	Code        string   `json:"code,omitempty"`                    // only of this code
	Sort        string   `json:"sort,omitempty"`                    // last (if left out), first, count or dead; the highest first
	All         bool     `json:"all,omitempty"`                     // include resolved causes: no item of theirs is dead now
	Limit       int      `json:"limit,omitempty" strict:"positive"` // how many at most
	MinPosition Position `json:"min_position,omitempty"`
}

// CausesReply lists causes. Total counts them without the limit.
type CausesReply struct {
	Causes []Cause `json:"causes"`
	Total  int     `json:"total"`
	Stale  string  `json:"stale,omitempty"` // as in [Listed]
}

// Cause groups dead items of one type, reason and code whose error texts differ
// only in numbers, ids, paths and quoted texts. "other-<type>" gathers the deaths
// of a type that has too many causes to keep apart.
type Cause struct {
	Cause   string    `json:"cause"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Code    string    `json:"code,omitempty"`
	Error   string    `json:"error,omitempty"` // of the example, at most 512 bytes
	Count   int64     `json:"count"`           // deaths, in all
	Dead    int64     `json:"dead"`            // items that are dead of it now
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Example string    `json:"example"` // the item that died of it last
}

// FromCause is a cause as queries show it.
func FromCause(key string, c events.Cause) Cause {
	return Cause{Cause: key, Type: string(c.Type), Reason: c.Reason, Code: c.Code, Error: c.Error, Count: c.Count, Dead: c.Dead,
		First: c.First, Last: c.Last, Example: c.Example.String()}
}

// Replay queues a dead or cancelled item again. Fields that are left out stay as
// they were; MaxAttempts counts further attempts, by default as many as the item's
// submission or last replay chose, else as its type has. Params replace the item's; Patch is a JSON merge patch (RFC 7396) applied to them. At most one of
// the two may be given.
type Replay struct {
	ID          string          `json:"id"`
	Params      json.RawMessage `json:"params,omitempty"`
	Patch       json.RawMessage `json:"patch,omitempty"`
	Priority    *Priority       `json:"priority,omitempty"`
	MaxAttempts int             `json:"max_attempts,omitempty" strict:"positive"`
	Reason      string          `json:"reason,omitempty"`
}

// ReplayReply answers a Replay, and a Purge, which leaves no state.
type ReplayReply struct {
	ID       string           `json:"id"`
	State    events.ItemState `json:"state,omitempty"`
	Position Position         `json:"position"`
}

// Purge forgets an item that has ended.
type Purge struct {
	ID     string `json:"id"`
	Reason string `json:"reason,omitempty"` // why; the event records it
}

// The actions of a Bulk.
const (
	BulkReplay     = "replay"
	BulkPurge      = "purge"
	BulkCancel     = "cancel"
	BulkReschedule = "reschedule"
)

// Bulk does one thing to a page of the items of a selection: at most the
// selection's Limit, 1,000 by default and at most. Items in a state that does not
// allow the action are skipped. Go on with the reply's NextCursor.
type Bulk struct {
	Action string    `json:"action"`
	Select Selection `json:"select"`
	All    bool      `json:"all,omitempty"`     // the selection may name nothing but a state
	DryRun bool      `json:"dry_run,omitempty"` // only return what would change

	Params      json.RawMessage `json:"params,omitempty"`                         // replay: the same for all of them
	Patch       json.RawMessage `json:"patch,omitempty"`                          // replay: a JSON merge patch, applied to each item's own params
	MaxAttempts int             `json:"max_attempts,omitempty" strict:"positive"` // replay
	Priority    *Priority       `json:"priority,omitempty"`                       // replay, reschedule
	Now         bool            `json:"now,omitempty"`                            // reschedule
	Delay       events.Duration `json:"delay_ms,omitzero" strict:"positive"`      // reschedule
	AvailableAt time.Time       `json:"available_at,omitzero"`                    // reschedule
	Reason      string          `json:"reason,omitempty"`                         // replay, purge, cancel
}

// BulkReply answers a Bulk. Errors holds the errors of the first few items that
// failed, Sample the ids of the first few that matched.
type BulkReply struct {
	Matched    int         `json:"matched"`
	Changed    int         `json:"changed"`
	Failed     int         `json:"failed"`
	Errors     []BulkError `json:"errors,omitempty"`
	NextCursor string      `json:"next_cursor,omitempty"`
	Position   Position    `json:"position,omitempty"`

	Types  map[string]int `json:"types,omitempty"` // matched items of each type
	Sample []string       `json:"sample,omitempty"`
}

// BulkError is an item to which a bulk's action could not be done.
type BulkError struct {
	ID    string `json:"id"`
	Error *Error `json:"error"`
}

// UnknownAction returns the refusal of a Bulk whose Action is none of the four.
func (b *Bulk) UnknownAction() error {
	return events.Refuse(events.CodeBadRequest, "unknown action %q: use replay, purge, cancel or reschedule", events.Clip(b.Action, maxQuoted))
}

// ListRejected asks for a page of rejected submissions, newest first.
type ListRejected struct {
	Type        string   `json:"type,omitempty"`                    // only of this type
	Code        string   `json:"code,omitempty"`                    // only with this code
	Limit       int      `json:"limit,omitempty" strict:"positive"` // how many at most: 1 to 1,000, 50 if left out
	Cursor      string   `json:"cursor,omitempty"`                  // the next_cursor of the page before
	MinPosition Position `json:"min_position,omitempty"`
}

// RejectedListed is a page of rejected submissions, without their originals.
type RejectedListed struct {
	Rejected   []Rejected `json:"rejected"`
	NextCursor string     `json:"next_cursor,omitempty"`
	Stale      string     `json:"stale,omitempty"` // as in [Listed]
}

// Rejected is a submission that became no item. Text has its original body, or
// Bytes, if that is no text.
type Rejected struct {
	Seq       events.Seq          `json:"seq"` // of its rejected event
	At        time.Time           `json:"at"`
	Type      string              `json:"type,omitempty"` // empty if it could not be read
	Code      string              `json:"code"`
	Message   string              `json:"message"`
	Subject   string              `json:"subject,omitempty"`
	IntakeSeq uint64              `json:"intake_seq,omitempty"`
	Size      int                 `json:"size"` // of the body, in bytes
	Truncated bool                `json:"truncated,omitempty"`
	Headers   map[string][]string `json:"headers,omitempty"`
	Text      string              `json:"text,omitempty"`
	Bytes     []byte              `json:"bytes,omitempty"`
}

// GetRejected asks for one rejected submission, with its original: by the
// sequence of its event, or by the sequence of its message in the intake stream.
type GetRejected struct {
	Seq         events.Seq `json:"seq,omitempty"` // the position of its rejected event
	IntakeSeq   uint64     `json:"intake_seq,omitempty"`
	MinPosition Position   `json:"min_position,omitempty"`
}

// ReplayRejected submits a rejected submission anew, with corrections: Params,
// if given, replace its body, Type its type; of Headers each replaces the one
// of its name, and an empty one drops it. The new item's trigger is
// "rejected:SEQ". ID is the new item's, so that a repeated request makes one
// item; empty: a fresh one.
type ReplayRejected struct {
	Seq     events.Seq        `json:"seq"` // the position of its rejected event
	ID      string            `json:"id,omitempty"`
	Type    string            `json:"type,omitempty"`
	Params  json.RawMessage   `json:"params,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// PurgeRejected forgets a rejected submission.
type PurgeRejected struct {
	Seq    events.Seq `json:"seq"`              // the position of its rejected event
	Reason string     `json:"reason,omitempty"` // why; the event records it
}

// PurgedRejected answers a PurgeRejected.
type PurgedRejected struct {
	Seq      events.Seq `json:"seq"`
	Position Position   `json:"position"`
}
