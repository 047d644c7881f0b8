// Package blobs keeps documents that are too large for an event, the params and
// results of items, in a JetStream object store, and gives them back.
//
// In an item's place for params or result stands a small document, the
// reference:
//
//	{"$blob":{"name":"01JD3V6YB2M4C9W8ZK5T7QXRNE.params","size":5242880,"digest":"SHA-256=…"}}
//
// The core of the engine does not know of it: to it a reference is a document
// like any other. Clients and workers put what is past the bound, and resolve
// references before anyone reads the document.
//
// # What holds
//
//   - An object is in place, acknowledged by the server, before its reference is
//     submitted or reported.
//   - An object's name begins with the id of the item that it belongs to, and it
//     lives as long as that item. [Store.Put] ends the name with a part of the
//     content's digest, so two runs of one item, or two submissions under one id,
//     never overwrite each other's document, and a repeat finds its own.
//   - [Store.Get] returns exactly the bytes that the reference was made for, or an
//     error: [ErrGone], [ErrDamaged], or events.CodeUnavailable for what may end
//     by itself. [Store.Open] streams: it finds damage only at the end.
//   - The bucket's stream is read through its leader alone (it does not allow
//     direct gets), so a follower that lags can't make an object look gone.
//
// # Bounds
//
// An object has at most [DefaultMaxBytes] unless the Store is given another
// bound. A Put under way holds at most [putWindow] chunks of [chunkBytes], an
// opened object one chunk; Get holds the whole document. The bucket's size is
// the engine's setting blob_max_size; when it is full, Put is refused with
// events.CodeUnavailable.
//
// # Who deletes
//
// The engine's [Janitor] alone. It deletes the objects of an item once that has
// been pruned, and, slowly, what belongs to no item: the objects of a client
// that died between put and submit, of a submission that was answered with
// another item, of an item pruned while no janitor ran, and chunks that no
// object has. It deletes nothing that is younger than its grace or that may
// belong to a submission which is not decided yet. All that it does may be
// repeated, by several janitors at once.
package blobs
