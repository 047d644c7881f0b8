package schemas

import (
	"reflect"
	"slices"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Version is the protocol's version, and the folder of its schemas. It changes when
// a message that was valid becomes invalid.
const Version = "v1"

// Endpoints lists the requests that are part of the protocol.
func Endpoints() []wire.Endpoint {
	return slices.DeleteFunc(slices.Clone(wire.Endpoints()), func(e wire.Endpoint) bool { return e.Private })
}

// messages lists the types of messages other than requests and replies.
var messages = []reflect.Type{
	reflect.TypeFor[wire.ErrorReply](), reflect.TypeFor[wire.Control](), reflect.TypeFor[wire.Probe](),
	reflect.TypeFor[wire.LogRecord](), reflect.TypeFor[events.Outcome](),
}

// payloads are those of the kinds of events. A kind that is missing here has
// none.
var payloads = map[events.Kind]reflect.Type{
	events.KindCreated:           reflect.TypeFor[events.Created](),
	events.KindMerged:            reflect.TypeFor[events.Merged](),
	events.KindQueued:            reflect.TypeFor[events.Queued](),
	events.KindClaimed:           reflect.TypeFor[events.Claimed](),
	events.KindRunning:           reflect.TypeFor[events.Running](),
	events.KindCompleted:         reflect.TypeFor[events.Completed](),
	events.KindFailed:            reflect.TypeFor[events.Failed](),
	events.KindDead:              reflect.TypeFor[events.Dead](),
	events.KindCancelled:         reflect.TypeFor[events.Cancelled](),
	events.KindReleased:          reflect.TypeFor[events.Released](),
	events.KindRescheduled:       reflect.TypeFor[events.Rescheduled](),
	events.KindRejected:          reflect.TypeFor[events.Rejected](),
	events.KindOwned:             reflect.TypeFor[events.Owned](),
	events.KindTypeConfigured:    reflect.TypeFor[events.TypeConfigured](),
	events.KindWaiting:           reflect.TypeFor[events.Waiting](),
	events.KindSpawned:           reflect.TypeFor[events.Spawned](),
	events.KindSnoozed:           reflect.TypeFor[events.Snoozed](),
	events.KindProgressed:        reflect.TypeFor[events.Progressed](),
	events.KindCheckpointed:      reflect.TypeFor[events.Checkpointed](),
	events.KindReplayed:          reflect.TypeFor[events.Replayed](),
	events.KindPaused:            reflect.TypeFor[events.Paused](),
	events.KindResumed:           reflect.TypeFor[events.Resumed](),
	events.KindCircuitOpened:     reflect.TypeFor[events.CircuitOpened](),
	events.KindCircuitHalfOpened: reflect.TypeFor[events.CircuitHalfOpened](),
	events.KindCircuitClosed:     reflect.TypeFor[events.CircuitClosed](),
	events.KindScheduleSet:       reflect.TypeFor[events.ScheduleSet](),
	events.KindScheduleRemoved:   reflect.TypeFor[events.ScheduleRemoved](),
	events.KindScheduleFired:     reflect.TypeFor[events.ScheduleFired](),
	events.KindCauseNoted:        reflect.TypeFor[events.CauseNoted](),
	events.KindRejectedPurged:    reflect.TypeFor[events.RejectedPurged](),
	events.KindDrainSet:          reflect.TypeFor[events.DrainSet](),
	events.KindDrainEnded:        reflect.TypeFor[events.DrainEnded](),
	events.KindTypeForgotten:     reflect.TypeFor[events.TypeForgotten](),
	events.KindPruned:            reflect.TypeFor[events.Pruned](),
}

// inner are the kinds whose payload is the log's own book-keeping: it may
// change with the engine, so no schema describes it.
var inner = []events.Kind{events.KindSnapshot, events.KindCarried}
