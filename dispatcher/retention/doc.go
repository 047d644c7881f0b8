// Package retention forgets items that have ended, and keeps the log from growing.
//
// It does two things, a bounded part of them in each batch ([Retention.Work]):
//
//	pass    looks at the items that have ended, and prunes those past their time
//	round   re-states all that is kept at the log's end, then cuts the log before it
//
// A round begins, carries every item whose base is older, ends with a snapshot of the
// rest, waits until that is surely on disk, and then has the log cut. It is due when the
// log holds so many events that re-stating what is kept is a small part of what is
// written.
//
// All of this state can be lost: after a takeover passes and rounds begin anew. Only the
// cut after a finished round is resumed, from the partition's record. While the server's
// clock is implausible, nothing is done.
//
// [Salvage] writes a round into an empty log: the way back from a lost log.
//
// A Retention is owned by the dispatcher's loop.
package retention
