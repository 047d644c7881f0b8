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
// The log may not grow for ever, and what is left of it must give the whole
// store by itself. So a round re-states, at the log's end, all that is kept (see
// docs/operate/RETENTION.md for its events), and the log is then purged in front of the
// round's begin, at position B. Other work goes on between B and the round's end,
// E. This is the subtlest thing in the system; here is why it is right.
//
// Two readers must end with the same store, byte for byte:
//
//   - The old reader has folded everything in front of B. To it the round says
//     nothing new: of a carried it takes only the position (Item.BaseSeq), which
//     says from where on the log has the item, and the folding of a history that
//     has become too long.
//   - The new reader begins at B with nothing. Until E its Meta is Partial: it
//     folds a created and a carried, and the later events of items that it
//     knows; it skips an event of an item that it does not know yet, since that
//     item's carried comes later and says what has become of it. What belongs to
//     no item (types, pauses, circuits, schedules, limits' keys) it takes from
//     E alone, which states it as of E.
//
// By induction over the positions from B on, this holds: each item that the new
// reader knows is as the old reader has it. A carried holds the whole item as of
// its own position, so it begins so. Thereafter both fold the same events of that
// item. At E every item is known, as each was created or carried since B.
//
// One thing can break the induction: an event that concerns two items, such as a
// child's end, which its parent counts. The new reader may know only one of them.
// Then the known one must be carried once more, behind the event. Three things
// see to it, all in what the old reader does while a round is under way:
//
//   - outdate. An event of X, whose base lies before B, changes Y, which has been
//     carried: the new reader skips the event with X. State.writable, through
//     which every change of an item goes, notes Y.
//   - leans. An event of Y, which has been carried, depends on what Z is, whose
//     base lies before B: the new reader concludes without Z, and maybe
//     otherwise. Whoever looks at Z says so; Y is noted.
//   - Where the old reader knows from X that Y does not change, but the new one,
//     without X, may change it, the old one makes Y writable all the same (takeKey
//     and tellParent), so that outdate notes it.
//
// To note Y is to set its BaseSeq to 0 and to put it on the list that
// State.TakeRecarry returns. The round does not end while something is on that
// list, nor while an item is left whose base lies before B ([Store.Uncarried]).
// The list is worked off in the same batches as the events that feed it.
//
// An item is carried only when the store has all of it (State.Settled), because
// its history and documents are read from here and not from the State. An item
// that is touched all the time might never be settled; after a second in which no
// item could be carried the loop stops deciding other work (keeper.quiet) until
// one is, which takes as long as a commit.
//
// To change anything here safely: let every change of an item go through
// State.writable; call leans where an event's outcome depends on another item;
// put what belongs to no item into E. TestCutLogGivesTheLiveStore runs random
// work through rounds and compares the two readers' stores.
//
// Two other ways were weighed. To carry from a frozen view (a Pebble snapshot
// taken at B) would state items as of B at positions after B; the new reader
// would have to fold what lies between behind its back, or find each item's
// carried before its events, so the round would have to come first in the log,
// with all work stopped while it is written. To keep a checkpoint of the store in
// the object store makes the log depend on a second thing that must be as
// durable, be verified, and be of the right format for any program that reads
// the log later; now the log alone, read from its start, is the whole truth.
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
