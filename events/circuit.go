package events

import (
	"slices"
	"time"
)

// CircuitState is whether a circuit lets work through.
type CircuitState string

// The states of a circuit. The zero one is closed: work goes through.
const (
	CircuitShut     CircuitState = "" // closed
	CircuitOpen     CircuitState = "open"
	CircuitHalfOpen CircuitState = "half_open"
)

func (s CircuitState) String() string {
	if s == CircuitShut {
		return "closed"
	}
	return string(s)
}

// The reasons of circuit_opened and circuit_closed.
const (
	ReasonConsecutive = "consecutive" // so many failures in a row
	ReasonRatio       = "ratio"       // so many failures in the window
	ReasonProbe       = "probe"       // a run that tried it has failed
	ReasonProbes      = "probes"      // enough runs that tried it have succeeded
	ReasonReset       = "reset"       // by an operator
	ReasonConfigured  = "configured"  // it was switched off
)

// Circuit is the circuit breaker of a type or of a worker. Values are copied on
// write; the slices in them are never written.
type Circuit struct {
	State  CircuitState `json:"state,omitempty"`
	At     time.Time    `json:"at,omitzero"`      // when it came into this state; zero: it was never in another
	Reason string       `json:"reason,omitempty"` // why it last opened; empty when it is closed

	Consecutive int `json:"consecutive,omitempty"` // failures in a row
	// The rolling window of the failure ratio: two halves, the older one first.
	WindowAt time.Time `json:"window_at,omitzero"` // when the newer half began
	Ended    [2]int    `json:"ended,omitzero"`
	Failed   [2]int    `json:"failed,omitzero"`

	Opens     int       `json:"opens,omitempty"`     // in a row, with no close between
	Until     time.Time `json:"until,omitzero"`      // open: when it becomes half open
	Probing   int       `json:"probing,omitempty"`   // runs under way that were begun to try it
	Succeeded int       `json:"succeeded,omitempty"` // half open: of those that have ended
	LastAt    time.Time `json:"last_at,omitzero"`    // of its last failure

	// Of a type: the last event by which one of its items completed.
	LastOK Seq `json:"last_ok,omitempty"`

	// Of a worker: the event that began its failures in a row, the items that
	// have failed in a row, each once, and those whose run tries the circuit.
	Since  Seq  `json:"since,omitempty"`
	Items  []ID `json:"items,omitempty"`
	Trying []ID `json:"trying,omitempty"`
}

// ended is the circuit after a run has ended. probe says that the run was begun
// to try it. Only those count while it is not closed: what was begun before it
// opened says nothing of now.
func (c Circuit) ended(set CircuitSettings, at time.Time, failed, probe bool) Circuit {
	if failed {
		c.LastAt = at
	}
	switch {
	case c.State == CircuitHalfOpen && probe && !failed:
		c.Succeeded++
	case c.State != CircuitShut:
	case failed:
		c.Consecutive++
		c.roll(set, at)
		c.Ended[1]++
		c.Failed[1]++
	default:
		c.Consecutive = 0
		c.roll(set, at)
		c.Ended[1]++
	}
	return c
}

// roll brings the window to a time.
func (c *Circuit) roll(set CircuitSettings, at time.Time) {
	half := time.Duration(set.WithDefaults().WindowMS) * time.Millisecond / 2
	switch past := at.Sub(c.WindowAt); {
	case c.WindowAt.IsZero() || past >= 2*half:
		c.WindowAt, c.Ended, c.Failed = at, [2]int{}, [2]int{}
	case past >= half:
		c.WindowAt = c.WindowAt.Add(half)
		c.Ended, c.Failed = [2]int{c.Ended[1], 0}, [2]int{c.Failed[1], 0}
	}
}

