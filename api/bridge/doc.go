// Package bridge lets programs that speak nothing but HTTP be workers. For each
// such worker it holds a session, which speaks the ordinary NATS worker protocol
// with the engine on the worker's behalf: it registers, listens for the session's
// items, offers what an open poll has room for, and passes reports and heartbeats
// on. So what the engine guarantees to workers over NATS holds for these too.
//
// # What is the worker's, and what the bridge's
//
// The bridge never acts for a worker that is silent. It offers only while a poll
// is open, renews a lease only when a heartbeat names the run, and says to the
// engine that the worker lives only when the worker has asked for something, or
// has a poll open. The leases of a worker that dies run out.
//
// # Sessions
//
// A session's token says who the worker is and how it registered, beside a
// secret, and is signed with a key of the engine's, together with the name of the
// user who registered it: nobody makes one up, and one that was overheard is of no
// use under another login. So a bridge that does not know it (its process has started again, or
// the worker was silent for longer than [Config.Gone]) registers the worker again
// with its next request, and nothing needs to be stored. The engine knows the
// session by a digest of the secret; the token itself is nowhere to be read.
//
// # Offers
//
// A poll offers the engine as many items as it may return, and slots are free. The
// engine claims so many for the worker, at most, and sends them. The poll returns
// what has come, without waiting long for more, and the offer ends with it. If it has
// room for another number of items meanwhile, it offers anew. Between two polls nothing
// is offered: an item waits in the queue, where any worker may have it.
//
// An item may cross the end of a poll. It waits for the worker's next poll for 100 ms,
// and is then released: it is queued again, with no attempt used. So is what comes for
// a poll whose client has gone.
//
// What a poll has returned is one of the worker's runs, until the engine has answered
// its end, or its lease is over. The worker's first report says that it has started,
// whichever it is, but a release; or the bridge does, if none has come for a while
// (starts.go), or if the poll is repeated.
//
// Of several engines, the one at which the worker polled last hears its items; the
// others are told, and stop.
//
// # Bounds
//
// At most [MaxWorkers] sessions; each has at most one open poll (a second one
// takes over), and its slots' worth of runs.
// A poll returns at most [MaxItems] items of [MaxPollBytes] together. What has
// arrived and is not handed out has at most [DefaultMaxLoadedBytes] over all
// sessions, beyond which it goes back; what is held for repeats of named polls
// at most [DefaultMaxHeldBytes], beyond which the oldest is given up.
//
// # Locks
//
// One mutex guards all sessions; nothing waits while it is held. Offers, releases
// and the ends of subscriptions are made when it is released.
package bridge
