// Package intake follows the stream of plain publishes, and the streams in which sites
// at the edge keep theirs, and makes submissions of their messages.
//
// A [Reader] needs no acks: the log's events say which messages they answer, and the
// next ownership continues after those, so messages read but not answered are simply
// read again. It reads ahead by a bounded number of bytes and hands over [Batch]es in
// the stream's order. When nobody takes them, it stops, and so does the stream.
//
// Every message is answered by an event: one that can't become an item is recorded as
// rejected ([Message.Reject]).
//
// A site's stream is read where it lies, over the site's leaf connection, from the position
// that the log records for that site. So neither a cut link nor a crash on either side can
// lose or repeat a submission: what the log does not answer is in the site's stream.
//
// # Failure
//
// A disturbed stream is read again from the last message that was handed over. Messages
// read from a stream that is gone are still handed over: they are the only copy of what
// was acknowledged.
package intake
