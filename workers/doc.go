// Package workers is the worker runtime: it registers with the engine, runs the
// handler of each item that the engine sends, keeps the lease, and reports what came
// of it.
//
//	w, err := workers.New(nc, workers.Config{Concurrency: 8})
//	workers.Handle(w, "email", func(ctx context.Context, it *workers.Item[Email]) (any, error) {
//		return nil, send(ctx, it.Params)
//	})
//	err = w.Run(ctx)
//
// # What a handler may rely on
//
// It runs only after the engine has claimed the item for this worker. It may run again
// elsewhere after a lost lease, so its side effects should be idempotent; what it returns
// is recorded at most once. Its context ends, with a cause that [context.Cause] tells
// apart, when
//
//   - the attempt's timeout passes: [ErrTimeout];
//   - somebody cancels the item: [ErrCancelled];
//   - the engine no longer counts this run, the connection has been gone
//     for a whole lease, or another worker has registered under this one's id:
//     [ErrLeaseLost];
//   - the worker stops and its drain has run out of time: [ErrShutdown].
//
// # The life of a run
//
// The worker chooses a session, subscribes to the items of that session
// (wire.Names.RunsOf), and then registers. Each free slot is an offer: the engine claims
// an item for the worker, within its slots and the limits of its types, and sends it.
//
//	held      waits for a slot that another namespace's run has
//	running   the handler runs
//	settling  the handler has returned and left its slot; the outcome is on its way
//	returning handed back before its start; the release is on its way
//	gone      the outcome is answered
//
// A run begins at once, with what earlier ones have left. Its start is reported after 2 ms, or
// together with whatever is reported before: a short run is one message.
//
// The worker hands back what it can't run: what comes while it ends, drains, is unhealthy
// or replaced, or has no slot free. Heartbeats name the runs, and so keep their leases.
// An idle worker of many sends heartbeats more seldom, and is silent for no longer than its
// last answered heartbeat has announced (docs/guides/WORKERS.md, "Times").
//
// # Spawns, snoozes, waits, progress and checkpoints
//
// A handler that returns a [Spawned], a [Snoozed] or a [Waits], as its result or as its error, ends
// its run without completing the item: middleware sees a result and no error, and the
// counts tell them apart from failures. Meanwhile [Progress] tells how far the
// run has come, at most once in [ProgressEvery], and [Checkpoint] saves what
// the next attempt is to begin from. Both are reports of the same queue. If one
// is refused because the run no longer counts, the run ends with
// [ErrLeaseLost], and a release then reports the end so that the engine frees
// the slot. Progress that was held back is reported just ahead of the outcome,
// in the same request.
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
// Starts, outcomes and releases go into one queue. Two senders take from it
// whatever is there (at most [MaxReports] and about [MaxReportBytes]), so a
// lone report leaves at once, and a busy worker batches by itself while the
// requests before are outstanding. Reports are idempotent; what got no answer
// (engine restarting, connection gone) is asked again with backoff, until there is a definitive
// answer or the worker has stopped.
//
// # When the engine, or the connection, is away
//
// Registration is repeated until it succeeds, and again on reconnect and when the
// engine asks. Running handlers go on: their outcome is accepted as long as their
// token is current. After a whole lease without a
// connection a worker must assume that another one has been given the item;
// it then stops the run (ErrLeaseLost), because side effects at two places
// are worse than work done twice. What such a run returns is still reported,
// and the log decides.
//
// # When the id is taken
//
// A worker that was silent for too long is dead to the engine, and its id is
// free. If another one has registered under it, the answer to the next heartbeat,
// registration or report is worker_id_in_use. The worker then stops all its runs at
// once (ErrLeaseLost), and hands back what it ran, as each handler ends. It goes on
// trying to register, and works again when the other one has left.
//
// # Health
//
// The checks of Config.Checks run before each heartbeat. While one fails, or the engine
// takes the worker for unhealthy (it says so in the reply to a heartbeat or by a control
// message), the engine sends it no items, and the worker hands back those that come
// nevertheless. Running handlers go on. With Config.Probe it also answers the engine's
// probes, in a goroutine of the connection and with the worker's lock, so a worker that
// hangs does not.
//
// # Several namespaces
//
// With Config.Namespaces the worker registers, sends heartbeats, drains and stops in each
// of them, under one id and session by session. Its slots are the process's: Concurrency
// bounds the handlers of all namespaces together.
//
// Each engine is offered a share of the slots (the slots of the registration). While
// nobody uses the whole of its share, each is offered all that are free. Once one does, the
// slots are divided anew, at most four times a second, each time by heartbeats: what a
// namespace doesn't use goes, in equal parts, to those that have more to do. A namespace
// without work keeps one offer open. An item that comes while no slot is free has the next
// one; after a second (or half its lease) it is handed back, with no attempt used, and its
// namespace is offered nothing until a slot is free for it. If there are fewer slots than
// namespaces with work, they take turns.
//
// A worker ends by itself (Run, Drained) once it is drained in all its namespaces. If one
// of them refuses the worker, Start fails and leaves the others; one that doesn't answer
// is asked again, as an engine that is away.
//
// # Stopping
//
// Stop tells the engine, by a heartbeat that makes no offer, that the worker takes no
// more items. It lets handlers finish until its context or DrainTimeout ends, then
// cancels them and hands their items back with no attempt used, waits for the answers
// to the last reports, and unregisters. A handler that does
// not return within [AbandonAfter] of its cancellation is given up: Stop says
// so, and the item's lease runs out.
//
// # Who wins
//
// The engine. A worker keeps no state that outlives it, and what it believes
// of an item ends with the engine's answer.
package workers
