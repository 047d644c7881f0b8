package wire

import (
	"time"

	"github.com/streamwright/streamwright/events"
)

// StatsReply is the engine at a glance. Counts are exact as of Position; rates,
// means and recoveries cover this process only, since it started.
type StatsReply struct {
	Types    []TypeStats `json:"types"`
	Workers  int         `json:"workers"` // that are not dead
	Rejected int64       `json:"rejected"`
	Position Position    `json:"position"`
	// Circuits lists the circuits of workers that are not closed, by worker.
	Circuits []Circuit `json:"worker_circuits,omitempty"`
	// MaxQueued bounds the items queued or waiting over all types; 0: no limit.
	MaxQueued int `json:"max_queued,omitempty"`

	States   map[string]int64 `json:"states"`    // of all types, by state, zeros left out
	InFlight int              `json:"in_flight"` // dispatched or running, of all types
	// Capacity bounds InFlight: the sum of the types' capacities, at most the
	// engine's own max_running.
	Capacity int `json:"capacity"`
	// WorkersByStatus counts active, draining and unhealthy workers, and those that
	// died within the last ten minutes. All four are always present.
	WorkersByStatus map[WorkerStatus]int `json:"workers_by_status"`
	// Slots is the number of slots of all active workers.
	Slots int `json:"slots"`
	// PerSecond, MeanRun, Ages and Scheduled: as of a type, over all.
	PerSecond PerSecond       `json:"per_second"`
	MeanRun   events.Duration `json:"mean_run_ms"`
	Ages      Ages            `json:"ages"`
	Scheduled int64           `json:"scheduled"`
	// Recoveries counts what the engine has repaired since it started, by cause
	// (see [Recoveries]); zeros are left out. RecoveriesHour and RecoveriesDay count
	// those of the last hour and the last day.
	Recoveries     map[string]int64 `json:"recoveries"`
	RecoveriesHour map[string]int64 `json:"recoveries_last_hour"`
	RecoveriesDay  map[string]int64 `json:"recoveries_last_day"`
	// Alarms lists what keeps the engine from its work, or soon will, the gravest
	// first.
	Alarms []Alarm `json:"alarms"`
	// Attention lists what else someone should look at, by kind: recent deaths
	// first, the others in the order of [AttentionKinds].
	Attention []Attention `json:"attention"`
	// Sites lists the sites at the edge, as configured.
	Sites []SiteState `json:"sites,omitempty"`
}

// The kinds of attention.
const (
	AttentionDead            = "dead"             // types of which items died within the last ten minutes, and some are dead now
	AttentionCircuit         = "circuit"          // types whose circuit is not closed
	AttentionWorkerCircuit   = "worker_circuit"   // workers whose circuit is not closed
	AttentionNoWorker        = "no_worker"        // types with items to run and no worker
	AttentionQueue           = "queue"            // types whose queue is near its limit
	AttentionStarving        = "starving"         // types with items that wait for too long
	AttentionPaused          = "paused"           // types that are paused
	AttentionWorkerUnhealthy = "worker_unhealthy" // workers that are unhealthy
	AttentionWorkerDead      = "worker_dead"      // workers that died and were not replaced
)

// AttentionKinds are all kinds of attention, the gravest first.
var AttentionKinds = []string{AttentionDead, AttentionCircuit, AttentionWorkerCircuit, AttentionNoWorker, AttentionQueue, AttentionStarving, AttentionPaused, AttentionWorkerUnhealthy, AttentionWorkerDead}

// MaxAttention bounds Attention.First.
const MaxAttention = 5

// Attention is one kind of trouble: how many types or workers have it, and those of
// them that have most.
type Attention struct {
	Kind     string        `json:"kind"` // see [AttentionKinds]
	Severity AlarmSeverity `json:"severity"`
	Count    int           `json:"count"` // types or workers
	// Items counts the items of all of them: dead ones of "dead", else queued ones; 0
	// for kinds of workers.
	Items int64 `json:"items,omitempty"`
	// First has at most [MaxAttention] of them, those with most items first.
	First []AttentionOf `json:"first"`
}

// AttentionOf is one type or worker that needs attention.
type AttentionOf struct {
	Type   string `json:"type,omitempty"`
	Worker string `json:"worker,omitempty"`
	Items  int64  `json:"items,omitempty"` // see Attention.Items
	// Recent counts the items that died in the last ten minutes.
	Recent int64           `json:"recent,omitempty"`
	Oldest events.Duration `json:"oldest_ms,omitzero"` // how long the first of the items has waited
	Most   int64           `json:"most,omitempty"`     // the limit that the queue is near to
	State  string          `json:"state,omitempty"`    // of a circuit: open or half_open
	Reason string          `json:"reason,omitempty"`   // as given, or as the circuit's
	By     string          `json:"by,omitempty"`       // who paused it
}

