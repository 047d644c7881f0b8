// Package live shows a person what the engine does now, and what it has done in
// the last hour: a feed of server-sent events with the engine's figures and a
// sample of what happens, and trends by type. The web page is made of it; anyone
// who may read may use it.
//
// # Who runs what
//
// A [Hub] has one loop, which owns the clients and their pace. The projector
// hands it each commit through [Hub.Projected], which never waits: while somebody
// watches, it keeps a window of at most maxWindow events, and counts the rest.
// The loop empties that window at most four times a second, and asks the engine
// for its figures at most once a second for all clients together. What it makes
// of either is rendered once and shared by all clients that asked for the same.
// The trends are samples of the totals of package api/figures.
//
// A client is served by its own HTTP handler, from a mailbox that the loop never
// waits for. The mailbox keeps the newest figures and the newest maxBacklog frames of
// events; what had no room is reported as skipped with the next frame. A client that
// takes nothing for writeTimeout is dropped.
//
// # What it is not
//
// It is a picture, not a record: what a person can't read is left out, and
// counted. Who needs every event uses /api/v1/events, or tails the stream.
//
// # Bounds
//
// Clients: [MaxClients]. Trends: an hour for each type, about 11.3 KiB, so 10 MiB
// for events.MaxTypes of them; they begin anew with the process. With nobody
// connected a commit costs one atomic load.
package live
