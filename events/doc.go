// Package events is the vocabulary of Streamwright and its pure core.
//
// It owns the meaning of a work item's life: the item states and the
// transition table, the events that move an item between them, the commands
// that ask for a change, and the two functions that everything else is built
// around:
//
//   - [Decide] answers a [Command] with the events that it causes, or refuses
//     it with an [*Error] that tells the caller what to do.
//   - [State.Apply] folds one event into the state. It errs only when the log
//     is corrupt.
//
// Both are pure: no I/O, no clock, no randomness. Time, fresh ids, tokens and
// jitter come in with the command, and every outcome that depends on them is
// recorded in the event, so replay never computes it again.
//
// A [State] is an overlay of everything decided and not yet projected (plus a
// bounded cache) over a [Base], the projection. Reads through it therefore see
// the complete prefix of the log. [State.TakeChanges] hands what has changed
// to the projection, which writes it in one atomic batch.
//
// A State has one owner goroutine; nothing here locks. The events, items and
// [Changes] that leave it are never written again and may be read by anyone.
//
// When the log and anything else disagree, the log wins.
package events