// SiteState says how a site at the edge is, as last heard.
type SiteState struct {
	Site      string    `json:"site"`
	Connected bool      `json:"connected"`
	HeardAt   time.Time `json:"heard_at,omitzero"` // zero: not since the engine has started
	Decided   uint64    `json:"decided"`           // the last message of the site's stream that is decided
	Waiting   uint64    `json:"waiting"`           // messages behind it, as of heard_at
	Mirror    bool      `json:"mirror,omitempty"`  // the site mirrors the log, and decided and waiting are events that it has and lacks
}

// PerSecond are means over the last minute, or over the time since the engine
// has started if that is less.
type PerSecond struct {
	Submitted float64 `json:"submitted"` // created items, merged ones among them
	Completed float64 `json:"completed"`
	Failed    float64 `json:"failed"` // attempts
	Dead      float64 `json:"dead"`
}

// Ages say how long the queued items that may run have been waiting, in
// milliseconds: from when they were first queued, or have become due since. The
// oldest is exact, as long as it does not take more than
// projector.MaxWaitingReads index entries to find; else it, like the others, is
// right to 67 ms or 1/32 of itself (of the delay, for an item that was delayed),
// whichever is more. All zero: nothing waits.
type Ages struct {
	Oldest events.Duration `json:"oldest_ms"`
	P50    events.Duration `json:"p50_ms"`
	P95    events.Duration `json:"p95_ms"`
}

// The causes of recoveries.
const (
	RecoveryLeaseExpired = "lease_expired" // a run whose worker was silent for a lease
	RecoveryTimeout      = "timeout"       // a run that took longer than it may
	RecoveryNotStarted   = "not_started"   // a claim that was not begun in time: the item went back
	RecoveryUnclaimed    = "unclaimed"     // sent by the owner before, and unknown to its worker: the item went back
	RecoveryWorkerGone   = "worker_gone"   // dispatched, unclaimed, and the last worker that could take it went
	RecoveryDispatchLost = "dispatch_lost" // the message of a dispatch was lost, or not accepted by NATS
	RecoveryOwnership    = "ownership"     // the ownership ended, and the engine began again from the log
)

// Recoveries are all causes.
var Recoveries = []string{RecoveryLeaseExpired, RecoveryTimeout, RecoveryNotStarted, RecoveryUnclaimed, RecoveryWorkerGone, RecoveryDispatchLost, RecoveryOwnership}

// TypeStats counts a type's items.
type TypeStats struct {
	Type     string           `json:"type"`
	States   map[string]int64 `json:"states"` // by state, zeros left out
	Queued   map[int]int64    `json:"queued_by_priority,omitempty"`
	InFlight int              `json:"in_flight"` // dispatched or running
	// Running counts what is claimed or running by the priority that it was dispatched
	// with, zeros left out.
	Running  map[int]int     `json:"running_by_priority,omitempty"`
	Capacity int             `json:"capacity"`
	Workers  int             `json:"workers"`                   // that serve the type and take work
	Slots    int             `json:"slots"`                     // of those workers, shared with their other types
	Oldest   events.Duration `json:"oldest_queued_ms,omitzero"` // Ages.Oldest
	Paused   *events.Pause   `json:"paused,omitempty"`          // nil: it is not
	Circuit  *Circuit        `json:"circuit,omitempty"`         // nil: closed, or none exists
	// MaxQueued bounds the type's items queued or waiting; 0: no limit.
	MaxQueued int `json:"max_queued,omitempty"`

	PerSecond PerSecond       `json:"per_second"`
	MeanRun   events.Duration `json:"mean_run_ms"` // of the last minute's completed runs; 0 if there were none
	Ages      Ages            `json:"ages"`
	// AgesByPriority has the priorities at which something waits.
	AgesByPriority map[int]Ages `json:"ages_by_priority,omitempty"`
	// Scheduled items are queued but not due yet: delayed, or in a backoff.
	Scheduled int64 `json:"scheduled"`
	// Starving items wait for more than 80 % of the time after which nothing that
	// is newly submitted can overtake them: (9 - priority) × age_step. Items of
	// priority 9 can't be overtaken.
	Starving int64 `json:"starving"`
	// DesiredWorkers is the number of workers that the type needs: see
	// docs/reference/METRICS.md#desired_workers.
	DesiredWorkers int `json:"desired_workers"`
}

// Alarm is one thing that keeps the engine from its work, or soon will. An alarm
// ends when its cause does. The list of them is in [StatsReply], the gravest first.
type Alarm struct {
	Code     string        `json:"code"` // see [AlarmCodes]
	Severity AlarmSeverity `json:"severity"`
	Message  string        `json:"message"` // what is wrong, and what that stops
	Action   string        `json:"action"`  // what to do
}

