// Package eventlog is a partition's event stream as a log: appended to by one
// writer at a time, read in order by anyone.
//
// # What it owns
//
// The stream's configuration and the form of its messages. Everything else in
// the system is derived from what [Log.Read] hands over.
//
// # Frames
//
// One append is one JetStream message: a [Frame]. Its body holds the events as
// JSON, one a line. Its header holds the frame's id, the owner's epoch and name,
// the log's format level, the number of events in the frame, and the number of
// events in the log before it. A message is stored whole or not at all, so a
// decision is, too.
//
// An event's position ([events.Seq]) is the stream sequence of its frame and its
// index in the frame. Positions are ordered, but not contiguous.
//
// # How a frame is appended
//
// The owner has read the stream up to some sequence, and has no other append
// under way. It publishes the frame and says which sequence must be the
// stream's last. The server compares and stores in one step. There are four
// outcomes:
//
//   - Acknowledged: the frame is stored at the next sequence. The owner goes on
//     from there.
//   - Refused because the stream has another last sequence: [ErrFenced].
//     Somebody else has written. Nothing of the frame is stored, now or later.
//   - Refused because there is no room: [ErrFull]. Nothing is stored.
//   - No answer: [ErrAmbiguous]. The frame may be stored, now or later. Every
//     further append fails until [Log.Reset].
//
// After ErrFenced and ErrAmbiguous, as at start and at takeover, [Settle] makes
// its caller the log's only writer:
//
//  1. Take a new connection, so that no late acknowledgement is mistaken for
//     another.
//  2. Ask the stream's leader for the last sequence, and replay up to it.
//  3. Append a barrier, a frame with an owned event, behind that sequence.
//  4. If the barrier is refused, something was stored meanwhile: go on from 2.
//     If its outcome is unknown, go on from 1.
//  5. Once it is stored, replay it too, and go on from there.
//
// Every frame that was in flight before the barrier names a last sequence below
// the barrier's, so none of them can be stored any more. Whether one was stored
// before the barrier is answered by the replay, in the same way for the caller's
// own frames and for those of others.
//
// So the log has no hole and no fork, whoever writes, and two owners never both
// append behind the same frame.
//
// # Foreign messages
//
// In an account that others share, messages that no engine wrote may come into
// the stream. They have no frame id. Readers skip, count and report them. One
// that takes the place of an append fences it; Settle goes on behind it.
//
// A frame of an owner that another had succeeded when it was stored, which only a
// fault of the log lets in, is handed over by [Log.Read], [Log.Follow] and [Replay],
// whose callers know the epoch that they have come to, and skipped by package pages.
// All go by [events.Meta.PassesOver].
//
// A message that has a frame id and can't be decoded is corruption, which stops
// every reader. So does a sequence that is missing in the middle of the stream.
//
// # How the log is read
//
// There are two readers. Both decode messages with [Decode].
//
// [Log.Read] and [Log.Follow] hand over whole frames, from a sequence on, to
// whoever keeps the state: owner, standby, rebuild. A long read begins with the files
// of the server of this process, if it has one; the other frames come from a
// consumer. They are decoded on several goroutines, within bounds.
//
// Package pages hands over single events, filtered, a page at a time, to everyone
// else. It reads by direct gets, so that the server keeps no state however many
// readers there are; those that follow share the frames that came last.
// Its Tail reads page after page and waits in between.
//
// # Who wins
//
// The stream. A projection that is ahead of it ([ErrBehind]) was built from
// another stream, or the stream has lost its tail: rebuild it. On a replicated
// stream that is believed only when it has been so for 15 s: in the seconds
// around a change of the leader a server that is behind may be the one to
// answer.
package eventlog
