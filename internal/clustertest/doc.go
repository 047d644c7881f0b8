// Package clustertest tries real clusters under faults: engine and NATS server
// processes, each in a network namespace of its own, are killed, paused,
// stopped, cut off and slowed down while clients submit, start, complete,
// cancel and get. Where the kernel allows no namespaces, the processes share
// the loopback and every link between two of them goes through a TCP proxy.
//
// Four things are checked at the end of each scenario:
//
//   - the history: what clients were told, with the times at which they asked
//     and were answered, is linearizable (porcupine) by the model in
//     model_test.go; a request without an answer may take effect at any later
//     time, or never;
//   - the log, read from its beginning: one completion for each item, no claim
//     before the end of the run before it, all that was accepted has ended;
//   - the dispatches: none was given to two workers;
//   - the stores: each node's is what the log says (verify).
//
// go test runs the model's own tests and a quick set of scenarios. The long set
// needs an environment variable:
//
//	CLUSTERTEST_LONG=10m   a random nemesis for so long in each kind of cluster
//	CLUSTERTEST_SEED=7     the seed of its schedule; default: a new one, which is logged
//	CLUSTERTEST_NET=proxy  proxies even where namespaces are allowed
//	CLUSTERTEST_KEEP=DIR   keep the folders and logs of the nodes there
//	CLUSTERTEST_ENGINE=FILE  this program in place of one built from the source
//	CLUSTERTEST_FAILOVER=5 measure fail-over times, so many runs of each kind
//	CLUSTERTEST_SCALE=30000 measure what a node more carries, with so many items
//
// It is a module of its own, so that users of the main one do not download
// porcupine.
package clustertest
