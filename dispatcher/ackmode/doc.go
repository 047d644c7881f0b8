// Package ackmode keeps the books of ack types: those with protocol "ack". Their worker is
// any JetStream consumer, which claims nothing and reports nothing (docs/guides/ACK.md).
//
// Items of such a type go to the dispatch stream. News of their runs comes as a [Word]:
// what the worker sent, what the server made of it, what the sweep found. The first word
// that ends a run counts. The stream keeps a message until its outcome is in the log. So
// dispatches outlive the engine, a message that is gone is never mistaken for an acked one,
// and each word's sequence can be looked up.
//
// The package does no I/O and decides nothing: package natsio reads and sends,
// the dispatcher's loop decides. Its values are owned by the loop.
package ackmode
