package wire

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
	AlarmJetStream    = "jetstream_silent"  // JetStream does not answer
	AlarmDiskLow      = "disk_low"          // the disk is nearly full
	AlarmStoreFull    = "store_full"        // the streams have nearly reached max_store_bytes
	AlarmClock        = "clock_implausible" // the NATS server's clock is not followed
	AlarmBehind       = "behind"            // queries lag behind the log
	AlarmQueue        = "queue_limit"       // the engine's own max_queued
	AlarmIntake       = "intake_limit"      // plain publishes that wait to be decided
	AlarmDocuments    = "documents_limit"   // the object store of large documents
	AlarmNative       = "native_limit"      // what is dispatched to native workers
	AlarmAccount      = "account_limit"     // the storage of the engine's account on a NATS server of others
)

// AlarmCodes are all of them, the gravest first.
var AlarmCodes = []string{
	AlarmDisconnected, AlarmNotOwner, AlarmJetStream, AlarmDiskLow, AlarmStoreFull, AlarmAccount, AlarmClock, AlarmQueue, AlarmIntake,
	AlarmDocuments, AlarmNative, AlarmBehind,
}
