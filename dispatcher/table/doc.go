// Package table holds what is dispatched: one [Dispatch] for each item that a worker has,
// or may have.
//
// An item of an ack type is dispatched from the push of its message on, and claimed once a
// worker is known to have it. Any other item is claimed for a worker by the decision that
// dispatches it. A dispatch lingers when its item has moved on, such as by a cancel, and
// the worker has not let go yet. All that time it takes a slot of its type.
//
// The [Table] indexes the dispatches by item, token and message, and counts them by what
// limits use: type, group and worker. Its maps are for reading; its methods keep them
// consistent. The fields of a Dispatch that say when it was heard of and where its message
// is may be set directly.
//
// A Table is volatile, and owned by the dispatcher's loop: it is rebuilt at each takeover
// from the projection and, for ack types, from the dispatch stream.
package table
