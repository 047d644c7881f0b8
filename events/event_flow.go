package events

import (
	"encoding/json"
	"time"
)

// SubmitOptions holds what most submissions leave out.
type SubmitOptions struct {
	After       []ID        `json:"after,omitempty"`
	AfterPolicy AfterPolicy `json:"after_policy,omitempty"`
	DedupPolicy DedupPolicy `json:"dedup_policy,omitempty"`
	DedupWindow Duration    `json:"dedup_window_ms,omitzero"`
	ExpiresAt   time.Time   `json:"expires_at,omitzero"`
	Estimate    Duration    `json:"estimated_duration_ms,omitzero"` // how long a run is likely to take
	OwnAttempts bool        `json:"own_attempts,omitempty"`         // the submission chose max_attempts
	OwnTimeout  bool        `json:"own_timeout,omitempty"`          // the submission chose timeout_ms
	Group       string      `json:"group,omitempty"`
	Parent      ID          `json:"parent,omitzero"`
	Spawn       int         `json:"spawn,omitempty"`
	Score       *Duration   `json:"score_ms,omitempty"`
	Verdict     *Verdict    `json:"verdict,omitempty"`
	Rates       []RateTaken `json:"rates,omitempty"`
}

// DedupPolicy says what becomes of a submission whose dedup key is taken.
type DedupPolicy string

// The dedup policies, which are also the verdicts of a host's dedup hook; the
// empty one means the type's, and by default DedupMerge.
const (
	DedupMerge     DedupPolicy = "merge"     // it becomes part of the holder
	DedupDistinct  DedupPolicy = "distinct"  // both run
	DedupSupersede DedupPolicy = "supersede" // it replaces the holder, or runs after it if that runs already
	DedupDefer     DedupPolicy = "defer"     // it waits for the holder's end, then runs
)

// Verdict is the answer of the host's dedup hook to a submission.
type Verdict struct {
	Policy    DedupPolicy `json:"policy"`
	Canonical ID          `json:"canonical,omitzero"` // the item that it is the same as
	Source    string      `json:"source,omitempty"`   // who said so: hook, fallback
	Reason    string      `json:"reason,omitempty"`
}

// RateTaken is one step of a rate limit: the key's theoretical arrival time
// moves to TAT (GCRA, ITU-T I.371).
type RateTaken struct {
	Key string    `json:"key"`
	TAT time.Time `json:"tat"`
}

// Waiting is the payload of waiting: the item waits for others. Of what it
// waits for, Ended has just come to its end (absent at first), and Left remain.
type Waiting struct {
	Reason string `json:"reason"`          // after, defer, supersede, children
	For    []ID   `json:"for,omitempty"`   // at first: what it waits for
	Behind ID     `json:"behind,omitzero"` // the one of them whose end counts as good, whatever it is
	Ended  ID     `json:"ended,omitzero"`
	Left   int    `json:"left"`
}

// Spawned is the payload of spawned: the run has ended in children. Their
// created events follow in the same decision.
//
// Too many for one decision are Declared first, in one without children: Pending
// refers to the document that has them. Then each Part makes some of them. A
// Batch has no run: its items are counted by their own created events, and
// Sealed settles how many there are.
type Spawned struct {
	Spawn        int         `json:"spawn"` // which of the item's spawns, from 1
	Children     []ID        `json:"children"`
	Existing     []ID        `json:"existing,omitempty"` // the ones that existed before, and have no created event here
	Continues    bool        `json:"continues,omitempty"`
	Continuation string      `json:"continuation,omitempty"`
	ChildPolicy  ChildPolicy `json:"child_policy,omitempty"`
	Duration     Duration    `json:"duration_ms"`

	Declared int    `json:"declared,omitempty"` // how many children or items there are to be
	Pending  string `json:"pending,omitempty"`  // reference of the document that has the children, as JSON
	Part     int    `json:"part,omitempty"`     // from 1
	Taken    int    `json:"taken,omitempty"`    // how many declared children the part makes or repeats
	Batch    bool   `json:"batch,omitempty"`
	Sealed   bool   `json:"sealed,omitempty"`
	Name     string `json:"name,omitempty"` // of the batch
}

// Snoozed is the payload of snoozed: the run has put the item off, with no
// attempt used.
type Snoozed struct {
	AvailableAt time.Time `json:"available_at"`
	Reason      string    `json:"reason,omitempty"`
	Duration    Duration  `json:"duration_ms"`
}

// Progressed is the payload of progressed.
type Progressed struct {
	Percent int    `json:"percent"`
	Message string `json:"message,omitempty"`
}

// Checkpointed is the payload of checkpointed: what the next attempt gets.
type Checkpointed struct {
	Checkpoint json.RawMessage `json:"checkpoint"`
}

// Replayed is the payload of replayed: a dead or cancelled item is queued
// again. Params, if set, replace the item's.
type Replayed struct {
	Priority    Priority        `json:"priority"`
	MaxAttempts Attempt         `json:"max_attempts"`           // counting those made before
	OwnAttempts bool            `json:"own_attempts,omitempty"` // the replay chose how many, or the submission did
	OrderAt     time.Time       `json:"order_at"`
	Params      json.RawMessage `json:"params,omitempty"`
	Reason      string          `json:"reason,omitempty"`
}

// Outcome tells a parent's continuation how one child ended.
type Outcome struct {
	ID      ID              `json:"id"`
	Type    Type            `json:"type"`
	State   ItemState       `json:"state,omitzero"` // absent: it has been forgotten
	Result  json.RawMessage `json:"result,omitempty"`
	Omitted bool            `json:"result_omitted,omitempty"` // the results together pass MaxOutcomesBytes: get it by id
	Error   string          `json:"error,omitempty"`
	Code    string          `json:"code,omitempty"`
	Reason  string          `json:"reason,omitempty"`
}

func (*Waiting) Kind() Kind      { return KindWaiting }
func (*Spawned) Kind() Kind      { return KindSpawned }
func (*Snoozed) Kind() Kind      { return KindSnoozed }
func (*Progressed) Kind() Kind   { return KindProgressed }
func (*Checkpointed) Kind() Kind { return KindCheckpointed }
func (*Replayed) Kind() Kind     { return KindReplayed }
