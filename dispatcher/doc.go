// Package dispatcher owns a partition and sends its work to workers.
//
// # The loop
//
// One goroutine, the sequencer (type loop), owns all state of the partition
// and takes every decision:
//
//	collect   requests, intake messages, passed timers, expired leases
//	decide    core.Decide, then State.Apply, into the batch being built
//	append    the batch, by the appender goroutine: at most one outstanding
//	project   its Changes, by the projecting goroutine, in order
//	effects   replies, ready windows, dispatch, control messages: only after the append
//
// While one batch is appended the next is built, and the one before is
// projected: group commit by itself, and a batch of one when there is little
// to do.
//
// The loop's parts own their fields, and none has a goroutine:
//
//	queues     what is to be decided
//	pipeline   the batch being built, and those that are appended and projected
//	sender     what is dispatched next
//	flight     what is on its way or running; leases, for how long
//	workforce  who is there to work
//	acked      the runs of native workers
//	gates      what is paused or held back by a circuit
//	timers, purge, sweeper, follow
//
// Others are packages with a small interface to the loop, and a doc of their own:
//
//	clock      the partition's time
//	dedup      the questions to a host's dedup hook, asked before the loop
//	errands    what takes many decisions
//	intake     the stream of plain publishes
//	natsio     streams, consumers and messages
//	readyq     the ready items, in order
//	registry   the workers
//	retention  pruning, and the rounds by which the log is cut; salvage
//	schedules  the ticks
//	table      what is dispatched
//
// # The walk of one submit
//
// [Engine.Do] (engine.go) has the submission scored, and asked about if there is a
// dedup hook (asked.go), and puts it into the inbox (inbox.go). The loop takes it,
// and decides it in its turn (loop.go, job.go): core.Decide makes the events,
// and the pipeline adds them to the batch, flushes and appends it (pipeline.go).
// Then the loop follows what is durable (loop.go): the projecting goroutine commits
// the changes (projecting.go), the item enters its ready queue (flight.go), the
// replying goroutine answers (pipeline.go), and the sender pushes what has room
// (dispatch.go).
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
// submissions and one for all else; the intake is read ahead by a bounded number of
// bytes;
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
// Answered messages are purged once the events that answer them have surely
// reached the disk (Config.SyncWithin). When the stream was deleted
// or has lost its end, its next life begins behind every sequence that an earlier
// one can have given out: a sequence is the handle of a publish, and names one.
// What was read of the old life is decided, since it is the only copy of what was
// acknowledged; what was not read by then is gone with the stream.
//
// # Testing
//
// A sim (sim_test.go) drives the real loop, one stage at a time, in one
// goroutine and by a clock of its own; testdata holds stories of it, and
// TestChaos interleaves random work with crashes at every stage. The other
// tests run an Engine on an embedded server.
package dispatcher
