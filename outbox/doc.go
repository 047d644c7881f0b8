// Package outbox submits work items from within transactions of PostgreSQL: an
// item exists if, and only if, the transaction commits that also wrote the
// application's own data.
//
// [Outbox.Insert] writes the item into a table, in the application's
// transaction. A [Relay], in any process, takes committed items out of the table
// and publishes them to the engine's intake. It is woken by LISTEN/NOTIFY and
// polls only as a fallback, so an idle relay asks the database next to nothing
// and an item is on its way within milliseconds of its commit.
//
// # Once
//
// The item has its id from the insertion on. The relay publishes it with that
// id as Nats-Msg-Id and as the item's own, and deletes the row once the intake
// has it durably. A relay that dies in between leaves the row, which is
// published again: the engine answers the second message as a repeat of the item
// of that id (for as long as it keeps that item). Any number of relays may run; each row is one relay's at a time.
//
// # Order
//
// One relay publishes the items of committed transactions in the order of insertion.
// With several relays, or concurrent transactions, there is no order between items.
//
// # What can't be published
//
// Insert refuses what the engine would refuse, so the transaction sees the
// error. A row that was written in another way and can't be published is marked
// (refused_at, error), left in the table, and not tried again until
// [Outbox.Retry].
package outbox
