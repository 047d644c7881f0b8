package core

import (
	"slices"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/policy"
)

// run is what of an item's run is needed once it has ended.
type run struct {
	running bool
	worker  events.WorkerID
	probe   bool
}

func runOf(it *events.Item) run {
	return run{running: it.State == events.StateClaimed || it.State == events.StateRunning, worker: it.Worker, probe: it.Probe}
}

// followRun follows, in the circuits, the begin and the end of an item's run.
// was is the run before the event.
func (a *applier) followRun(was run, it *events.Item) {
	is := it.State == events.StateClaimed || it.State == events.StateRunning
	switch {
	case is && !was.running:
		a.runBegins(it)
	case !is && was.running:
		a.runEnds(was, it)
	case a.ev.Kind == events.KindReplayed:
		it.LeasesLost = 0
	}
}

func (a *applier) runBegins(it *events.Item) {
	b, ok := a.ev.Body.(*events.Claimed)
	if !ok {
		return
	}
	if b.Probe {
		it.Probe = true
		a.typeOf(it.Type).info.Circuit.Probing++
	}
	if b.WorkerProbe {
		a.setWorkerCircuit(it.Worker, policy.Tries(a.WorkerCircuit(it.Worker), it.ID))
	}
}

func (a *applier) runEnds(was run, it *events.Item) {
	t := a.typeOf(it.Type)
	if was.probe {
		it.Probe = false
		t.info.Circuit.Probing--
	}
	tried := false
	if c := a.workers.get(string(was.worker)); c != nil && slices.Contains(c.Trying, it.ID) {
		tried = true
		a.setWorkerCircuit(was.worker, policy.TriesNoMore(*c, it.ID))
	}
	set := t.info.Settings.Circuit
	switch b := a.ev.Body.(type) {
	case *events.Completed:
		t.info.Circuit.LastOK = a.ev.Seq
		if set.On() {
			t.info.Circuit = policy.RunEnded(t.info.Circuit, set, a.ev.At, false, was.probe)
		}
		a.workerSucceeded(was.worker, a.ev, tried)
	case *events.Failed:
		if b.Code == events.FailLeaseExpired {
			it.LeasesLost++
		}
		if set.On() && policy.Counts(set, b) {
			t.info.Circuit = policy.RunEnded(t.info.Circuit, set, a.ev.At, true, was.probe)
		}
		a.workerFailed(was.worker, b)
	}
}

// workerSucceeded ends the worker's failures in a row, or counts for its
// half-open circuit.
func (a *applier) workerSucceeded(w events.WorkerID, ev events.Event, tried bool) {
	c := a.workers.get(string(w))
	switch {
	case c == nil:
	case c.State == events.CircuitShut:
		a.workers.remove(string(w))
	default:
		a.setWorkerCircuit(w, policy.RunEnded(*c, events.CircuitSettings{}, a.ev.At, false, tried))
	}
}

// workerFailed counts an item that a worker has failed. A lost lease does not
// count: who is dead takes no work.
func (a *applier) workerFailed(w events.WorkerID, b *events.Failed) {
	c := a.WorkerCircuit(w)
	if w == "" || w.Native() || c.State != events.CircuitShut || b.Code == events.FailLeaseExpired {
		return
	}
	a.setWorkerCircuit(w, policy.WorkerFailed(c, a.ev.ID, a.ev.Seq, a.ev.At))
}

// setWorkerCircuit keeps a worker's circuit. Of the other entries, the one that
// has failed longest ago makes room beyond MaxWorkerCircuits.
func (a *applier) setWorkerCircuit(w events.WorkerID, c events.Circuit) {
	if a.workers.get(string(w)) == nil && a.workers.len() >= events.MaxWorkerCircuits {
		oldest, first := "", (*events.Circuit)(nil)
		for id, o := range a.workers.m {
			if first == nil || o.LastAt.Before(first.LastAt) || o.LastAt.Equal(first.LastAt) && strings.Compare(id, oldest) < 0 {
				oldest, first = id, o
			}
		}
		a.workers.remove(oldest)
		a.circuits.note(CircuitRef{Worker: events.WorkerID(oldest)}, nil)
	}
	a.workers.set(string(w), c)
	a.circuits.note(CircuitRef{Worker: w}, &c)
}

// applyCircuit folds in a circuit that opens, half opens or closes.
func applyCircuit[B events.Body](a *applier, _ B) error {
	if a.ev.Worker != "" {
		return a.applyWorkerCircuit()
	}
	if a.types[a.ev.Type] == nil {
		return a.corrupt("there is no type %q", a.ev.Type)
	}
	info := &a.typeOf(a.ev.Type).info
	next, ok := policy.FoldCircuit(info.Circuit, a.ev)
	if !ok {
		return a.corrupt("the circuit of type %s is %s", a.ev.Type, info.Circuit.State)
	}
	info.Circuit = next
	a.circuits.note(CircuitRef{Type: a.ev.Type}, &next)
	return nil
}

func (a *applier) applyWorkerCircuit() error {
	w := string(a.ev.Worker)
	had := a.workers.get(w)
	if had == nil {
		return a.corrupt("nothing is known of worker %s", w)
	}
	next, ok := policy.FoldCircuit(*had, a.ev)
	if !ok {
		return a.corrupt("the circuit of worker %s is %s", w, had.State)
	}
	if next.State == events.CircuitShut {
		a.workers.remove(w)
		a.circuits.note(CircuitRef{Worker: a.ev.Worker}, nil)
		return nil
	}
	a.setWorkerCircuit(a.ev.Worker, next)
	return nil
}

// loadCircuits notes which circuits the base has that are not closed.
func (s *State) loadCircuits() {
	s.circuits = circuits{open: map[CircuitRef]time.Time{}}
	for t, e := range s.types {
		s.circuits.note(CircuitRef{Type: t}, &e.info.Circuit)
	}
	for w, c := range s.workers.m {
		s.circuits.note(CircuitRef{Worker: events.WorkerID(w)}, c)
	}
}
