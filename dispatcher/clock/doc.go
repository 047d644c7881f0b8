// Package clock keeps a partition's time.
//
// The time is the NATS server's, carried on by this process's monotonic clock,
// and never earlier than the last event. It never goes back, except when an
// operator confirms the server's clock ([Start], Accepted).
//
// An implausible server time (too far ahead of everything known, or behind it) is not
// followed: the clock goes on from the last time that was trusted, and while
// [Clock.Doubtful] is true nothing may be dropped by time. If the log's own times are
// ahead at a start, [Clock.Due] decides by the server's time what is due, until the two
// agree.
//
// A [Partition] holds what outlives one ownership: the latest time that was right,
// and an operator's confirmation until an ownership begins with it.
//
// The package reads no clock but the one in its [Source], does not ask for the server's
// time ([Clock.Correct] is given it), and does no I/O. A Clock is safe for concurrent
// use.
package clock
