// Package streamwright is the Go client of the Streamwright work engine.
//
// A [Client] speaks the JSON of package wire over NATS. All it needs is an engine
// that answers on the same NATS servers:
//
//	c, err := streamwright.Connect(ctx, "nats://127.0.0.1:4222")
//	sub, err := c.Submit(ctx, streamwright.Item{Type: "email", Params: mail})
//	item, err := c.Wait(ctx, sub.ID)
//
// The methods of a Client concern items: submit, get, list, wait, cancel, replay,
// tail. Everything else has a handle, a small value made from the client:
// [Client.Batches], [Client.Types], [Client.Schedules], [Client.Workers],
// [Client.DeadLetters], [Client.Rejected], [Client.DedupKeys] and
// [Client.Engine]:
//
//	_, err = c.Types().Pause(ctx, "email", streamwright.PauseOptions{Reason: "provider is down"})
//	stats, err := c.Engine().Stats(ctx)
//
// # Namespaces
//
// An engine may have several logs, each with items, types and workers of its own. A client
// speaks to one of them, [WithNamespace]; a [workers.Worker] may serve several.
//
// # What holds
//
//   - An item is submitted once. The client chooses its id before the first
//     try, so a try whose reply was lost is repeated without making a second
//     item. Submit, SubmitMany and Wait keep trying while the engine restarts
//     or moves, until their context ends.
//   - A caller reads its own writes: the client remembers the highest position
//     that it has received, and queries wait until the engine's projection
//     has reached it. Two clients do not share that position.
//   - Refusals are [*Error] with a stable code; their text says what to do. So
//     are the errors of an engine that does not answer (CodeUnavailable) and of
//     a context that ended first (CodeTimeout, which also matches the context's
//     error).
//
// # Large documents
//
// Params and results past 256 KiB are kept in a JetStream object store, and the
// item has a reference in their place, so that items stay cheap to list and to
// wait for. Submit puts large params there by itself; [Client.Params],
// [Client.Result] and their streaming forms return the document from either place.
// See package blobs.
//
// # Bounds
//
// A try waits at most [DefaultTryTimeout] (see [WithTryTimeout]); requests
// other than those above are tried again for at most [DefaultPatience] while
// no engine answers. A bulk request carries at most 1,000 items and half of
// the server's max_payload, and at most [DefaultInFlight] of them are
// outstanding.
//
// All methods may be called from any goroutine.
package streamwright
