// Package registry knows which workers are there, what they offer, and whether
// they take new work.
//
// It owns the registered workers with their sessions, the ones that died of
// late, and what is known of each one's condition: what its heartbeats say, what
// its probes have shown, whether it is to drain. A worker's status follows from
// its condition alone; draining goes first, since it is for good.
//
// Everything here is volatile. A worker that the engine does not know is asked to
// register again, so an empty registry fills by itself. What must outlive the process is
// in the log, and passed in by [Registry.SetMarks] (which workers must drain) and
// [Registry.Bench] (which circuits are not closed). The registry decides nothing that a
// claim would not check again.
//
// Order of events: a change is made under the lock, and then Changed is called
// without it; a worker that is silent for too long dies in [Registry.Expire],
// which the owner calls when the time that it returned last has come. Probes are
// sent and judged by [Prober]; a probe that the engine itself could not send or
// await says nothing about its worker.
//
// The more workers there are, the longer each may be silent while it has nothing
// ([Registry.MayRest]). A worker that means to says so in its heartbeat; its death, and
// the end of its hold on its id, are counted from the end of that rest.
//
// The package does no I/O: what is sent goes through the functions of Prober.
package registry
