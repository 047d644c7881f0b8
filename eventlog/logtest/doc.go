// Package logtest implements event logs in memory, for tests: [Memory], whose appends and
// purges fail as its script says, and [ReplicaLog] on a model of a replicated stream, for
// simulations. Both pass the suite of [eventlog.JetStream]. [Decision] and others make what tests
// write to a log.
package logtest