// trips says whether, and why, a closed circuit opens.
func (c Circuit) trips(set CircuitSettings) (reason string, failed, of int) {
	set = set.WithDefaults()
	ended := c.Ended[0] + c.Ended[1]
	bad := c.Failed[0] + c.Failed[1]
	switch {
	case set.Consecutive > 0 && c.Consecutive >= set.Consecutive:
		return ReasonConsecutive, c.Consecutive, c.Consecutive
	case set.Ratio > 0 && ended >= set.MinRuns && float64(bad) >= set.Ratio*float64(ended):
		return ReasonRatio, bad, ended
	}
	return "", 0, 0
}

// opened is the circuit after circuit_opened.
func (c Circuit) opened(b *CircuitOpened, at time.Time) Circuit {
	c = c.cleared()
	c.State, c.At, c.Reason, c.Until, c.Opens = CircuitOpen, at, b.Reason, b.Until, b.Opens
	return c
}

// halfOpened is the circuit after circuit_half_opened.
func (c Circuit) halfOpened(at time.Time) Circuit {
	c = c.cleared()
	c.State, c.At, c.Until = CircuitHalfOpen, at, time.Time{}
	return c
}

// closed is the circuit after circuit_closed.
func (c Circuit) closed(at time.Time) Circuit {
	c = c.cleared()
	c.State, c.At, c.Reason, c.Until, c.Opens = CircuitShut, at, "", time.Time{}, 0
	return c
}

// cleared is the circuit with nothing counted: each state begins so. The runs
// that try it are still under way.
func (c Circuit) cleared() Circuit {
	c.Consecutive, c.WindowAt, c.Ended, c.Failed, c.Succeeded = 0, time.Time{}, [2]int{}, [2]int{}, 0
	c.Since, c.Items = 0, nil
	return c
}

// workerFailed is a worker's closed circuit after an item has failed. An item
// counts once, and beyond MaxWorkerFailures none is remembered.
func (c Circuit) workerFailed(id ID, seq Seq, at time.Time) Circuit {
	c.LastAt = at
	if len(c.Items) == 0 {
		c.Since = seq
	}
	if len(c.Items) < MaxWorkerFailures && !slices.Contains(c.Items, id) {
		c.Items = append(slices.Clone(c.Items), id)
	}
	c.Consecutive = len(c.Items)
	return c
}

// tries adds a run that tries the worker's circuit.
func (c Circuit) tries(id ID) Circuit {
	c.Trying = append(slices.Clone(c.Trying), id)
	c.Probing = len(c.Trying)
	return c
}

// triesNoMore takes it out.
func (c Circuit) triesNoMore(id ID) Circuit {
	c.Trying = slices.DeleteFunc(slices.Clone(c.Trying), func(x ID) bool { return x == id })
	if len(c.Trying) == 0 {
		c.Trying = nil
	}
	c.Probing = len(c.Trying)
	return c
}

// CircuitRef names a circuit: a worker's, or else a type's.
type CircuitRef struct {
	Type   Type
	Worker WorkerID
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
func (cs *circuits) note(ref CircuitRef, c *Circuit) {
	until, was := cs.open[ref]
	switch is := c != nil && c.State != CircuitShut; {
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
func (s *State) WorkerCircuit(w WorkerID) Circuit {
	if c := s.workers.get(string(w)); c != nil {
		return *c
	}
	return Circuit{}
}

// Benched are the workers that may not claim as they like, and how many runs
// each may have under way: none while its circuit is open, the probes of it
// while it is half open.
func (s *State) Benched() map[WorkerID]int {
	set := s.limits.WorkerCircuit
	if !set.On() {
		return nil
	}
	var out map[WorkerID]int
	for ref, until := range s.circuits.open {
		if ref.Worker == "" {
			continue
		}
		if out == nil {
			out = map[WorkerID]int{}
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
func (s *State) Gate(t Type) Gate {
	e := s.types[t]
	if e == nil {
		return Gate{}
	}
	c := &e.info.Circuit
	switch {
	case e.info.Paused != nil || c.State == CircuitOpen:
		return Gate{Stopped: true}
	case c.State == CircuitHalfOpen:
		return Gate{Limited: true, Probes: max(e.info.Settings.Circuit.WithDefaults().Probes-c.Probing, 0)}
	}
	return Gate{}
}
