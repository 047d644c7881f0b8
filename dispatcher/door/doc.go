// Package door takes plain publishes straight to the loop, where one embedded server serves
// one engine.
//
// A plain publish goes into the intake stream otherwise: a write, and with the durability
// always a sync, of its own for each, before the loop reads it and appends its events. The
// door saves that. The server maps the subject of plain publishes to the door's, the door
// makes submissions of the messages as the intake's reader does, and the loop decides them
// in batches. A message is acknowledged, as a stream would, when its events are durable.
//
// The ack's sequence is the handle of the publish: [wire.DirectIntake] of the position of
// the event that answers it. It is above every sequence of the stream.
//
// # Two ways
//
// The door leads to the loop or to the stream:
//
//	toStream   each message is passed on to the stream, which answers its publisher
//	opening    messages wait until the log answers all that the stream has
//	toLoop     messages are decided
//	closing    messages wait until those under way are decided or given back
//
// It leads to the stream at first, and whenever the loop gives a message back (the engine's
// queue is full, or the intake is paused, as when the disk is full), more than maxBytes wait,
// a message asks for what only the stream can do, or a message was read in the stream that
// did not come by the door. Once the stream's backlog is decided, it turns back. So messages
// are decided in the order in which they came, whichever way each takes. The one exception is
// the end of an ownership, when the mapping is removed: who publishes without waiting for
// acks may then see its last messages change places.
//
// # Failure
//
// What the loop has not decided when the ownership ends goes to the stream. So does what it
// has decided without knowing whether the append arrived, under the id that the item has
// then: it makes no second item. A killed process forgets messages that it has not
// acknowledged, and their publishers repeat them. When the server is restarted or its
// accounts are reloaded, the mapping is gone and messages go to the stream; reading them
// there makes the door open anew.
package door
