package access

import (
	"maps"
	"slices"

	"github.com/streamwright/streamwright/wire"
)

// operated are the endpoints that need Operate and nothing else will do for.
// Needs would say so without this list; it is here so that a new endpoint is
// decided about (package api's test compares), and so that the permissions on
// NATS can name each.
var operated = []string{
	wire.APIReschedule, wire.APIConfigure, wire.APITypeRemove, wire.APIRebuild, wire.APIDrain, wire.APIUndrain, wire.APIPause, wire.APIResume, wire.APICircuitReset, wire.APICut, wire.APIClockAccept,
	wire.APIReplay, wire.APIPurge, wire.APIBulk, wire.APIReplayRejected, wire.APIPurgeRejected,
	wire.APIScheduleSet, wire.APIScheduleRemove, wire.APISchedulePause, wire.APIScheduleResume, wire.APIScheduleFire,
}

// Endpoints lists every endpoint that is known here, sorted.
func Endpoints() []string {
	return slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(needs)), operated)))
}
