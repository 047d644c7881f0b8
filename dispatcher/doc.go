// Package dispatcher owns a partition and sends its work to workers.
//
// # The loop
//
// One goroutine, the sequencer (type loop), owns all state of the partition
// and takes every decision:
//
//	collect   requests, intake messages, passed timers, expired leases
//	decide    events.Decide, then State.Apply, into the batch being built
//	append    the batch, by the appender goroutine: at most one outstanding
//	project   its Changes, by the projecting goroutine, in order
//	effects   replies, ready windows, dispatch, control messages: only after the append
//
// While one batch is appended the next is built, and the one before is
// projected: group commit by itself, and a batch of one when there is little
// to do.
//
// Its parts own their fields: sender (what is dispatched next), flight (what is on
// its way or running), leases, workforce (who is there), acked (the runs of native
// workers), retention, schedules, follow. Each has a pointer to the loop for what
// they share: the state, the clock, the batch being built. None has a goroutine.
//
// # Who wins
//
// The log. When an append is refused (another owner) or its outcome is
// unknown, the loop drops everything that it has in memory, answers what was
// pending with "unavailable", and starts again from the log by
// [eventlog.Settle]: read to the end, append an owned event, go on. There is
// no other recovery path: start, takeover and recovery are the same code.
//
// Foreign messages in the event stream are no rival. They take positions, so the
// events of an append may come to others than they were decided under: then the
// state is loaded anew from the projection and the same events are applied where
// they are (interrupted.go). The ownership, and all that is decided, stay.
//
// # What is volatile
//
// The dispatch table (which item is on its way to a worker under which
// token), the ready windows, the timers and the registry of workers are
// rebuilt at each takeover from the projection, the dispatch stream and the
// workers' heartbeats. They decide whether something happens now, never what
// an event means.
//
// A dispatch is taken back (its worker left, its message was lost, its order
// has changed) only if no decided claim stands against it, whether durable
// yet or not; its item then goes out again under another token. What asks the
// server for anything is behind the interface effects (package natsio), and never waited for:
// the answer, or its absence, comes back as a signal, and the sweep looks for
// what no signal has told. A push that fails holds all dispatching for a
// while, longer each time, so that a server in trouble is not hammered.
//
// # Native workers
//
// Types with protocol ack have no claims and no reports (docs/guides/NATIVE.md). What
// is heard of their runs comes as words: what the worker sent, what the server
// made of it, what the sweep found. The loop decides each as an events.Native,
// of which the first that ends a run counts. The native stream keeps a message
// until that is durable, so at a takeover the messages that are there are the
// table, and words are read again from the oldest of them on. Words are never
// dropped: the readers wait for room (MaxSignals), and the streams hold the rest.
// Until those of before are recorded and their messages removed, the consumers
// rest: a server that was killed would deliver some of them again.
//
// # What holds work back
//
// Pauses and circuits are decided and recorded (package events), a run that
// tries a half-open circuit at its claim. The loop follows them: nothing is
// dispatched that could not be claimed, what is on its way is taken back, and a
// claim that was refused puts its item back. One time, that of the circuit which
// half opens first, is among those that wake the loop; nothing polls.
//
// # Bounds
//
// Requests wait in two queues of MaxRequests and maxRequestBytes each, one for
// submissions and one for all else; the intake is read ahead by maxIntakeBytes;
// a batch holds at most eventlog.MaxAppend events and about maxBatchBytes; at
// most MaxUnprojected batches, and about maxUnprojectedBytes, may be appended and
// not projected (a commit is put off by projectEvery at most, and not at all while
// somebody waits for it); a ready or timer window holds at most WindowMax keys and pages the rest in from the
// projection's index; package readyq bounds its groups and what it remembers as
// throttled. While the
// engine's own queue limit is reached the intake is not read. At each bound the loop stops taking in, and the pressure
// reaches the publishers. No single turn of the loop is long: maxDue timers,
// maxStepPushes items dispatched, maxStepRead entries of the index read for them; the
// rest follows in the next turns, between which it takes what waits for it.
//
// # The intake
//
// It needs no acks: the events say which of its messages are answered, and the
// next ownership reads on from there, so what was read and not appended is
// simply read again. Its messages are purged once the events that answer them
// have surely reached the disk (Config.SyncWithin). When the stream was deleted
// or has lost its end, its next life begins behind every sequence that an earlier
// one can have given out: a sequence is the handle of a publish, and names one.
// What was read of the old life is decided, since it is the only copy of what was
// acknowledged; what was not read by then is gone with the stream.
//
// # The dedup hook
//
// Questions are asked before the loop, by goroutines of their own (judging.go). A
// submission is undecided from its arrival until its events are durable, and a
// candidate for all that arrive behind it; then the projection has it, which each
// question waits for. So no question misses what was decided, or is being judged,
// when it was asked. One whose verdict names an undecided submission waits for that;
// since it always names an earlier one, there is no ring. The children of a spawn are
// judged outside of its report, which is answered "unavailable" until the verdicts
// are there (judgespawn.go).
//
// # Schedules
//
// The next tick of each schedule is in the state; the loop's timer is set for
// the earliest of all. A turn begins with the ticks that have come, at most
// maxTicks of them, so that no flood of requests delays them and they delay
// nothing else. Which ticks come is computed here (internal/cron), right before
// the decision that records it; the log alone says which have been answered.
// After a takeover nothing ticks until the schedules of the file are those of
// the log. A schedule that this program can't compute rests, its ticks are
// missed ones for a program that can.
//
// # Testing
//
// A sim (sim_test.go) drives the real loop, one stage at a time, in one
// goroutine and by a clock of its own; testdata holds stories of it, and
// TestChaos interleaves random work with crashes at every stage. The other
// tests run an Engine on an embedded server.
package dispatcher
