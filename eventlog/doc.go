// Package eventlog is a partition's event stream as a log: appended to by one
// writer at a time, read in order by anyone.
//
// # What it owns
//
// The stream's configuration, the form of its messages (subject, append id,
// event JSON), and the rules by which an event counts: which message is an
// event at all, and which events were decided. Everything else in the system
// is derived from what [Log.Read] hands over.
//
// # Invariants
//
//   - An append is stored only directly behind the position that its caller
//     names. What is stored of it is always a prefix; nothing of it can be
//     stored behind somebody else's event. So the log has no hole and no fork,
//     whoever writes.
//   - At most one append of a writer is outstanding.
//   - A decision counts once its last event is stored. A group of events that
//     something else interrupts was never decided, and no reader hands it over.
//   - Every message of ours carries an append id (the header Nats-Msg-Id). A
//     message without one, or whose subject does not match its event, is
//     foreign: it is skipped, counted and reported, and interrupts a group. A
//     message with an append id that can't be decoded is corruption, which
//     stops the reader.
//
// # How the log is read
//
// There are two readers, for two needs; both judge messages with one decoder.
//
// [Log.Read] is the owner's: every message from a position to the end, in order,
// from a consumer, decoded on several goroutines. It sees all of a decision, so a
// [Grouper] assembles decisions as they come.
//
// [Pages] is for everyone else: a stretch of the log at a time, by direct gets,
// without state in the server however many readers there are. [Pages.Tail]
// reads page after page and waits in between. A filter may leave out parts of a
// decision, so each event's decision is judged by the one message that would
// end it: see scan.complete.
//
// # How an append is fenced
//
// One event is a single publish with the expected last sequence. Several, on a
// stream with one replica, are single publishes sent without waiting, where
// each but the first carries the id of its predecessor as the expected last
// message id, and the first the expected last sequence. On a replicated stream
// (where a refused message id stops the stream), and where every write is
// synced to disk, several are one atomic batch with the expected last sequence
// on its first message. See append.go for what the server does with these.
//
// # Foreign messages
//
// In an account that others share, messages that no engine wrote may come into
// the stream: a server puts its replies wherever a client says. They decide
// nothing and fence nobody. An append that finds some in its place reads them,
// and goes on behind them if all are foreign; an event of another engine among
// them, whole or a part of its decision, fences as ever. Of a chain that they
// interrupt, whole decisions count, and the rest is appended again: all readers
// skip a partial decision, and none of its rest can be stored later, since its
// predecessor is no longer the last message. [Appended.Places] says where the
// events are.
//
// Naming the last position is a race while they keep coming. So the next
// appends name the owner's own last event on the partition's subjects instead,
// to which another owner must write first: see strangers.go for why that is as
// safe.
//
// An ambiguous append stays ambiguous, foreign messages or not.
//
// # When the outcome is not known
//
// A refusal is [ErrFenced] or [ErrFull]. Any other end of an append without
// its acknowledgement is [ErrAmbiguous]: it may be stored, wholly or a prefix
// of it, and what is still on its way may be stored later. From then on every
// append fails until [Log.Reset]. The recovery is always the same, and the same
// as at start and at takeover; [Settle] does it:
//
//  1. Reset: a new connection, so that no ack of old is mistaken for a new one.
//  2. Ask the stream's leader for the last sequence, and replay up to it.
//  3. Append a barrier (an owned event) directly behind what was read.
//  4. Refused: something else came in between, perhaps our own late message.
//     Go on from 2. Outcome unknown again: go on from 1.
//  5. Stored: everything of ours that was in flight names a position or a
//     predecessor which is no longer the last, so none of it can land any
//     more. Read the barrier back too, and go on from there.
//
// Whether an event of ours landed is answered by the replay, the same way as
// for the events of others.
//
// # Who wins
//
// The stream. A projection that is ahead of it ([ErrBehind]) was built from
// another stream, or the stream has lost its tail: rebuild it. On a replicated
// stream that is believed only when it has been so for 15 s: in the seconds
// around a change of the leader a server that is behind may be the one to
// answer.
package eventlog
