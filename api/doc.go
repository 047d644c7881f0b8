// Package api is the engine's face to other programs: the NATS micro service
// that answers requests, and HTTP for health and metrics.
//
// It decides nothing and keeps nothing. What changes something goes to the
// engine's loop ([Core]); what asks goes to the projection ([Queries]), once
// that has reached the position that the caller names.
//
// # Who runs what
//
// The NATS client hands over the requests of one endpoint one after the other,
// so a handler must be quick. Submissions, reports and operators' commands are
// checked there and put into the engine's bounded queue; the reply is sent from
// the engine's answer, when the events are durable. While that queue is full
// the endpoint waits, at most [enqueueTimeout], which pushes back on that
// endpoint's callers alone. Queries, and what workers say of themselves, run on
// goroutines of their own, at most [MaxQueries] and [MaxControl] at once, since
// they may wait; beyond that the answer is "unavailable". A wait costs no
// goroutine: it is an entry in a table, at most [MaxWaits], that the projection's
// commits look into.
//
// # Errors
//
// A refused request is answered with {"error":{"code","message"}} and, for the
// tools, the micro service's two error headers. Requests are read strictly: a
// field that the engine does not know is bad_request, since a setting that is
// silently ignored does harm later. In an array each element is answered on its
// own.
//
// # Stopping
//
// Stop refuses what comes, answers what is under way (waits with
// "unavailable", which clients try again elsewhere), and returns when the last
// reply is sent.
package api
