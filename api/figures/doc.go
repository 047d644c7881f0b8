// Package figures counts what is not in the projection: how long items have
// been waiting, how many come and go per second, how long they run.
//
// It owns two things, both bounded and both fed from what the projection tells
// its listeners (dispatcher.Hooks.Projected), so they cost no query anything:
//
//   - [Waits] counts the queued items of each type and priority by the moment
//     since which they wait. It is filled once from the projection's ready index
//     and kept from then on.
//   - [Flow] is a ring of seconds for each type: what was submitted, completed,
//     failed, died and ran in the last minute.
//
// Nothing is decided by any of it, and it can be thrown away at any time.
//
// Both may be used by any goroutine. Feeding costs a map lookup or two for each
// item that enters or leaves a queue, and a few additions for each event; the
// benchmarks of this package say how much.
package figures
