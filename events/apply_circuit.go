package events

import (
	"slices"
	"strings"
	"time"
)

// run is what of an item's run is needed once it has ended.
type run struct {
	running bool
	worker  WorkerID
	probe   bool
}

func runOf(it *Item) run {
	return run{running: it.State == StateClaimed || it.State == StateRunning, worker: it.Worker, probe: it.Probe}
}

// counts reports whether a failure speaks against the type: one that is not
// retried is the item's own, unless the settings say otherwise.
func (c CircuitSettings) counts(f *Failed) bool { return f.Retryable || c.CountNoRetry }

// triedBy reports whether the circuit is half open and the item's run tries it.
// A nil circuit is closed.
func (c *Circuit) triedBy(it *Item) bool {
	return c != nil && c.State == CircuitHalfOpen && slices.Contains(c.Trying, it.ID)
}

// followRun follows, in the circuits, the begin and the end of an item's run.
// was is the run before the event.
func (s *State) followRun(was run, it *Item, ev Event) {
	is := it.State == StateClaimed || it.State == StateRunning
	switch {
	case is && !was.running:
		s.runBegins(it, ev)
	case !is && was.running:
		s.runEnds(was, it, ev)
	case ev.Kind == KindReplayed:
		it.LeasesLost = 0
	}
}

func (s *State) runBegins(it *Item, ev Event) {
	b, ok := ev.Body.(*Claimed)
	if !ok {
		return
	}
	if b.Probe {
		it.Probe = true
		s.typeOf(it.Type).info.Circuit.Probing++
	}
	if b.WorkerProbe {
		s.setWorkerCircuit(it.Worker, s.WorkerCircuit(it.Worker).tries(it.ID))
	}
}

func (s *State) runEnds(was run, it *Item, ev Event) {
	t := s.typeOf(it.Type)
	if was.probe {
		it.Probe = false
		t.info.Circuit.Probing--
	}
	tried := false
	if c := s.workers.get(string(was.worker)); c != nil && slices.Contains(c.Trying, it.ID) {
		tried = true
		s.setWorkerCircuit(was.worker, c.triesNoMore(it.ID))
	}
	set := t.info.Settings.Circuit
	switch b := ev.Body.(type) {
	case *Completed:
		t.info.Circuit.LastOK = ev.Seq
		if set.On() {
			t.info.Circuit = t.info.Circuit.ended(set, ev.At, false, was.probe)
		}
		s.workerSucceeded(was.worker, ev, tried)
	case *Failed:
		if b.Code == FailLeaseExpired {
			it.LeasesLost++
		}
		if set.On() && set.counts(b) {
			t.info.Circuit = t.info.Circuit.ended(set, ev.At, true, was.probe)
		}
		s.workerFailed(was.worker, b, ev)
	}
}

// workerSucceeded ends the worker's failures in a row, or counts for its
// half-open circuit.
func (s *State) workerSucceeded(w WorkerID, ev Event, tried bool) {
	c := s.workers.get(string(w))
	switch {
	case c == nil:
	case c.State == CircuitShut:
		s.workers.remove(string(w))
	default:
		s.setWorkerCircuit(w, c.ended(CircuitSettings{}, ev.At, false, tried))
	}
}

// workerFailed counts an item that a worker has failed. A lost lease does not
// count: who is dead takes no work.
func (s *State) workerFailed(w WorkerID, b *Failed, ev Event) {
	c := s.WorkerCircuit(w)
	if w == "" || w.Native() || c.State != CircuitShut || b.Code == FailLeaseExpired {
		return
	}
	s.setWorkerCircuit(w, c.workerFailed(ev.ID, ev.Seq, ev.At))
}

// setWorkerCircuit keeps a worker's circuit. Of the other entries, the one that
// has failed longest ago makes room beyond MaxWorkerCircuits.
func (s *State) setWorkerCircuit(w WorkerID, c Circuit) {
	if s.workers.get(string(w)) == nil && s.workers.len() >= MaxWorkerCircuits {
		oldest, first := "", (*Circuit)(nil)
		for id, o := range s.workers.m {
			if first == nil || o.LastAt.Before(first.LastAt) || o.LastAt.Equal(first.LastAt) && strings.Compare(id, oldest) < 0 {
				oldest, first = id, o
			}
		}
		s.workers.remove(oldest)
		s.circuits.note(CircuitRef{Worker: WorkerID(oldest)}, nil)
	}
	s.workers.set(string(w), c)
	s.circuits.note(CircuitRef{Worker: w}, &c)
}

// applyCircuit folds in what concerns a type's pause, or a circuit.
func (s *State) applyCircuit(ev Event) error {
	if ev.Worker != "" {
		return s.applyWorkerCircuit(ev)
	}
	if s.types[ev.Type] == nil {
		return s.corrupt(ev, "there is no type %q", ev.Type)
	}
	info := &s.typeOf(ev.Type).info
	switch b := ev.Body.(type) {
	case *Paused:
		s.applyPaused(ev, b, info)
		return nil
	case *Resumed:
		if info.Paused == nil {
			return s.corrupt(ev, "type %s is not paused", ev.Type)
		}
		info.Paused = nil
		s.pauses.note(ev.Type, nil)
		return nil
	}
	next, ok := info.Circuit.folded(ev)
	if !ok {
		return s.corrupt(ev, "the circuit of type %s is %s", ev.Type, info.Circuit.State)
	}
	info.Circuit = next
	s.circuits.note(CircuitRef{Type: ev.Type}, &next)
	return nil
}

func (s *State) applyWorkerCircuit(ev Event) error {
	w := string(ev.Worker)
	had := s.workers.get(w)
	if had == nil {
		return s.corrupt(ev, "nothing is known of worker %s", w)
	}
	next, ok := had.folded(ev)
	if !ok {
		return s.corrupt(ev, "the circuit of worker %s is %s", w, had.State)
	}
	if next.State == CircuitShut {
		s.workers.remove(w)
		s.circuits.note(CircuitRef{Worker: ev.Worker}, nil)
		return nil
	}
	s.setWorkerCircuit(ev.Worker, next)
	return nil
}

// folded is the circuit after one of its own events; false if that can't have
// been decided.
func (c Circuit) folded(ev Event) (Circuit, bool) {
	switch b := ev.Body.(type) {
	case *CircuitOpened:
		return c.opened(b, ev.At), c.State != CircuitOpen
	case *CircuitHalfOpened:
		return c.halfOpened(ev.At), c.State == CircuitOpen
	case *CircuitClosed:
		return c.closed(ev.At), c.State != CircuitShut
	}
	return c, false
}

// loadCircuits notes which circuits the base has that are not closed.
func (s *State) loadCircuits() {
	s.circuits = circuits{open: map[CircuitRef]time.Time{}}
	for t, e := range s.types {
		s.circuits.note(CircuitRef{Type: t}, &e.info.Circuit)
	}
	for w, c := range s.workers.m {
		s.circuits.note(CircuitRef{Worker: WorkerID(w)}, c)
	}
}
