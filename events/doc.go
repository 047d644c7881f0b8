// Package events is the vocabulary of Streamwright: what can happen to a work
// item, and what is known of one.
//
// It owns
//
//   - the item states, the event kinds, and the transition table between them;
//   - the payload of each kind, and the codec of the log: [Event.AppendJSON]
//     and [Decoder];
//   - what is kept: [Item], [TypeInfo], [Meta], keys, records and documents;
//   - the settings of types and of the engine, their defaults and bounds;
//   - ids, and the [Error] that tells a caller what to do.
//
// Package events/policy computes rate limits, circuits, waits and the causes of
// deaths from these; package events/core decides commands and folds events.
//
// The package is pure, as those two are: no I/O, no clock, no randomness. It
// imports no other package of this module but events/quickjson, on which the generated
// half of the codec stands. Every event that the core decides is
// below 2 MiB, and can be decoded again: [MaxParamsBytes] and its neighbours bound
// each field.
//
// An error of decoding wraps [ErrCorrupt] or [ErrNewer]. When the log and
// anything else disagree, the log wins.
package events
