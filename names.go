package streamwright

import (
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Error is the refusal of a request: a stable code, and a message that says what is wrong
// and what to do. See [ErrNotFound] and its like for how to match one.
type Error = events.Error

// Code is the stable name of an error. docs/reference/ERRORS.md says what to do about
// each.
type Code = events.Code

// CodeOf returns the code of the [*Error] in err's chain, or CodeInternal if there is none.
func CodeOf(err error) Code { return events.CodeOf(err) }

// The codes of refused commands.
const (
	CodeBadRequest       = events.CodeBadRequest       // malformed in a way that no other code names
	CodeBadParams        = events.CodeBadParams        // params are no JSON
	CodeTooLarge         = events.CodeTooLarge         // a field past its bound
	CodeBadType          = events.CodeBadType          // type name off the pattern
	CodeBadPriority      = events.CodeBadPriority      // outside 0 to 9
	CodeBadID            = events.CodeBadID            // no ULID
	CodeBadTime          = events.CodeBadTime          // unreadable, or beyond ten years
	CodeBadHeader        = events.CodeBadHeader        // unknown or unreadable Work- header
	CodeIDConflict       = events.CodeIDConflict       // the id is taken by other content
	CodeDuplicate        = events.CodeDuplicate        // a repeat of what was accepted (in rejected events)
	CodeNotFound         = events.CodeNotFound         // no such item, worker or type
	CodeWrongState       = events.CodeWrongState       // the item's state does not allow it
	CodeEnded            = events.CodeEnded            // the item has ended: no signal reaches it
	CodeMailboxFull      = events.CodeMailboxFull      // too many signals wait for the item
	CodeAlreadyCompleted = events.CodeAlreadyCompleted // the token has had another answer
	CodeUnreadSignals    = events.CodeUnreadSignals    // a strict completion while signals have come that no run was given
	CodeStaleToken       = events.CodeStaleToken       // not the item's current token: stop running it
	CodeWrongAttempt     = events.CodeWrongAttempt     // the attempt is not the current one
	CodeWrongWorker      = events.CodeWrongWorker      // the token belongs to another worker
	CodeWorkerIDInUse    = events.CodeWorkerIDInUse    // the worker id is alive in another session
	CodeUnknownWorker    = events.CodeUnknownWorker    // the worker has not registered
	CodeTooManyTypes     = events.CodeTooManyTypes     // MaxTypes reached
	CodeTypeNotAllowed   = events.CodeTypeNotAllowed   // the configuration lists the types, and not this one
	CodeSetInFile        = events.CodeSetInFile        // the setting is owned by engine.toml
	CodePaused           = events.CodePaused           // the type is paused: claim refused
	CodeCircuitOpen      = events.CodeCircuitOpen      // the circuit of the type or of the worker is open: claim refused
	CodeQueueFull        = events.CodeQueueFull        // too many items wait
	CodeRateLimited      = events.CodeRateLimited      // a rate limit is reached
	CodeQuotaExceeded    = events.CodeQuotaExceeded    // the user has taken what its quota allows
	CodeAtCapacity       = events.CodeAtCapacity       // a type, a group or a pool has no room: claim refused
	CodeUnavailable      = events.CodeUnavailable      // not now: no owner, shutting down, storage full
	CodeNotOwner         = events.CodeNotOwner         // this engine stands by for another
	CodeUnauthenticated  = events.CodeUnauthenticated  // no proof of who asks, or one that is not known, over HTTP or to the NATS server
	CodeForbidden        = events.CodeForbidden        // who asks may not do that
	CodeInternal         = events.CodeInternal
	CodeTimeout          = events.CodeTimeout
	CodePositionAhead    = events.CodePositionAhead // min_position is beyond the log's end
)

// The codes of an engine that does not start.
const (
	CodeBadConfig    = events.CodeBadConfig    // a setting that is unknown, unreadable or out of bounds
	CodeCannotListen = events.CodeCannotListen // an address that is in use, or not this machine's
	CodeFolderInUse  = events.CodeFolderInUse  // another process has the data folder
	CodeLogLost      = events.CodeLogLost      // the event log is gone, or does not belong to the store
	CodeNewerFormat  = events.CodeNewerFormat  // a newer program has written the data folder, or raised the log's format level
)

// ItemState is the state of an item in its life.
type ItemState = events.ItemState

// The item states.
const (
	StateCreated   = events.StateCreated
	StateQueued    = events.StateQueued
	StateClaimed   = events.StateClaimed
	StateRunning   = events.StateRunning
	StateWaiting   = events.StateWaiting
	StateFailed    = events.StateFailed
	StateCompleted = events.StateCompleted
	StateDead      = events.StateDead
	StateCancelled = events.StateCancelled
	StateMerged    = events.StateMerged
)

// ParseItemState reads a state's name.
func ParseItemState(s string) (ItemState, error) { return events.ParseItemState(s) }

// Kind is the kind of an event. docs/reference/EVENTS.md describes each.
type Kind = events.Kind

// The event kinds.
const (
	KindCreated           = events.KindCreated
	KindMerged            = events.KindMerged
	KindQueued            = events.KindQueued
	KindClaimed           = events.KindClaimed
	KindRunning           = events.KindRunning
	KindCompleted         = events.KindCompleted
	KindFailed            = events.KindFailed
	KindDead              = events.KindDead
	KindCancelled         = events.KindCancelled
	KindSpawned           = events.KindSpawned
	KindWaiting           = events.KindWaiting
	KindReleased          = events.KindReleased
	KindSnoozed           = events.KindSnoozed
	KindProgressed        = events.KindProgressed
	KindCheckpointed      = events.KindCheckpointed
	KindRescheduled       = events.KindRescheduled
	KindReplayed          = events.KindReplayed
	KindParked            = events.KindParked
	KindSignalled         = events.KindSignalled
	KindTokenGiven        = events.KindTokenGiven
	KindReminded          = events.KindReminded
	KindRejected          = events.KindRejected
	KindOwned             = events.KindOwned
	KindSnapshot          = events.KindSnapshot
	KindTypeConfigured    = events.KindTypeConfigured
	KindPaused            = events.KindPaused
	KindResumed           = events.KindResumed
	KindCircuitOpened     = events.KindCircuitOpened
	KindCircuitHalfOpened = events.KindCircuitHalfOpened
	KindCircuitClosed     = events.KindCircuitClosed
	KindScheduleSet       = events.KindScheduleSet
	KindScheduleRemoved   = events.KindScheduleRemoved
	KindScheduleFired     = events.KindScheduleFired
	KindCarried           = events.KindCarried
	KindPruned            = events.KindPruned
	KindCauseNoted        = events.KindCauseNoted
	KindRejectedPurged    = events.KindRejectedPurged
	KindDrainSet          = events.KindDrainSet
	KindDrainEnded        = events.KindDrainEnded
	KindNamespaceSet      = events.KindNamespaceSet
	KindNamespaceRemoved  = events.KindNamespaceRemoved
	KindTypeForgotten     = events.KindTypeForgotten
	KindFormatRaised      = events.KindFormatRaised
)

// ParseKind reads a kind's name.
func ParseKind(s string) (Kind, error) { return events.ParseKind(s) }

// AfterPolicy says what becomes of an item when one that it comes after ends dead or
// cancelled.
type AfterPolicy = events.AfterPolicy

// The values of [Item].AfterPolicy.
const (
	AfterCancel = events.AfterCancel // cancel it; the default
	AfterDead   = events.AfterDead   // make it dead
	AfterRun    = events.AfterRun    // run it all the same
)

// DedupPolicy says what becomes of a submission whose dedup key is taken.
type DedupPolicy = events.DedupPolicy

// The values of [Item].DedupPolicy, and of [Schedule].Overlap.
const (
	DedupMerge     = events.DedupMerge     // it becomes part of the holder; the default of an item
	DedupDistinct  = events.DedupDistinct  // both run; the default of a schedule
	DedupSupersede = events.DedupSupersede // it replaces the holder, or runs after it if that runs already
	DedupDefer     = events.DedupDefer     // it waits for the holder's end, then runs
)

// MissedPolicy says what becomes of a schedule's ticks that nobody could answer in time.
type MissedPolicy = events.MissedPolicy

// The values of [Schedule].Missed.
const (
	MissedSkip = events.MissedSkip // they are left out, but for one that is only just past
	MissedOne  = events.MissedOne  // one item for all of them; the default
	MissedAll  = events.MissedAll  // an item for each, up to a bound
)

// Protocol says how the items of a type reach their workers.
type Protocol = events.Protocol

// The values of [Settings].Protocol.
const (
	ProtocolOffer = events.ProtocolOffer // to workers that register; the default
	ProtocolAck   = events.ProtocolAck   // to any JetStream consumer: see docs/guides/ACK.md
)

// The values of [Settings].AssignBy, and of its GroupBy, beside "label:" and a name.
const (
	AssignMostFree   = events.AssignMostFree   // AssignBy; the default
	AssignRoundRobin = events.AssignRoundRobin // AssignBy
	PerTenant        = events.PerTenant        // both; the default of GroupBy
)

// The actions of a [Bulk].
const (
	BulkReplay     = wire.BulkReplay
	BulkPurge      = wire.BulkPurge
	BulkCancel     = wire.BulkCancel
	BulkReschedule = wire.BulkReschedule
)

// DefaultNamespace is the namespace of an engine that has no others.
const DefaultNamespace = events.DefaultNamespace

// ParseNamespace checks a namespace's name: at most 32 characters of a-z and 0-9 with single
// - between them.
func ParseNamespace(s string) (Namespace, error) { return events.ParseNamespace(s) }

type (
	// Namespace names a log of its own in an engine, with its own items, types and workers.
	Namespace = events.Namespace
	// Duration is a duration in what the engine answers: a [time.Duration] that JSON has
	// in milliseconds.
	Duration = events.Duration
	// Seq is the place of an event in the log.
	Seq = events.Seq
	// Position is a place in the log up to which a reply, or a query, shows what has
	// happened.
	Position = wire.Position
	// Names are the names of an engine's subjects and streams.
	Names = wire.Names
	// ItemError is an item's last failure.
	ItemError = wire.ItemError
	// Provenance says why an item exists.
	Provenance = events.Provenance
	// TypeSettings are a type's settings as the engine answers them, all filled in.
	TypeSettings = events.TypeSettings
)
