// Package workers is the worker runtime: it pulls dispatched work items, asks
// the engine for each, runs the handler, keeps the lease, and reports what
// came of it.
//
//	w, err := workers.New(nc, workers.Config{Concurrency: 8})
//	workers.Handle(w, "email", func(ctx context.Context, it *workers.Item[Email]) (any, error) {
//		return nil, send(ctx, it.Params)
//	})
//	err = w.Run(ctx)
//
// # What a handler may rely on
//
// It runs only after the engine has granted this worker the item's current
// dispatch. It may run again elsewhere after a lost lease, so its side effects
// should be idempotent; what it returns is recorded at most once. Its context
// ends, with a cause that [context.Cause] tells apart, when
//
//   - the attempt's timeout passes: [ErrTimeout];
//   - somebody cancels the item: [ErrCancelled];
//   - the engine no longer counts this run, the connection has been gone
//     for a whole lease, or another worker has registered under this one's id:
//     [ErrLeaseLost];
//   - the worker stops and its drain has run out of time: [ErrShutdown].
//
// # The life of a pulled message
//
//	held      pulled, waiting for a slot; handed back when that takes too long
//	claiming  has a slot; the claim (with start) is on its way
//	running   granted; the handler runs, the lease is renewed
//	settling  the handler has returned and left its slot; the outcome is on its way
//	gone      the outcome is answered, and only then the message is acked
//
// A refused claim (stale_token, wrong_state, not_found) goes from claiming to
// gone: the message is acked and dropped. The worker holds at most
// Concurrency items that are claiming or running, as many again that are
// settling, and Prefetch that are held.
//
// # Assigned items
//
// An engine that assigns sends items to the worker's inbox, which the worker offers when it
// registers, instead of having it pull and claim. The engine has claimed them, and knows
// the worker's free slots and the limits of its types. So the handler starts at once, and
// no more items come than there are slots. The start is reported after 2 ms, or together
// with whatever is reported before. Heartbeats keep the leases.
//
// # Spawns, snoozes, progress and checkpoints
//
// A handler that returns a [Spawn] or a [Snoozed], as its result or as its error, ends
// its run without completing the item: middleware sees a result and no error, and the
// counts tell them apart from failures. Meanwhile [Progress] tells how far the
// run has come, at most once in [ProgressEvery], and [Checkpoint] saves what
// the next attempt is to begin from. Both are reports of the same queue. If one
// is refused because the run no longer counts, the run ends with
// [ErrLeaseLost], and a release then reports the end so that the engine frees
// the slot. Progress that was held back is reported just ahead of the outcome,
// in the same request.
//
// # Pulls
//
// Requests to $JS.API.CONSUMER.MSG.NEXT are made by hand. nats.go's Consume
// and Messages keep a fixed number of messages coming, whatever the handlers
// do, and their idle heartbeats are traffic for each worker and consumer every
// few seconds; Fetch subscribes and unsubscribes each time and waits for one
// request to end before the next. Here each consumer has a few lanes, each
// with an inbox of its own and at most one request outstanding, so it is known
// exactly how many messages are still to come; a request asks only for the
// slots that are free (divided among the consumers), is refilled when half of
// it is used, and lives 30 s. An idle worker sends one request per consumer in
// 30 s, and heartbeats as often as the engine's answer to its registration says
// (docs/guides/WORKERS.md, "Times"); one of many sends them more seldom still, and
// is silent for no longer than its last answered heartbeat has announced. Prefetching beyond the free slots burns the
// lease of what waits, so it happens only while handlers prove short (a mean
// below [PrefetchBelow]), and what is held longer than [HoldLimit] is handed
// back for another worker.
//
// # Large documents
//
// Params that are a reference to the object store are fetched before the
// handler (and its middleware) sees the item, within the attempt's time and
// lease: a handler always has the document. A result past 256 KiB is put there
// and reported by reference. A store that can't be reached fails the attempt
// with blob_unavailable, which is retried; a document that is gone or damaged
// (blob_gone, blob_damaged) is not. Memory: see Config.MaxDocument.
//
// # Reports
//
// Claims, outcomes and releases go into one queue. Two senders take from it
// whatever is there (at most [MaxReports] and about [MaxReportBytes]), so a
// lone claim leaves at once, and a busy worker batches by itself while the
// requests before are outstanding. Reports are idempotent; what got no answer
// (engine restarting, connection gone) is asked again with backoff: a claim
// for as long as its lease may hold, an outcome until there is a definitive
// answer or the worker has stopped.
//
// # When the engine, or the connection, is away
//
// Registration is repeated until it succeeds, and again on reconnect, when a
// consumer is gone, and when the engine asks. Pulls of an earlier connection
// are void: their inboxes are replaced. Running handlers go on: their outcome
// is accepted as long as their token is current. After a whole lease without a
// connection a worker must assume that another one has been given the item;
// it then stops the run (ErrLeaseLost), because side effects at two places
// are worse than work done twice. What such a run returns is still reported,
// and the log decides.
//
// # When the id is taken
//
// A worker that was silent for too long is dead to the engine, and its id is
// free. If another one has registered under it, the answer to the next heartbeat,
// registration or claim is worker_id_in_use. The worker then stops all its runs at
// once (ErrLeaseLost), closes its lanes, and hands back what it ran, as each handler
// ends, and what it held. It goes on trying to register, and works again when
// the other one has left.
//
// # Health
//
// The checks of Config.Checks run before each heartbeat. While one fails, or
// the engine takes the worker for unhealthy (it says so in the reply to a
// heartbeat, by a control message, or by refusing a claim), the worker closes
// its lanes, so that no pull request of it is left at the server, and hands
// back what it holds unclaimed. Running handlers go on. When both are content
// again it registers anew and pulls. With Config.Probe it also answers the
// engine's probes, in a goroutine of the connection and with the worker's lock,
// so a worker that hangs does not.
//
// # Stopping
//
// Stop ends the pulls (waiting for what the server has already sent), hands
// back what is held, lets handlers finish until its context or DrainTimeout
// ends, then cancels them and hands their items back with no attempt used,
// waits for the answers to the last reports, unregisters. A handler that does
// not return within [AbandonAfter] of its cancellation is given up: Stop says
// so, and the item's lease runs out.
//
// # Who wins
//
// The engine. A worker keeps no state that outlives it, and what it believes
// of an item ends with the engine's answer.
package workers