// AlarmSeverity says whether work is affected yet.
type AlarmSeverity string

// The severities of alarms.
const (
	AlarmCritical AlarmSeverity = "critical" // work is refused or held now
	AlarmWarning  AlarmSeverity = "warning"  // it soon will be
)

// The codes of alarms.
const (
	AlarmDisconnected = "nats_disconnected" // the engine has no connection to NATS
	AlarmNotOwner     = "not_owner"         // it does not own its log: it recovers, or another engine has it
	AlarmCutOff       = "cut_off"           // a standby that no longer hears of the log
	AlarmJetStream    = "jetstream_silent"  // JetStream does not answer
	AlarmDiskLow      = "disk_low"          // the disk is nearly full
	AlarmStoreFull    = "store_full"        // the streams have nearly reached max_store
	AlarmLog          = "log_limit"         // the event log of a namespace has reached its max_log_size
	AlarmClock        = "clock_implausible" // the NATS server's clock is not followed
	AlarmBehind       = "behind"            // queries lag behind the log
	AlarmQueue        = "queue_limit"       // the engine's own max_queued
	AlarmIntake       = "intake_limit"      // plain publishes that wait to be decided
	AlarmDocuments    = "documents_limit"   // the object store of large documents
	AlarmAck          = "ack_limit"         // what is dispatched to ack workers
	AlarmAccount      = "account_limit"     // the storage of the engine's account on a NATS server of others
	AlarmSettings     = "settings_differ"   // a node decides by other settings than the owner
	AlarmCluster      = "cluster_at_risk"   // a node or a replica is missing
	AlarmReplica      = "replica_damaged"   // what a node has of a stream on its disk
	AlarmForeign      = "foreign_messages"  // something else writes to the event log
)

// AlarmCodes are all of them, the gravest first.
var AlarmCodes = []string{
	AlarmDisconnected, AlarmNotOwner, AlarmCutOff, AlarmJetStream, AlarmDiskLow, AlarmStoreFull, AlarmLog, AlarmAccount, AlarmClock, AlarmQueue, AlarmIntake,
	AlarmDocuments, AlarmAck, AlarmBehind, AlarmReplica, AlarmForeign, AlarmCluster, AlarmSettings,
}

// The verdicts on the NATS server's clock.
const (
	ClockPlausible = "plausible"
	ClockAhead     = "ahead"  // implausibly far ahead of all that is known
	ClockBehind    = "behind" // implausibly far behind the event log, or an earlier run
)

// Clock answers clock and clock_accept: the engine's time, and its judgement of the
// NATS server's.
type Clock struct {
	// Verdict is one of the Clock constants. What is not plausible is not
	// followed.
	Verdict    string    `json:"verdict"`
	EngineTime time.Time `json:"engine_time"` // by which everything is recorded
	ServerTime time.Time `json:"server_time"` // of the NATS server
	LastEvent  time.Time `json:"last_event,omitzero"`
	// KnownGood is the last time at which an earlier process of this engine found
	// the server's clock plausible.
	KnownGood  time.Time       `json:"known_good,omitzero"`
	Difference events.Duration `json:"difference_ms"` // server_time less engine_time
	// MaxJump is the setting max_clock_jump; 0: any time of the server is
	// followed.
	MaxJump events.Duration `json:"max_jump_ms"`
	Since   time.Time       `json:"since,omitzero"` // of a verdict that is not plausible, by the engine's time
	Why     string          `json:"why,omitempty"`  // of the same, and what to do
	// Held names what rests until the clock is plausible or accepted.
	Held []string `json:"held,omitempty"`
}

// AcceptClock confirms the NATS server's clock: from then on it is the engine's.
type AcceptClock struct {
	By string `json:"by,omitempty"` // who confirms it, at most 256 bytes
}

// Cut has the engine cut its log. With Past it does so only while the log still holds
// that position. A round that is under way goes on, and may have begun before Past: ask
// until the log begins after it.
type Cut struct {
	Past Position `json:"past,omitempty"`
}

// Retention describes what the engine keeps, in replies to info and cut.
type Retention struct {
	LogFirst Position  `json:"log_first"` // the first event that the log holds
	LogLast  Position  `json:"log_last"`
	Events   int64     `json:"log_events"`        // that the log holds
	Retained int64     `json:"retained"`          // items
	Held     int       `json:"held,omitempty"`    // of them, past their time, but with a key or an item that refers to them
	Pruned   int64     `json:"pruned"`            // in all
	LastCut  time.Time `json:"last_cut,omitzero"` // when the last round of snapshots ended
	Round    string    `json:"round,omitempty"`   // how far the one under way has come: begun, carrying, syncing, cutting
}
