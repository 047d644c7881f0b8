// Package playground is an engine small enough for a page of the documentation: the
// core, the ready queues, a clock that the reader moves, and workers' slots.
//
// The rules are the engine's own. [core.Decide] decides each command, and whether an
// item may begin: a claim that it refuses leaves the item where it is. Package readyq
// orders the items and lets groups take turns. What stands here is what a dispatcher
// does around them: it looks at what is due, and gives free slots to what goes first.
//
// One worker serves all types with its slots, never falls silent unless it is told to,
// and starts what it is given at once. So types compete by rank for its slots, as they
// do in an engine for a worker that serves several. There are no pools, no schedules,
// no retention, and no lanes: an item that asks for capabilities is not run.
//
// Nothing is drawn and no clock is read: the same commands give the same events, bytes
// for bytes, natively and as WebAssembly (see wasm). A [Session] is bounded, has one
// owner, and does no I/O.
package playground
