package dispatcher

import (
	"github.com/streamwright/streamwright/dispatcher/ackmode"
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
	// Assign has a claimed item sent to its worker, and FlushAssigned sends what Assign was
	// given. What is lost is found out by the item's own timer.
	Assign(d *table.Dispatch, it *events.Item, params []byte, left *wire.Left)
	FlushAssigned()
	// Control sends a worker a control message.
	Control(w events.WorkerID, c wire.Control)
	// PurgeIntake removes the intake messages up to and including a position.
	PurgeIntake(through uint64)
	// CutLog has the projection flushed, and then the log cut below a frame. A signal
	// reports that it is done.
	CutLog(below uint64)
	// LookAround checks the streams and the clock.
	LookAround()
}

// ackEffects is the part of effects that ack types need.
type ackEffects interface {
	// PushAck sends an item to the dispatch stream. If it is sent again under the same
	// token, it is stored once.
	PushAck(d *table.Dispatch, it *events.Item, params []byte)
	// DeleteAck removes a message that must not run, or no longer; 0 does nothing.
	DeleteAck(seq uint64)
	// CleanAcks removes messages whose outcome is recorded: all below floor, and those of
	// ended. A signal reports its end.
	CleanAcks(floor uint64, ended []uint64)
	// EnsureAck makes a type's consumer.
	EnsureAck(c ackmode.Consumer)
	// WithdrawAcks pauses a type's consumer, and takes back the messages that it has not
	// delivered.
	WithdrawAcks(c ackmode.Consumer, waiting []natsio.Stored)
	// InspectAcks finds how far a type's consumer is with messages, and repairs a consumer
	// whose configuration has been changed.
	InspectAcks(c ackmode.Consumer, waiting []natsio.Stored)
	// LookUpAck finds the dispatch that a word is about.
	LookUpAck(w ackmode.Word)
}
