// Package bridge lets programs that speak nothing but HTTP be workers. For each
// such worker it holds a session, which speaks the ordinary NATS worker protocol
// with the engine on the worker's behalf: it registers, pulls from the consumers
// of the worker's types and lanes, acks and renews the messages, and passes
// reports and heartbeats on. So what the engine guarantees to workers over NATS
// holds for these too.
//
// # What is the worker's, and what the bridge's
//
// The bridge never acts for a worker that is silent. It pulls only while a poll
// is open, renews a lease only when a heartbeat names the run, and says to the
// engine that the worker lives only when the worker has asked for something, or
// has a poll open. A worker that dies loses what it runs by the server's own
// ack-wait.
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
// # Messages
//
// A message that arrives belongs to the poll that is open; the poll hands it out,
// and from then on it is one of the worker's runs, until the engine has answered
// its end, or its lease is over. What arrives while no poll is open, or is more than
// there are slots free, or belongs to a poll whose client has gone, is released at
// once: it is dispatched again, with no attempt used. Messages are acked only
// behind the engine's durable answer.
//
// # Why it pulls
//
// The bridge offers no inbox, so items are not assigned to its workers. An inbox says that
// slots are open all the time; an HTTP worker's are open only while it polls. Both ways to
// bridge that were tried, on two cores:
//
// A worker whose inbox stays open is given items while it doesn't poll. One worker of 10 slots
// that ran its items in turn, 50 ms each, beside two workers of 1 slot, kept items waiting for
// 65 ms in the median and 230 ms at p90, where pulling took 1.1 ms and 1.6 ms. Handing back
// after 20 ms what nobody had polled for left 22 ms at p90, and made two more events for each
// such item. And the gain is small where it does no harm: 13% of the CPU, for workers with one
// slot and items that run for 5 ms.
//
// An inbox that opens and closes with each poll takes two registrations, at which the engine
// looks at all its workers anew. With a single worker an item cost 2.1 ms of CPU in place of
// 1.8 ms; with 100 workers each registration costs 0.4 ms more, with 1,000 workers 3 ms more.
//
// # Bounds
//
// At most [MaxWorkers] sessions; each has at most one open poll (a second one
// takes over), its slots' worth of runs, and one pull request for each consumer.
// A poll returns at most [MaxItems] items of [MaxPollBytes] together. What has
// arrived and is not handed out has at most [DefaultMaxLoadedBytes] over all
// sessions, beyond which it goes back; what is held for repeats of named polls
// at most [DefaultMaxHeldBytes], beyond which the oldest is given up.
//
// # Locks
//
// One mutex guards all sessions; nothing waits while it is held. What is to be
// published collects in an outbox and goes out when it is released.
package bridge
