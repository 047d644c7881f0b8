package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// outside is what the loop asks of the world but for the log and the store. No
// method waits for the server: what becomes of a request is told by signals,
// and a request may be lost, which the sweep makes up for. The pusher is the
// real one; tests have one without a server.
type outside interface {
	nativeOutside
	// push sends an item to its lane.
	push(it *events.Item, params []byte, token events.Token, lease time.Duration, lane string)
	// control tells a worker something.
	control(w events.WorkerID, c wire.Control)
	// deleteMsg removes a dispatched message; 0 does nothing.
	deleteMsg(seq uint64)
	// ensureConsumer makes a lane's consumer; tell has the workers that serve
	// the lane register again, to hear of it.
	ensureConsumer(key lanes.Key, lease time.Duration, tell bool)
	// dropConsumer removes a lane's consumer.
	dropConsumer(key lanes.Key)
	// findConsumers leaves word of the consumers that lanes have.
	findConsumers()
	// repair makes the dispatch stream and its consumers anew, where missing.
	repair()
	// purgeIntake gives free what lies at or before an intake position.
	purgeIntake(through uint64)
	// cutLog has the projection flushed, and then the log cut below a position.
	// What becomes of it is told by a signal.
	cutLog(below events.Seq)
	// lookAround looks at the streams, the clock, and what is left over in the
	// dispatch stream: messages whose token is at most newest and not in live.
	lookAround(live map[events.Token]bool, newest events.Token)
	// inspect finds out which of a lane's unclaimed messages have had their one
	// delivery, or are gone.
	inspect(key lanes.Key, waiting []pushAck)
}
