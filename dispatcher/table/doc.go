// Package table holds what is dispatched: one [Dispatch] for each item that was sent
// to the workers, until its worker has let go.
//
// A dispatch is on its way until a worker claims it; then it runs. It lingers when
// its item has moved on, such as by a cancel, and the worker has not let go yet. It
// is an orphan when its message is gone, so that the worker's heartbeats keep its
// lease. All that time it holds a slot of its type and lane.
//
// The [Table] indexes the dispatches by item, token and message, and counts them by what
// limits use: type, lane, group and worker. Its maps are for reading; its methods keep
// them consistent. The fields of a Dispatch that say when it was heard of and where its
// message is may be set directly.
//
// A Table is volatile, and owned by the dispatcher's loop: it is rebuilt at each
// takeover from the projection and the dispatch stream.
package table
