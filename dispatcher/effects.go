package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// effects is everything that the loop asks of the world except the log and the store. No
// method waits for the server: signals report the outcome of a request, and the sweep makes
// up for a lost one. The real implementation is natsio.Pusher; tests have one without a
// server.
type effects interface {
	ackEffects
	// Push sends an item to its lane.
	Push(it *events.Item, params []byte, token events.Token, lease time.Duration, lane string)
	// Assign has an assigned item sent to its worker's inbox, and FlushAssigned sends what
	// Assign was given. What is lost is found out by the item's own timer.
	Assign(d *table.Dispatch, it *events.Item, params []byte)
	FlushAssigned()
	// Control sends a worker a control message.
	Control(w events.WorkerID, c wire.Control)
	// DeleteMsg removes a dispatched message; 0 does nothing.
	DeleteMsg(seq uint64)
	// EnsureConsumer makes a lane's consumer. With tell, the workers that serve the lane
	// are asked to register again, so that they learn of it.
	EnsureConsumer(key lanes.Key, lease time.Duration, tell bool)
	// DropConsumer removes a lane's consumer.
	DropConsumer(key lanes.Key)
	// FindConsumers lists the lanes that have consumers; a signal brings the list.
	FindConsumers()
	// Repair makes the dispatch stream and its consumers anew if they are missing.
	Repair()
	// PurgeIntake removes the intake messages up to and including a position.
	PurgeIntake(through uint64)
	// CutLog has the projection flushed, and then the log cut below a frame. A signal
	// reports that it is done.
	CutLog(below uint64)
	// LookAround checks the streams and the clock, and removes stale messages from the
	// dispatch stream: those whose token is at most newest and not in live.
	LookAround(live map[events.Token]bool, newest events.Token)
	// Inspect finds which of a lane's unclaimed messages have had their only delivery, or
	// are gone.
	Inspect(key lanes.Key, waiting []natsio.Stored)
}
