// Package projector folds the event log into a Pebble store, and proves that the
// store is what the log says. Package query answers people's questions from it.
//
// # What it owns
//
// The store: items, their params, results, histories and merged provenances,
// the indexes over them, the held keys, the types with their counters, and the
// position (applied) up to which the log is folded in. All of it is derived.
// When the log and the store disagree, the log wins: the store is deleted and
// rebuilt.
//
// # Order of events
//
// There is one way in. [events.State] folds events, hands out what they have
// changed as [events.Changes], and [Store.Commit] writes that in one atomic
// Pebble batch together with the position. The owner of a partition does so
// live. Whatever reads the log does it through [Replay], in commits bounded in
// events and in bytes: a start and a takeover up to the log's end, [Rebuild],
// [Store.Verify] and [StateAt] from nothing. How the events were cut into
// batches leaves no trace in the store; [Store.Digest] is how tests and Verify
// know.
//
// # Invariants
//
//   - Every index entry is a pure function of one item (see indexEntries), so
//     the difference between two versions of an item is the difference between
//     two small sets of entries.
//   - A key whose Until is not after the LastAt of the store's position does
//     not exist. It is removed from disk later, a bounded number at a time;
//     lookups, digests and comparisons leave it out from that moment.
//   - The store keeps nothing in memory per item.
//
// # Failure
//
// Pebble's own write-ahead log is off: after a crash the store is as of its
// last flush, whole, and the log's tail behind it is replayed. Flushes happen
// at least every [Options.FlushEvents] events and every [Options.FlushEvery]
// while there is something to flush, which bounds that tail.
//
// A failed Commit leaves the store as it was; the State that the Changes came
// from is ahead of it then and must be dropped. After a power loss the store
// may be ahead of the log: [Store.CheckLog] notices, and the store is rebuilt.
//
// A rebuilt store is made beside the live one, in a generation folder of its
// own, and takes its place by the rename of one small file. What a crash
// leaves half made is removed when the folder is next opened.
package projector
