// Package bench is `engine bench`: it measures the engine beside a floor, in one run on one
// server: a raw JetStream memory work queue with publish, pull and ack, without any work
// engine. Rates come with their ratio to that floor, because machines differ and are
// noisy while ratios hold.
//
// It drives the engine from outside, by the Go client and package workers, as a program of
// its users would, with the harness of internal/measure.
package bench
