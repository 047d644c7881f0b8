package core

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

func (s *sim) circuitCommand() Command {
	typ := pick(s, "type", events.Type("email"), "email", "call", "sms", "")
	worker := pick(s, "worker", events.WorkerID(""), "", "w1", "w2")
	switch s.drawn(8) {
	case 0:
		return s.pauseCommand(typ)
	case 6:
		return s.duePauseCommand(typ)
	case 7:
		return s.drainCommand()
	case 1:
		return ResumeType{Type: typ}
	case 2:
		if ref, at := s.oracle.NextCircuit(); !at.IsZero() && s.chance("in time", 70) {
			if s.now.Before(at) {
				s.now = at
			}
			return DueCircuit(ref)
		}
		return DueCircuit{Type: typ, Worker: worker}
	case 3:
		return ResetCircuit{Type: typ, Worker: worker}
	}
	set := events.DefaultTypeSettings()
	switch s.drawn(3) {
	case 0:
		set.Circuit = events.CircuitSettings{Consecutive: 1 + s.drawn(2), Probes: 1 + s.drawn(2), Cooldown: events.Millis(1000), MaxCooldown: events.Millis(4000), CountNoRetry: s.chance("count all", 30)}
	case 1:
		set.Circuit = events.CircuitSettings{Ratio: 0.5, MinRuns: 1 + s.drawn(3), Window: events.Millis(2000)}
	}
	set.PoisonAfter = s.drawn(3)
	if s.chance("codes", 30) {
		set.Codes = map[string]events.CodePolicy{"network": {MaxAttempts: events.Attempt(s.drawn(4)), DelayFactor: 3, TimeoutFactor: 2, TimeoutMax: events.Millis(600_000)}, "logic": {}}
	}
	return Configure{Type: pick(s, "type", events.Type("email"), "call"), Source: events.SourceAPI, Settings: set}
}

func (s *sim) drawn(n int) int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return pick(s, "which", all...)
}

// checkClaim holds for each claim that was granted: nothing held it back.
func (s *sim) checkClaim(ev events.Event, b *events.Claimed) {
	t, _ := s.oracle.Type(ev.Type)
	c := t.Circuit
	w := s.oracle.WorkerCircuit(ev.Worker)
	switch {
	case t.Paused != nil || c.State == events.CircuitOpen || w.State == events.CircuitOpen:
		s.t.Fatalf("%s was claimed by %s: paused %v, circuit %s, the worker's %s", ev.ID, ev.Worker, t.Paused, c.State, w.State)
	case b.Probe != (c.State == events.CircuitHalfOpen) || b.WorkerProbe != (w.State == events.CircuitHalfOpen):
		s.t.Fatalf("%s was claimed with probe %v %v: circuit %s, the worker's %s", ev.ID, b.Probe, b.WorkerProbe, c.State, w.State)
	case b.Probe && c.Probing > t.Settings.Circuit.WithDefaults().Probes, b.WorkerProbe && len(w.Trying) > simLimits.WorkerCircuit.Probes:
		s.t.Fatalf("%s was claimed: %d and %d runs try the circuits", ev.ID, c.Probing, len(w.Trying))
	}
}

// checkCircuits holds after every decision: the circuits' books are what the
// items say, and what is due follows from the circuits.
func (s *sim) checkCircuits() {
	o := s.oracle
	probing := map[events.Type]int{}
	trying := map[events.ID]events.WorkerID{}
	for w, c := range o.workers.m {
		if c.Probing != len(c.Trying) || c.State == events.CircuitShut && c.Consecutive != len(c.Items) || c.State != events.CircuitShut && len(c.Items) > 0 {
			s.t.Fatalf("circuit of worker %s: %+v", w, c)
		}
		for _, id := range c.Trying {
			trying[id] = events.WorkerID(w)
		}
	}
	for id, e := range present(o) {
		it := e.cur
		running := it.State == events.StateClaimed || it.State == events.StateRunning
		if it.Probe {
			probing[it.Type]++
		}
		if it.Probe && !running || trying[id] != "" && (!running || it.Worker != trying[id]) {
			s.t.Fatalf("%s tries a circuit and does not run: %+v", id, it)
		}
		limit := max(it.MaxAttempts, 5) // the codes' highest
		if it.OwnAttempts {
			limit = it.MaxAttempts
		}
		if int(it.Spared) > it.LeasesLost {
			s.t.Fatalf("%s has lost %d leases, and is spared %d attempts", id, it.LeasesLost, it.Spared)
		}
		if it.Attempt > limit {
			s.t.Fatalf("%s has made %d attempts", id, it.Attempt)
		}
	}
	open := map[CircuitRef]time.Time{}
	for name, e := range o.types {
		c := e.info.Circuit
		if c.Probing != probing[name] {
			s.t.Fatalf("type %s: %d items try its circuit, it counts %+v", name, probing[name], c)
		}
		if c.State != events.CircuitShut {
			open[CircuitRef{Type: name}] = c.Until
		}
	}
	for w, c := range o.workers.m {
		if c.State != events.CircuitShut {
			open[CircuitRef{Worker: events.WorkerID(w)}] = c.Until
		}
	}
	for _, st := range []*State{s.live, o} {
		if !reflect.DeepEqual(st.circuits.open, open) {
			s.t.Fatalf("noted as open %v, are open %v", st.circuits.open, open)
		}
	}
	s.checkPauses()
	s.checkDrains()
	if !reflect.DeepEqual(s.live.workers.m, o.workers.m) {
		s.t.Fatalf("circuits of workers: live %v, by the log %v", s.live.workers.keys(), o.workers.keys())
	}
	_, next := o.NextCircuit()
	for _, at := range open {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			s.t.Fatalf("the next circuit is said to be due at %v, one is at %v", next, at)
		}
	}
	if !next.IsZero() && !slices.ContainsFunc(slices.Collect(maps.Values(open)), next.Equal) {
		s.t.Fatalf("no circuit is due at %v", next)
	}
}
