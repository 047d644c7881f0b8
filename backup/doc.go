// Package backup copies what an engine can't derive into files, while the engine
// works, and fills an empty JetStream from them.
//
// # What a backup is
//
// A folder, or one tar file, of a manifest and segments. A segment is a
// zstd-compressed run of one stream's messages as they are stored: sequence, time,
// subject, headers, data. Four streams hold what is primary: the event log, the
// intake, the items' logs and outputs, and the object store of documents. Everything else an
// engine derives from the log.
//
// The manifest names every segment with its range, size and SHA-256, and carries a
// checksum of its own. It is written last and replaced whole: without it there is no
// backup, and an interrupted run leaves the one before it as it was. What that run
// has copied of the log is kept in a list beside it, and the next run goes on from
// there.
//
// # One position
//
// A backup is the state as of the last position of the log in it. The order of the
// reading makes that so:
//
//  1. The intake. A submission that is decided while it is read is gone from there,
//     but then its events are in the log before step 2.
//  2. The end of the log, as its leader says it, and the first position that it keeps,
//     in one answer. A log is cut only when the round that re-states what it keeps is
//     stored, so this range always stands alone.
//  3. The log up to that end. If it is cut meanwhile beyond what has been read, step 2
//     is done again.
//  4. Documents and items' logs: whatever those events refer to was stored before they
//     were.
//
// A submission that is both in the intake and, decided, in the log counts once: the log
// says which message of the intake it has answered, and the engine reads on behind that.
//
// Every message is read by a request of its own, which the leader of its stream
// answers, so a replica that lags can't shorten a backup. Such a request is also all
// that the role operate needs, in an account that imports it: its answer is never
// empty.
//
// # Restoring
//
// [Restore] has the server restore each stream, by the format of its own backups
// (ADR-63, nats-server 2.15 or later), so sequences, gaps, headers and times are those
// of the backup. Publishing the messages again could not do that: documents refer to
// the sequences of their parts, retries of a submission to its time, and the headers by
// which appends are fenced would be obeyed anew.
//
// Nothing that exists is overwritten. Each stream is marked as unfinished in its metadata
// until all of them are there, on enough replicas, and were read back and compared; an
// engine refuses a log with that mark. The log comes first, so no engine can find an
// intake without its log. A restore that was interrupted begins anew: it removes only
// streams that carry its mark, or never held a message.
package backup
