// Package intake follows the stream of plain publishes, and makes submissions of
// its messages.
//
// A [Reader] needs no acks: the log's events say which messages they answer, and
// the next ownership reads on from there, so what was read and not appended is
// simply read again. It reads ahead by a bounded number of bytes and hands over
// [Batch]es in the stream's order; when nobody takes them, it stops, and so does
// the stream.
//
// Every message is answered by an event, whatever it is: what can't become an item
// is recorded as rejected ([Message.Reject]).
//
// # Failure
//
// A disturbed stream is read again from the last message that was handed over.
// What was read of a stream that is gone is still handed over: it is the only copy
// of what was acknowledged.
package intake
