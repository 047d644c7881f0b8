package core

import (
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Command asks for a change. What is random or volatile comes in with it. Each
// command decides itself: see [Decide].
type Command interface {
	decide(*decider) (Decision, error)
}

// Submit asks for a new item.
type Submit struct {
	Type     events.Type
	Params   json.RawMessage  // any JSON document; empty means null
	ID       events.ID        // chosen by the submitter; zero: NewID is used
	NewID    events.ID        // fresh
	Priority *events.Priority // nil: PriorityDefault

	DedupKey       string
	IdempotencyKey string
	AvailableAt    time.Time      // at most one of AvailableAt and Delay
	Delay          time.Duration  // from the time of the decision
	MaxAttempts    events.Attempt // 0: the type's
	Timeout        time.Duration  // 0: the type's
	Capabilities   []string
	Tenant         string
	Labels         map[string]string
	Provenance     events.Provenance
	Trace          string
	Intake         events.Intake // set when it came by the intake stream
	// PublishedAt is when it came into the intake stream; zero: not known.
	PublishedAt time.Time

	After       []events.ID // items that must end first
	AfterPolicy events.AfterPolicy
	DedupPolicy events.DedupPolicy // empty: the type's
	DedupWindow *time.Duration     // nil: the type's
	ExpiresAt   time.Time
	Batch       events.ID       // the batch that it belongs to
	Estimate    time.Duration   // how long a run is likely to take; 0: not said
	Score       *time.Duration  // the host's: how far ahead of its time of submission its place is; nil: the built-in order
	Verdict     *events.Verdict // the host's dedup hook's

	checked bool // by Check
}

// Reject records an intake message that can't become an item.
type Reject struct {
	Type events.Type // empty if not known
	events.Rejected
}

// Claim asks to run an item. Dispatched is the token of the item's current
// dispatch, from the dispatcher's volatile table, 0 if it is not dispatched.
type Claim struct {
	ID         events.ID
	Token      events.Token
	Attempt    events.Attempt // the attempt that the worker believes it is; 0: not said
	Worker     events.WorkerID
	Dispatched events.Token
	Start      bool // and start at once
}

// Start says that a claimed item's handler starts.
type Start struct{ Run }

// Run names one run of an item in a worker's report.
type Run struct {
	ID      events.ID
	Token   events.Token
	Worker  events.WorkerID
	Attempt events.Attempt // 0: not said
}

// Complete says that a run has succeeded.
type Complete struct {
	Run
	Result json.RawMessage
}

// Fail says that a run has failed.
type Fail struct {
	Run
	Error      string
	Code       string // empty: FailError
	Retryable  bool
	RetryAfter time.Duration // 0: the type's backoff
	Random     uint64        // for jitter
}

// Spawn says that a run has ended in children. When all of them have ended, the
// item is queued again for its continuation, or completes if there is none.
type Spawn struct {
	Run
	Children     []Submit // their NewID set, those of the batch in ascending order
	Continues    bool     // there is a continuation
	Continuation string   // its name, for the handler; may be empty
	Policy       events.ChildPolicy
}

// SpawnInParts is a Spawn of more than MaxWholeSpawn children: the parent waits
// for as many as are declared, and [SpawnPart] makes them. Whoever decides it
// has checked the children.
type SpawnInParts struct {
	Run
	Declared     int
	Pending      string // reference of the document that has them, as JSON
	Continues    bool
	Continuation string
	Policy       events.ChildPolicy
}

// SpawnPart makes further children of a spawn that was declared. A part that is
// there already, or of a spawn that is over, is answered by a Repeat.
type SpawnPart struct {
	ID       events.ID
	Spawn    int
	From     int // how many children the parts before have made
	Children []Submit
	// Lost, if set, says why the children can't be had: the item is dead.
	Lost string
}

// OpenBatch makes a batch: an item that runs nothing, waits for the items that
// are submitted to it, and completes once it is sealed and all of them have
// ended. One that is there already is answered by a Repeat.
type OpenBatch struct {
	Submit        // of the batch itself; its Type is BatchType
	Name   string // for people
	Count  int    // how many items it will have; 0: SealBatch says
}

// SealBatch settles how many items a batch has: it ends with the last of them.
type SealBatch struct {
	ID    events.ID
	Count int // 0: as many as there are
}

// EndBatchItem cancels an item of a batch, or a child of a spawn that was made in
// parts, which has ended before it.
type EndBatchItem struct{ ID, Parent events.ID }

// Snooze puts a running item off, with no attempt used.
type Snooze struct {
	Run
	Delay  time.Duration
	Reason string
}

// ReportProgress says how far a run has come.
type ReportProgress struct {
	Run
	Percent int
	Message string
}

// SaveCheckpoint keeps what the item's next attempt is to begin from.
type SaveCheckpoint struct {
	Run
	Checkpoint json.RawMessage
}

// FollowUp decides what follows from what has become of an item, for those
// that it concerns, a bounded number at a time: to be repeated until the
// Decision is a Repeat. See [events.Item.NeedsFollowUp].
type FollowUp struct{ ID events.ID }

// Replay queues a dead or cancelled item again.
type Replay struct {
	ID          events.ID
	Params      json.RawMessage  // nil: as they were
	Priority    *events.Priority // nil: as it was
	MaxAttempts events.Attempt   // further ones; 0: the type's
	Reason      string
}

// Purge forgets a terminal item now.
type Purge struct {
	ID     events.ID
	Reason string // empty: "purged"
}

// DueCircuit says that a circuit's time may have come: a type's, or a worker's.
type DueCircuit struct {
	Type   events.Type
	Worker events.WorkerID
}

// ResetCircuit closes a circuit.
type ResetCircuit struct {
	Type   events.Type
	Worker events.WorkerID
}

// SetSchedule makes or replaces a schedule. Schedule.Next is the first tick, and
// its Last fields are not looked at. A schedule whose timing stays the same
// keeps its place among its ticks, unless Replan is set: then Schedule.Next
// counts, as after the clock was set back.
type SetSchedule struct {
	Schedule events.Schedule
	Replan   bool
}

// PauseSchedule stops a schedule's ticks, or lets them come again.
type PauseSchedule struct {
	Name   string
	Paused bool
}

// RemoveSchedule ends a schedule.
type RemoveSchedule struct {
	Name   string
	Source string // file, api
}

// Fire answers a schedule's tick, and all before it. One that has been answered
// already is answered by a Repeat.
type Fire struct {
	Name    string
	Tick    time.Time // the tick that makes an item; Schedule.Next, or a later missed one; zero: none, but an item beside the ticks
	Next    time.Time // the one after; zero: none
	Skip    bool      // make no item
	Skipped int       // ticks that are passed over
	NewID   events.ID // fresh
	ID      events.ID // with the zero Tick: chosen by the caller, so that it may ask again
}

// Release hands a claimed or running item back, with no attempt used.
type Release struct {
	Run
	Reason string // empty: "released"
}

// ExpireLease says that the lease of the dispatch Token has run out.
type ExpireLease struct {
	ID     events.ID
	Token  events.Token
	Random uint64
}

// Due says that the item's timer ([events.Item.TimerAt]) may have passed.
type Due struct {
	ID     events.ID
	Random uint64
}

// Cancel asks that an item be not run, or no longer.
type Cancel struct {
	ID     events.ID
	Reason string // empty: "cancelled"
}

// Reschedule changes the order of a queued item. Now makes it available at
// once; otherwise AvailableAt or Delay, if set, says when.
type Reschedule struct {
	ID          events.ID
	Priority    *events.Priority
	AvailableAt time.Time
	Delay       time.Duration
	Now         bool
}

// Configure sets a type's settings. Changes only what differs.
type Configure struct {
	Type     events.Type
	Source   string // file, api
	Settings events.TypeSettings
}

// Define makes a type known, with the default settings, if it is not.
type Define struct{ Type events.Type }

// Own opens a new epoch (or, with Barrier, states the current one again).
type Own struct {
	Owner   string
	Version string
	Barrier bool
	Clock   *AcceptClock // set when an operator has confirmed the clock; not with Barrier
}

// Decision is what Decide answers: the events (none for a repeat of what is
// already so), the item that the answer is about, and whether it is a repeat.
type Decision struct {
	Events []events.Event
	ID     events.ID
	Repeat bool
	// WasRunning is set for a Cancel that found the item claimed or running.
	WasRunning bool
}

// Prune forgets a terminal item if it has been kept for as long as it is to be
// and nothing refers to it any more; see [State.Prunable].
type Prune struct{ ID events.ID }

// BeginCut begins a round of [events.Snapshot]; one under way is given up.
type BeginCut struct{}

// Carry re-states an item in the round under way. History and Merged are what
// the projection holds of it, complete: see [State.Projectable]. An item that needs
// it not is a Repeat.
type Carry struct {
	ID      events.ID
	History []events.StoredEvent
	Merged  []events.MergedEntry
}

// EndCut ends the round under way. Every item must have been carried: the
// caller sees to it. Keys are those that the projection holds of kinds that
// follow from no item; see [events.KeyKind.Unowned].
type EndCut struct {
	Keys []events.HeldKey
	// Kept is where what the projection keeps of rejected submissions begins, all
	// of which from before the round has been carried; nil: none is to be kept.
	Kept *events.RejectedKept
}
