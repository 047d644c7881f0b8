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
// While one batch is appended, the next is built, and the one before is projected. This
// gives group commit without tuning, and a batch of one when there is little to do.
//
// The loop is made of parts. Each owns its fields and has no goroutine; it is given the parts
// above it that it needs, and knows neither the loop nor what is below it (see loop.connect):
//
//	queues     jobs that wait to be decided
//	decider    takes a decision into the batch being built
//	pipeline   the batch being built, and those that are appended and projected
//	gates      types that are paused or held back by a circuit
//	pools      slots that types share
//	flight     items that are with workers, or on their way
//	leases     how long a run may go unheard
//	acks       messages and runs of ack types
//	limits     how many more items of a type may be dispatched
//	assigner   gives items to registered workers
//	sender     chooses the next item
//	timers     items that become due, expire or run out of time
//	workforce  workers that come, go and drain
//	follow     follow-ups of ended items
//	sweeper    looks for what no signal has reported
//
// Other parts are packages with a small interface to the loop, and documentation of
// their own:
//
//	clock      the partition's time
//	conf       the configuration
//	door       plain publishes that are decided at once
//	dedup      the questions to a host's dedup hook, asked before the loop
//	errands    what takes many decisions
//	intake     the stream of plain publishes
//	natsio     streams, consumers and messages
//	outflow    how fast items leave the queue
//	readyq     the ready items, in order
//	registry   the workers
//	retention  pruning, and the rounds by which the log is cut; salvage
//	schedules  the ticks
//	seats      the workers as recipients of items, and their free slots
//	table      what is dispatched
//	weight     the bytes that commands and events take
//
// # The walk of one submit
//
// [Dispatcher.Do] (dispatcher.go) has the submission scored and, if there is a dedup hook, asked
// about (asked.go), and puts it into the inbox (inbox.go). The loop takes it, and
// decides it in its turn (loop.go, job.go): core.Decide makes the events, and the
// pipeline adds them to the batch, flushes and appends it (pipeline.go). Then the loop
// carries out what follows from durable events (loop.go): the projecting goroutine
// commits the changes (projecting.go), the item enters its ready queue (flight.go), the
// replying goroutine answers (pipeline.go), and what was claimed for a worker is sent to it
// (assigner.go).
//
// # Who wins
//
// The log. When an append is refused (another owner) or its outcome is unknown, the loop
// drops everything in memory, answers pending requests with "unavailable", and starts
// again from the log by [eventlog.Settle]: read to the end, append an owned event, go
// on. There is no other recovery path: start, takeover and recovery are the same code.
//
// A foreign message in the stream makes the next append fail, as a rival's would, but no
// rival is waited for: the next ownership begins at once (supervise.go).
//
// # What is volatile
//
// The dispatch table (which item is with which worker, under which token), the ready
// windows, the timers and the registry of workers are rebuilt at each takeover from the
// projection, the dispatch stream and the workers' heartbeats. They decide whether something
// happens now, never what an event means.
//
// All requests to the server go through the interface effects (package natsio), and the loop
// never waits for them: the answer, or its absence, comes back as a signal, and the sweep
// looks for what no signal has reported.
//
// # Handing out
//
// An item is given to a registered worker by a decision, core.Claim, in the batch that
// queued it or freed the worker's room, and sent once that is durable: see assigner.go. The
// message is stored nowhere. An item for which no worker has room stays queued.
//
// # Ack types
//
// Types with protocol ack have no claims and no reports (docs/guides/ACK.md). News of their
// runs comes as words: what the worker sent, what the server made of it, what the sweep
// found. The loop decides each word as a core.AckRun, and the first that ends a run counts.
// The dispatch stream keeps a message until that is durable. So at a takeover the messages
// in the stream are the table, and words are read again from the oldest message on. Words
// are never dropped: the reader waits for room (MaxSignals), and the stream holds the rest.
// Until the words from before a takeover are recorded and their messages removed, the
// consumers rest: a server that was killed would deliver some of the messages again. A push
// that fails holds all other pushes for a while, longer each time, so that a server in
// trouble is not hammered.
//
// # What holds work back
//
// Pauses and circuits are decided and recorded (package events); so is, at its claim, a
// trial run of a half-open circuit. The loop follows them: nothing is dispatched that
// could not be claimed. One of the times that wake the loop is when the next circuit half
// opens; nothing polls.
//
// # Bounds
//
// Requests wait in two queues of MaxRequests and maxRequestBytes each, one for
// submissions and one for all else. The intake is read ahead by a bounded number of
// bytes. A batch holds at most eventlog.MaxEvents events and about maxBatchBytes. At
// most MaxUnprojected batches, and about maxUnprojectedBytes, may be appended and not
// projected; a commit is put off by at most projectEvery, and not at all while somebody
// waits for it. A ready or timer window holds at most WindowMax keys and pages the rest
// in from the projection's index; package readyq bounds its groups and the throttled
// ones it remembers. While the engine's own queue limit is reached, the intake is not
// read. At each bound the loop stops taking in, and the pressure reaches the publishers.
// No single turn of the loop is long: it handles maxDue timers, dispatches maxStepPushes
// items and reads maxStepRead index entries for them; the rest follows in the next
// turns, between which it takes waiting work.
//
// # The intake
//
// On one embedded server plain publishes don't go into the stream while the loop can decide
// them at once: see package door.
//
// Answered messages are purged once the events that answer them are surely on disk
// (Config.SyncWithin). If the stream was deleted or has lost its end, its next life
// begins after every sequence that an earlier one can have given out: a sequence is the
// handle of a publish, and names only one. Messages read from the old life are decided,
// since they are the only copy of what was acknowledged; those not read by then are gone
// with the stream.
//
// # Testing
//
// A sim (sim_test.go) drives the real loop, one stage at a time, in one
// goroutine and by a clock of its own; testdata holds stories of it, and
// TestChaos interleaves random work with crashes at every stage. The other
// tests run a Dispatcher on an embedded server.
package dispatcher
