// Package bench measures the engine against a floor, in one run on one server:
// a raw JetStream memory work queue with publish, pull and ack, which does
// nothing that a work engine does. Every figure comes with its ratio to that
// floor, because machines differ and are noisy while ratios hold.
//
// It drives the engine from outside, by the Go client and package workers, as
// a program of its users would.
package bench
