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
