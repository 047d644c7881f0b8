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
// # Who wins
//
// The log. When an append is refused (another owner) or its outcome is
// unknown, the loop drops everything that it has in memory, answers what was
// pending with "unavailable", and starts again from the log by
// [eventlog.Settle]: read to the end, append an owned event, go on. There is
// no other recovery path: start, takeover and recovery are the same code.
//
// # What is volatile
//
// The dispatch table (which item is on its way to a worker under which
// token), the ready windows, the timers and the registry of workers are
// rebuilt at each takeover from the projection, the dispatch stream and the
// workers' heartbeats. They decide whether something happens now, never what
// an event means.
//
// # Bounds
//
// Requests wait in a queue of MaxRequests; a batch holds at most
// eventlog.MaxAppend events; at most MaxUnprojected batches may be appended
// and not projected; a ready or timer window holds at most windowMax keys and
// pages the rest in from the projection's index. At each bound the loop stops
// taking in, and the pressure reaches the publishers.
package dispatcher
