package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// effects is what the loop asks of the world but for the log and the store. No
// method waits for the server: what becomes of a request is told by signals,
// and a request may be lost, which the sweep makes up for. The pusher is the
// real one; tests have one without a server.
type effects interface {
	ackEffects
	// Push sends an item to its lane.
	Push(it *events.Item, params []byte, token events.Token, lease time.Duration, lane string)
	// Control tells a worker something.
	Control(w events.WorkerID, c wire.Control)
	// DeleteMsg removes a dispatched message; 0 does nothing.
	DeleteMsg(seq uint64)
	// EnsureConsumer makes a lane's consumer; tell has the workers that serve
	// the lane register again, to hear of it.
	EnsureConsumer(key lanes.Key, lease time.Duration, tell bool)
	// DropConsumer removes a lane's consumer.
	DropConsumer(key lanes.Key)
	// FindConsumers leaves word of the consumers that lanes have.
	FindConsumers()
	// Repair makes the dispatch stream and its consumers anew, where missing.
	Repair()
	// PurgeIntake gives free what lies at or before an intake position.
	PurgeIntake(through uint64)
	// CutLog has the projection flushed, and then the log cut below a position.
	// What becomes of it is told by a signal.
	CutLog(below events.Seq)
	// LookAround looks at the streams, the clock, and what is left over in the
	// dispatch stream: messages whose token is at most newest and not in live.
	LookAround(live map[events.Token]bool, newest events.Token)
	// Inspect finds out which of a lane's unclaimed messages have had their one
	// delivery, or are gone.
	Inspect(key lanes.Key, waiting []natsio.Stored)
}
