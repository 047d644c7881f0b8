// Package clock keeps a partition's time.
//
// The time is the NATS server's, carried on by this process's monotonic clock,
// and never earlier than the last event. It never goes back, except when an
// operator confirms the server's clock ([Start], Accepted).
//
// A server time that is implausible (too far ahead of everything that is known,
// or behind it) is not followed: the clock goes on from the last time that was
// trusted, and [Clock.Doubtful] tells everyone who drops things by time to wait.
// After a start in front of the log's own times, [Clock.Due] says what is due by
// the server's time instead, until the two agree.
//
// A [Partition] holds what outlives one ownership: the latest time that was right,
// and an operator's confirmation until an ownership begins with it.
//
// The package reads no clock but the one in its [Source], asks nobody for the
// server's time ([Clock.Correct] is told it), and does no I/O. A Clock may be
// used by several goroutines.
package clock
