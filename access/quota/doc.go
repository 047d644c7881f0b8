// Package quota bounds what one user may ask of an engine, so that no user takes
// what all share.
//
// A [Book] knows the limits of each role and user, and counts what users have
// taken. Each [User] is counted apart, so one that is at its limit does not
// disturb another. A refusal has the code quota_exceeded and comes before
// anything is stored.
//
// Plain publishes are not counted: a NATS server stores them without a trace of
// who has sent them. A user who is to be bounded gets no right to publish; see
// access.Grant.
//
// Counts are in memory and begin anew with the process. They are no part of the
// log, and no decision depends on them.
package quota
