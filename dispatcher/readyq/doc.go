// Package readyq holds what may run next: the ready queues of a partition.
//
// A queue is (type, lane, priority). Its order is that of the projection's
// index, of which it holds the first part in memory: a [Window] as long as its
// items have no groups, else a ring of groups that take turns, each with a small
// window. The next item of a type is the head of the highest [Rank]; within a
// queue all items age alike, so only heads are compared and picking costs the
// same at any depth.
//
// # Invariants
//
// A window holds every key of the index up to its horizon. A group of a ring's
// stretch that has items to run is in memory, or is throttled and will be
// restored. The index may lag behind what the owner has seen; a page is brought
// up to date by the changes that are not projected yet (Unprojected), so that no
// item falls between the two. Windows, rings, open lanes and throttled groups are
// all bounded; what is beyond a bound is left to the index.
//
// # Order of events
//
// The owner inserts and removes items as their changes become durable, asks for the best
// item of a type, and takes it. A lane with capabilities is opened when a worker that
// serves it registers ([Queues.Offers], [Queues.FindLanes]) and closed when no worker
// serves it, or when it has long been empty. A group or type that a limit holds is
// passed over until its time comes, or until the owner reports that one of its
// dispatches has moved on ([Queues.Moved]).
//
// All of it is volatile and made anew at a takeover. A Queues is owned by one goroutine.
// The package does no I/O except to read the index. An error from there is the owner's
// to handle, and leaves the queues unchanged.
package readyq
