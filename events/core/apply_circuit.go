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
func (s *State) followRun(was run, it *events.Item, ev events.Event) {
	is := it.State == events.StateClaimed || it.State == events.StateRunning
	switch {
	case is && !was.running:
		s.runBegins(it, ev)
	case !is && was.running:
		s.runEnds(was, it, ev)
	case ev.Kind == events.KindReplayed:
		it.LeasesLost = 0
	}
}

func (s *State) runBegins(it *events.Item, ev events.Event) {
	b, ok := ev.Body.(*events.Claimed)
	if !ok {
		return
	}
	if b.Probe {
		it.Probe = true
		s.typeOf(it.Type).info.Circuit.Probing++
	}
	if b.WorkerProbe {
		s.setWorkerCircuit(it.Worker, policy.Tries(s.WorkerCircuit(it.Worker), it.ID))
	}
}

func (s *State) runEnds(was run, it *events.Item, ev events.Event) {
	t := s.typeOf(it.Type)
	if was.probe {
		it.Probe = false
		t.info.Circuit.Probing--
	}
	tried := false
	if c := s.workers.get(string(was.worker)); c != nil && slices.Contains(c.Trying, it.ID) {
		tried = true
		s.setWorkerCircuit(was.worker, policy.TriesNoMore(*c, it.ID))
	}
	set := t.info.Settings.Circuit
	switch b := ev.Body.(type) {
	case *events.Completed:
		t.info.Circuit.LastOK = ev.Seq
		if set.On() {
			t.info.Circuit = policy.RunEnded(t.info.Circuit, set, ev.At, false, was.probe)
		}
		s.workerSucceeded(was.worker, ev, tried)
	case *events.Failed:
		if b.Code == events.FailLeaseExpired {
			it.LeasesLost++
		}
		if set.On() && policy.Counts(set, b) {
			t.info.Circuit = policy.RunEnded(t.info.Circuit, set, ev.At, true, was.probe)
		}
		s.workerFailed(was.worker, b, ev)
	}
}

// workerSucceeded ends the worker's failures in a row, or counts for its
// half-open circuit.
func (s *State) workerSucceeded(w events.WorkerID, ev events.Event, tried bool) {
	c := s.workers.get(string(w))
	switch {
	case c == nil:
	case c.State == events.CircuitShut:
		s.workers.remove(string(w))
	default:
		s.setWorkerCircuit(w, policy.RunEnded(*c, events.CircuitSettings{}, ev.At, false, tried))
	}
}

// workerFailed counts an item that a worker has failed. A lost lease does not
// count: who is dead takes no work.
func (s *State) workerFailed(w events.WorkerID, b *events.Failed, ev events.Event) {
	c := s.WorkerCircuit(w)
	if w == "" || w.Native() || c.State != events.CircuitShut || b.Code == events.FailLeaseExpired {
		return
	}
	s.setWorkerCircuit(w, policy.WorkerFailed(c, ev.ID, ev.Seq, ev.At))
}

// setWorkerCircuit keeps a worker's circuit. Of the other entries, the one that
// has failed longest ago makes room beyond MaxWorkerCircuits.
func (s *State) setWorkerCircuit(w events.WorkerID, c events.Circuit) {
	if s.workers.get(string(w)) == nil && s.workers.len() >= events.MaxWorkerCircuits {
		oldest, first := "", (*events.Circuit)(nil)
		for id, o := range s.workers.m {
			if first == nil || o.LastAt.Before(first.LastAt) || o.LastAt.Equal(first.LastAt) && strings.Compare(id, oldest) < 0 {
				oldest, first = id, o
			}
		}
		s.workers.remove(oldest)
		s.circuits.note(CircuitRef{Worker: events.WorkerID(oldest)}, nil)
	}
	s.workers.set(string(w), c)
	s.circuits.note(CircuitRef{Worker: w}, &c)
}

// applyCircuit folds in what concerns a type's pause, or a circuit.
func (s *State) applyCircuit(ev events.Event) error {
	if ev.Worker != "" {
		return s.applyWorkerCircuit(ev)
	}
	if s.types[ev.Type] == nil {
		return s.corrupt(ev, "there is no type %q", ev.Type)
	}
	info := &s.typeOf(ev.Type).info
	switch b := ev.Body.(type) {
	case *events.Paused:
		s.applyPaused(ev, b, info)
		return nil
	case *events.Resumed:
		if info.Paused == nil {
			return s.corrupt(ev, "type %s is not paused", ev.Type)
		}
		info.Paused = nil
		s.pauses.note(ev.Type, nil)
		return nil
	}
	next, ok := policy.FoldCircuit(info.Circuit, ev)
	if !ok {
		return s.corrupt(ev, "the circuit of type %s is %s", ev.Type, info.Circuit.State)
	}
	info.Circuit = next
	s.circuits.note(CircuitRef{Type: ev.Type}, &next)
	return nil
}

func (s *State) applyWorkerCircuit(ev events.Event) error {
	w := string(ev.Worker)
	had := s.workers.get(w)
	if had == nil {
		return s.corrupt(ev, "nothing is known of worker %s", w)
	}
	next, ok := policy.FoldCircuit(*had, ev)
	if !ok {
		return s.corrupt(ev, "the circuit of worker %s is %s", w, had.State)
	}
	if next.State == events.CircuitShut {
		s.workers.remove(w)
		s.circuits.note(CircuitRef{Worker: ev.Worker}, nil)
		return nil
	}
	s.setWorkerCircuit(ev.Worker, next)
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
