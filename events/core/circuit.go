package core

import (
	"time"

	"github.com/streamwright/streamwright/events"
)

// CircuitRef names a circuit: a worker's, or else a type's.
type CircuitRef struct {
	Type   events.Type
	Worker events.WorkerID
}

// circuits is what the State knows of the circuits that are not closed, so that
// nobody looks through all types and workers. It follows from what is kept.
type circuits struct {
	open    map[CircuitRef]time.Time // when it becomes half open; zero: it is
	version uint64                   // changes with each of them
	next    CircuitRef               // the first that becomes half open
	nextAt  time.Time                // when; zero: none does
}

// note notes what has become of a circuit.
func (cs *circuits) note(ref CircuitRef, c *events.Circuit) {
	until, was := cs.open[ref]
	switch is := c != nil && c.State != events.CircuitShut; {
	case !is && !was:
		return
	case !is:
		delete(cs.open, ref)
	case was && until.Equal(c.Until):
		return
	default:
		cs.open[ref] = c.Until
	}
	cs.version++
	cs.next, cs.nextAt = CircuitRef{}, time.Time{}
	for r, at := range cs.open {
		if !at.IsZero() && (cs.nextAt.IsZero() || at.Before(cs.nextAt)) {
			cs.next, cs.nextAt = r, at
		}
	}
}

// NextCircuit returns the circuit that becomes half open first, and when; the
// zero time for none.
func (s *State) NextCircuit() (CircuitRef, time.Time) { return s.circuits.next, s.circuits.nextAt }

// CircuitVersion changes whenever a circuit opens, half opens or closes.
func (s *State) CircuitVersion() uint64 { return s.circuits.version }

// WorkerCircuit returns a worker's circuit, the zero one if nothing is known.
func (s *State) WorkerCircuit(w events.WorkerID) events.Circuit {
	if c := s.workers.get(string(w)); c != nil {
		return *c
	}
	return events.Circuit{}
}

// Benched are the workers that may not claim as they like, and how many runs
// each may have under way: none while its circuit is open, the probes of it
// while it is half open.
func (s *State) Benched() map[events.WorkerID]int {
	set := s.limits.WorkerCircuit
	if !set.On() {
		return nil
	}
	var out map[events.WorkerID]int
	for ref, until := range s.circuits.open {
		if ref.Worker == "" {
			continue
		}
		if out == nil {
			out = map[events.WorkerID]int{}
		}
		out[ref.Worker] = 0
		if until.IsZero() {
			out[ref.Worker] = set.WithDefaults().Probes
		}
	}
	return out
}

// Gate is whether items of a type may be dispatched now.
type Gate struct {
	Stopped bool // none may: the type is paused, or its circuit open
	Probes  int  // half open: so many more runs may be begun; else 0
	Limited bool // half open: Probes counts
}

// Gate returns a type's gate.
func (s *State) Gate(t events.Type) Gate {
	e := s.types[t]
	if e == nil {
		return Gate{}
	}
	c := &e.info.Circuit
	switch {
	case e.info.Paused != nil || c.State == events.CircuitOpen:
		return Gate{Stopped: true}
	case c.State == events.CircuitHalfOpen:
		return Gate{Limited: true, Probes: max(e.info.Settings.Circuit.WithDefaults().Probes-c.Probing, 0)}
	}
	return Gate{}
}
