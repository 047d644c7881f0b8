// Package projector folds the event log into a Pebble store, and proves that the
// store is what the log says. Package query answers people's questions from it.
//
// # What it owns
//
// The store: items, their params, results, histories and merged provenances, the
// indexes over them, the held keys, the types with their counters, and the
// position (applied) up to which the log is folded in. All of it is derived: if
// the store disagrees with the log, it is deleted and rebuilt.
//
// # Order of events
//
// There is one way in. [core.State] folds events and hands out what they have
// changed as [core.Changes], which [Store.Commit] writes in one atomic Pebble batch
// together with the position. The owner of a partition does so live. Everything
// that reads the log goes through [Replay], in commits bounded in events and in
// bytes: a start and a takeover up to the log's end, [Store.Rebuild], [Store.Verify] and
// [StateAt] from nothing. How the events were cut into batches leaves no trace in
// the store: tests and Verify compare [Store.Digest].
//
// The bound in bytes costs a takeover of large items CPU time: 1,500 items of 64
// KiB take 0.9 s in place of the 0.7 s that one commit of all of them takes. Such a
// commit skips the memtable, and is flushed only afterwards. But it is all in memory.
//
// # Invariants
//
//   - Every index entry is a pure function of one item (see indexSet.fill), so
//     the difference between two versions of an item is the difference between
//     two small sets of entries.
//   - A key whose Until is not after the LastAt of the store's position does
//     not exist. It is removed from disk later, a bounded number at a time;
//     lookups, digests and comparisons leave it out from that moment.
//   - The store keeps nothing in memory per item.
//
// # A log that begins with a round
//
// The log must not grow for ever, and the rest of it must suffice to rebuild
// the whole store. So a round re-states everything that is kept at the log's
// end (docs/internals/LOG.md lists its events), and the log is then purged
// below the round's first position, B. Other work goes on until the round's
// last position, E. This is the subtlest part of the system; here is why it is
// correct.
//
// Two readers must end with the same store, byte for byte:
//
//   - The old reader has folded everything below B. The round tells it nothing
//     new. Of a carried event it takes only the position (Item.BaseSeq), which
//     says where in the log the item now begins, and the folding of a history
//     that has become too long.
//   - The new reader starts at B with nothing. Until E its Meta is Partial. It
//     folds created and carried events, and later events of the items that it
//     knows. It skips an event of an item that it does not know: that item's
//     carried event is still to come, and includes what the skipped one did.
//     Whatever belongs to no item (types, pauses, circuits, schedules, the keys of
//     rate limits) it takes from E alone, which states it as of E.
//
// The invariant, from B on: every item that the new reader knows is the same as
// in the old reader. It holds when the item becomes known, because a carried event
// states the whole item as of its own position, and it is kept, because from there
// both readers fold the same events of that item. At E every item is known: each
// has been created or carried since B.
//
// Only an event that concerns two items can break the invariant, such as the end
// of a child, which its parent counts. The new reader may know one of them and not
// the other. The one that it knows must then be carried again, after that event.
// While a round is under way the old reader notes such items in three cases:
//
//   - recarry: an event of X changes Y; X's base lies below B, and Y has been
//     carried. The new reader skips the event along with X. Every change of an item
//     goes through applier.writable, which notes Y.
//   - dependsOn: the outcome of an event of Y depends on Z; Y has been carried, and Z's
//     base lies below B. The new reader decides without Z, perhaps differently.
//     The code that looks at Z calls dependsOn, which notes Y.
//   - The old reader sees from X that Y does not change, and the new one, without
//     X, might change it. The old reader then makes Y writable anyway (takeKey and
//     tellParent), and recarry notes it.
//
// To note Y is to set its BaseSeq to 0 and to put it on the list that
// State.TakeRecarry returns. A round does not end while that list has an item, or
// while any item's base lies below B ([Store.Uncarried]). The list is worked off
// in the same batches as the events that feed it.
//
// An item is carried only when the store has all of it (State.Projectable), because
// its history and documents are read from the store, not from the State. An item
// that is touched all the time might never be settled. So after a second in which
// nothing could be carried the loop decides no other work (package dispatcher/retention) until
// something is, which takes as long as one commit.
//
// To change anything here safely: let every change of an item go through
// applier.writable; call dependsOn where the outcome of an event depends on another
// item; state in E whatever belongs to no item. TestCutLogGivesTheLiveStore runs
// random work through rounds and compares the stores of the two readers.
//
// Two other designs were rejected. Carrying from a frozen view (a Pebble snapshot
// taken at B) states items as of B at positions after B, so a reader would have to
// fold the events in between out of order, or the whole round would have to be
// written before any other work. Keeping a checkpoint of the store in the object
// store makes the log depend on a second thing that must be as durable, be
// verified, and be readable by every later program. As it is, the log alone, read
// from its start, is the whole truth.
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
