// Package kvstate keeps the KV buckets that the engine shows to other
// programs. Nothing in them is the truth: each may be deleted at any time, also
// while the engine runs, and comes back.
//
//   - [Dedup], the bucket work_dedup: which dedup keys are taken, by which item,
//     in which state. It mirrors the projection, behind it and off its path: it
//     is fed the changes by position, merges what it has not written yet by
//     key, and keeps its own position in the bucket. A bucket that is gone,
//     whose position is not where the feed begins, or into which somebody else
//     has written, is written afresh from a snapshot of the projection. Between
//     a change and its showing lie some milliseconds ([DefaultDedupLag]), longer
//     under load; a key that comes and goes within that time never shows. So a
//     program may read it before it submits, and the submission alone decides.
//   - [Workers], the bucket work_workers: the registered workers. Entries
//     expire when the worker's heartbeats end.
//   - [Partitions], the bucket work_partitions: who owns which partition. On an
//     existing NATS it is the lease by which one engine owns the log and the others
//     stand by: it ends when its holder is silent ([DefaultPartitionTTL]). An
//     engine with a server of its own just shows itself. It is about liveness
//     only; safety comes from the log.
//   - [Keys], the bucket work_keys, where several engines share a log: what they
//     share and nobody else may know, such as the key of HTTP workers' sessions.
//     Each keeps a copy, and puts it there if it is gone.
//
// A dedup key may hold any byte, a KV key may not: see [DedupKey] for its form.
// The mirror's position is the bucket's entry _.position.
//
// On disagreement with the projection the projection wins.
package kvstate
