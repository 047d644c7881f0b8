// Package wire is the protocol between clients, workers and the engine: the
// names of subjects, streams, consumers and headers, and the JSON of requests
// and replies. It is the one place where they are spelled; everything that
// speaks over NATS (the engine, the root client, package workers) uses it, and
// a client in another language needs nothing else. It knows package events and
// does no I/O.
package wire
