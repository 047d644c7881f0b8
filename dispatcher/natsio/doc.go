// Package natsio speaks NATS for the dispatcher.
//
// It owns the streams and consumers that are not the log's ([Topology]), what is sent to
// workers ([Pusher]), and what the server and the workers of ack types say ([AckReader]).
// What it hears it leaves for the loop in [Signals]; it decides nothing about an item.
//
// # Order of events
//
// The loop asks the Pusher, which never waits for the server: a message is published at
// once, and the answer to one of an ack type comes as a signal; everything else is a chore,
// done one after the other by one goroutine. The loop takes the signals when it is woken by
// them.
//
// # Invariants
//
// Leaving a signal never blocks. Each list of signals is bounded; what does not fit is
// dropped, and a sweep is asked for. Words about ack types are the exception: their reader
// waits for room, and the stream holds the rest. Each life of the dispatch stream numbers
// its messages from another place, so an ack from an earlier life hits nothing. The intake's
// next life begins behind every sequence that an earlier one can have given out.
//
// # Failure
//
// A request may be lost, refused or dropped for want of room: the sweep finds what it was
// for. A stream or consumer that somebody has deleted is made anew, on the server's word or
// by the sweep, and the loop is told if its messages are gone with it.
package natsio
