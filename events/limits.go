package events

import (
	"time"
)

// Bounds on every field of every event, so that no event can outgrow what the
// server takes in one message, and defaults for what a type does not set.
const (
	MaxTypeLen       = 63
	MaxNamespaceLen  = 32
	MaxWorkerIDLen   = 128
	MaxKeyLen        = 512  // dedup and idempotency keys, and Nats-Msg-Id, in bytes
	MaxNameLen       = 256  // source, trigger, tenant, error code, reason, in bytes
	MaxCapabilities  = 16   // per item
	MaxCapabilityLen = 63   // bytes each
	MaxLaneLen       = 180  // bytes of a lane's name: what a consumer's name has room for
	MaxLabels        = 32   // per item
	MaxLabelLen      = 256  // bytes of a label's key, and of its value
	MaxErrorText     = 8192 // bytes; longer text is cut
	MaxTraceLen      = 256

	MaxParamsBytes     = 256 << 10 // default bound of params; a setting
	MaxParamsCeiling   = 1 << 20   // the highest that the setting may be
	MaxResultBytes     = 256 << 10
	MaxJSONDepth       = 1000     // nesting of params and results; encoding/json reads no event deeper than 10,000
	MaxRejectedBytes   = 64 << 10 // of a rejected submission's original bytes
	MaxRejectedHeaders = 16 << 10 // bytes of its headers together
	MaxDecisionEvents  = 1000     // events of one decision
	MaxSubmitBatch     = 10_000   // items of one submit request
	MaxAttemptsCeiling = 1000
	MaxCapacity        = 1000 // per type: what one consumer can have pending
	MaxTypes           = 900  // what one dispatch stream has consumers for

	MaxAfter          = 1000 // items that one waits for
	MaxDedupWindow    = 30 * 24 * time.Hour
	MaxChildren       = 10_000    // of one spawn
	MaxWholeSpawn     = 300       // of a spawn that is one decision; larger ones are made in parts
	SpawnPartSize     = 100       // children of one part
	MaxBatchCount     = 1_000_000 // items of a batch
	MaxCheckpoint     = 64 << 10  // bytes
	MaxOutcomesBytes  = 256 << 10 // of the children's results that a continuation gets; beyond, it gets their ids
	MaxProgressText   = 1024      // bytes
	MaxSchedules      = 1000
	MaxCauses         = 5000 // distinct causes of death
	MaxWorkerCircuits = 1000
	MaxCodes          = 64 // of a type's own code policies
	MaxRates          = 16 // of a type
	MaxQueueSteps     = 8
	MaxPools          = 100

	DefaultPoisonAfter = 3
	DefaultMaxAttempts = 3
	DefaultTimeout     = 300 * time.Second
	DefaultLease       = 30 * time.Second
	DefaultAgeStep     = 200 * time.Second
	StartWithin        = 5 * time.Second // from claimed to running
	IdempotencyWindow  = 24 * time.Hour
	MsgIDWindow        = 2 * time.Minute // the intake stream's duplicate window
	MaxDelay           = 10 * 365 * 24 * time.Hour
	MinLease           = time.Second
	MaxLease           = time.Hour
	MaxTimeout         = 30 * 24 * time.Hour
)

// MaxDrains bounds the workers that are marked to drain: as many as can be
// registered. Beyond it, marking another is refused.
const MaxDrains = 10_000

// The bounds of what is kept of submissions that became no item. Of those
// rejected, the newest that fit both bounds are kept, by the bytes of their
// originals; of the answers to intake messages, the newest.
const (
	MaxRejectedKept      = 10_000
	MaxRejectedKeptBytes = 64 << 20
	MaxAnswersKept       = 100_000
)
