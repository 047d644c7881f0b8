// Package policy is the arithmetic behind the core's decisions: each function
// computes a value from values, and changes nothing.
//
//   - rate.go: rate limits ([Take]), by the generic cell rate algorithm.
//   - circuit.go: when a circuit breaker opens, half opens and closes.
//   - backoff.go: how often, how late and with what timeout a failed item is
//     tried again.
//   - cause.go: the fingerprint of what an item has died of ([CauseOf]), and
//     when deaths of one cause are worth a note.
//
// What a function returns is recorded in an event, so that a later change here
// does not change history.
package policy
