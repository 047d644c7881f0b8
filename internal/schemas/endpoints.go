package schemas

import (
	"reflect"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Version is that of the protocol, and the folder of its schemas. It changes
// when a message that was right before would no longer be.
const Version = "v1"

// Endpoint is one request to the engine.
type Endpoint struct {
	Name    string
	Request reflect.Type
	Reply   reflect.Type
	Array   bool // an array of requests is answered with an array of replies
	Stream  bool // replies come until one is done
}

func endpoint[Request, Reply any](name string) Endpoint {
	return Endpoint{Name: name, Request: reflect.TypeFor[Request](), Reply: reflect.TypeFor[Reply]()}
}

func (e Endpoint) orArray() Endpoint { e.Array = true; return e }
func (e Endpoint) streamed() Endpoint {
	e.Stream = true
	return e
}

// Endpoints are all requests, those of producers first, then those of workers,
// then those of operators.
func Endpoints() []Endpoint {
	return []Endpoint{
		endpoint[wire.Submit, wire.Submitted](wire.APISubmit).orArray(),
		endpoint[wire.Batch, wire.BatchReply](wire.APIBatch),
		endpoint[wire.Get, wire.Item](wire.APIGet),
		endpoint[wire.List, wire.Listed](wire.APIList),
		endpoint[wire.Wait, wire.Item](wire.APIWait),
		endpoint[wire.Cancel, wire.Cancelled](wire.APICancel),
		endpoint[wire.History, wire.HistoryReply](wire.APIHistory),
		endpoint[wire.Logs, wire.LogsReply](wire.APILogs),
		endpoint[wire.ReadEvents, wire.EventsReply](wire.APIEvents),
		endpoint[wire.Tree, wire.TreeReply](wire.APITree),
		endpoint[wire.Why, wire.WhyReply](wire.APIWhy),
		endpoint[wire.Held, wire.Holder](wire.APIHeld),
		endpoint[wire.Reschedule, wire.Rescheduled](wire.APIReschedule),

		endpoint[wire.Register, wire.Registered](wire.APIRegister),
		endpoint[wire.Heartbeat, wire.HeartbeatReply](wire.APIHeartbeat),
		{Name: wire.APIReport, Request: reflect.TypeFor[[]wire.Report](), Reply: reflect.TypeFor[[]wire.Reported]()},
		endpoint[wire.Probed, wire.OK](wire.APIProbed),
		endpoint[wire.Unregister, wire.OK](wire.APIUnregister),

		endpoint[wire.See, wire.StatsReply](wire.APIStats),
		endpoint[wire.See, wire.TypesReply](wire.APITypes),
		endpoint[wire.See, wire.WorkersReply](wire.APIWorkers),
		endpoint[wire.See, wire.InfoReply](wire.APIInfo),
		endpoint[wire.Configure, wire.TypeReply](wire.APIConfigure),
		endpoint[wire.TypeRemove, wire.Changed](wire.APITypeRemove),
		endpoint[wire.Pause, wire.Changed](wire.APIPause),
		endpoint[wire.Resume, wire.Changed](wire.APIResume),
		endpoint[wire.CircuitReset, wire.Changed](wire.APICircuitReset),
		endpoint[wire.Drain, wire.OK](wire.APIDrain),
		endpoint[wire.Undrain, wire.Changed](wire.APIUndrain),
		endpoint[wire.Selection, wire.Listed](wire.APIDead),
		endpoint[wire.CausesQuery, wire.CausesReply](wire.APICauses),
		endpoint[wire.Replay, wire.ReplayReply](wire.APIReplay),
		endpoint[wire.Purge, wire.ReplayReply](wire.APIPurge),
		endpoint[wire.Bulk, wire.BulkReply](wire.APIBulk),
		endpoint[wire.ListRejected, wire.RejectedListed](wire.APIRejected),
		endpoint[wire.GetRejected, wire.Rejected](wire.APIShowRejected),
		endpoint[wire.ReplayRejected, wire.Submitted](wire.APIReplayRejected),
		endpoint[wire.PurgeRejected, wire.PurgedRejected](wire.APIPurgeRejected),
		endpoint[wire.See, wire.SchedulesReply](wire.APISchedules),
		endpoint[wire.Schedule, wire.ScheduleReply](wire.APIScheduleSet),
		endpoint[wire.ScheduleName, wire.ScheduleReply](wire.APIScheduleRemove),
		endpoint[wire.ScheduleName, wire.ScheduleReply](wire.APISchedulePause),
		endpoint[wire.ScheduleName, wire.ScheduleReply](wire.APIScheduleResume),
		endpoint[wire.ScheduleFire, wire.Submitted](wire.APIScheduleFire),
		endpoint[wire.Ticks, wire.TicksReply](wire.APITicks),
		endpoint[wire.See, wire.Retention](wire.APICut),
		endpoint[wire.See, wire.Clock](wire.APIClock),
		endpoint[wire.AcceptClock, wire.Clock](wire.APIClockAccept),
		endpoint[wire.StateAt, wire.StateReply](wire.APIState).streamed(),
		endpoint[wire.See, wire.ProveReply](wire.APIVerify).streamed(),
		endpoint[wire.See, wire.ProveReply](wire.APIRebuild).streamed(),
	}
}

// messages are what is sent beside requests and replies.
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
