// Package query answers what people ask of a projector's store: lists and
// searches, dead items and their causes, rejected submissions, one item with
// all that is kept beside it, now or at a moment of its past.
//
// # What it owns
//
// How a question becomes reads of the store's indexes, and the bounds of what a
// page may read and return. It writes nothing, and keeps nothing between calls:
// a page's cursor is all that the next page needs. What is indexed is said by
// package projector; how keys and records look by package layout.
//
// # How a list finds its items
//
// Each filter that an index knows is a source: an ordered set of places, the
// last touched first (source.go). A listing is the intersection of its sources
// (allOf), found by leaping: whichever is behind seeks to the place of the
// furthest one. A question without a field is the union of several sources
// (anyOf). Each item found is then checked against all filters, so a source
// only has to be complete, never exact. See docs/guides/LISTING.md for what a
// page costs.
//
// The planner is the largest part of this package, and earns its keep: a page of
// the hundred items with a label, among a million others, takes 2 ms. Without a
// source the same page reads [MaxListScan] items, takes 120 ms and may be empty.
//
// # Invariants
//
//   - All of a page is as of one moment: it is read from one view.
//   - Through the pages of one listing an item that nothing touches comes exactly
//     once, one that is touched at most once.
//   - A page takes at most [MaxListScan] steps, then ends with a cursor.
//
// # Failure
//
// What the caller got wrong is an [events.Error]. Every other error means that
// the store is closed or damaged.
package query
