// Package core is the pure core of Streamwright: it decides what commands do,
// and folds events into the state.
//
//   - [Decide] answers a [Command] with the events that it causes, or refuses
//     it with an [*events.Error] that tells the caller what to do.
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
// # The walk of a submission
//
// [Decide] (decide.go) calls Submit.decide, and the steps stand in submit.go in
// their order. The walk leaves that file for these only:
//
//	state.go   original: the holders of its id and keys, if it brings any
//	state.go   begin: what is known of its type
//	check.go   create: [Submit.Check], unless the caller has checked it already
//	decide.go  begin and ends: each event is made
//	dedup.go   place: what it duplicates, if it has a dedup key or a verdict
//	after.go   place: what it comes after, if anything
//	limits.go  admit: the queue of the engine, and rate limits, if there are any
//
// Everything else is decided in submit.go, from top to bottom.
//
// # Invariants
//
// A State has one owner goroutine; nothing here locks. The events, items and
// [Changes] that leave it are never written again and may be read by anyone.
//
// What always holds, and is tested for any sequence of commands:
//
//   - The live state, whatever it has cached, projected or lost in a restart,
//     is the one that a replay of the encoded log gives, and decides the same.
//   - An item changes only along the transition table; no decision leaves it
//     in created or failed.
//   - A dedup key has one holder, which is not terminal.
//   - A token is claimed once. An attempt counts unless its run was released.
//   - Time does not go back from one event to the next.
//   - A tick of a schedule is answered once, and not before its time.
//
// A refusal ([*events.Error]) concerns its caller alone. An error of the base
// means that nothing was decided. An error of Apply means that the State is of
// no use any more; if it wraps [events.ErrCorrupt], the log holds what can't
// have been decided, and the partition stops.
package core
