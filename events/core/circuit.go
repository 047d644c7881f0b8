package core

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/policy"
)

// CircuitRef names a circuit: a worker's, or else a type's.
type CircuitRef struct {
	Type   events.Type
	Worker events.WorkerID
}

// circuits indexes the circuits that are not closed. It follows from the types
// and workers.
type circuits struct {
	open    map[CircuitRef]time.Time // when each becomes half open; zero: it is
	version uint64                   // changes with each of them, and with the runs that try a worker's
}

// note keeps the index when a circuit may have changed.
func (cs *circuits) note(ref CircuitRef, c *events.Circuit) {
	until, was := cs.open[ref]
	switch is := c != nil && c.State != events.CircuitShut; {
	case !is && !was, is && was && until.Equal(c.Until):
		return
	case is:
		cs.open[ref] = c.Until
	default:
		delete(cs.open, ref)
	}
	cs.version++
}

// NextCircuit returns the circuit that becomes half open first, and when; the
// zero time for none.
func (s *State) NextCircuit() (CircuitRef, time.Time) {
	return earliest(s.circuits.open, func(a, b CircuitRef) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Worker, b.Worker))
	})
}

// CircuitVersion changes whenever a circuit opens, half opens or closes, and with the runs that
// try a worker's.
func (s *State) CircuitVersion() uint64 { return s.circuits.version }

// WorkerCircuit returns a worker's circuit, the zero one if nothing is known.
func (s *State) WorkerCircuit(w events.WorkerID) events.Circuit {
	c, _ := s.workers.value(string(w))
	return c
}

// OpenWorkerCircuits returns the workers whose circuit is not closed, and how many
// more runs each may begin: none while it is open, and while it is half open those
// that are left to try it.
func (s *State) OpenWorkerCircuits() map[events.WorkerID]int {
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
			out[ref.Worker] = max(set.WithDefaults().Probes-s.WorkerCircuit(ref.Worker).Probing, 0)
		}
	}
	return out
}

// DispatchGate says whether items of a type may be dispatched now.
type DispatchGate struct {
	Stopped bool // none may: the type is paused, or its circuit open
	Probes  int  // half open: so many more runs may be begun; else 0
	Limited bool // half open: Probes counts
}

// DispatchGate returns a type's gate.
func (s *State) DispatchGate(t events.Type) DispatchGate {
	e := s.types[t]
	if e == nil {
		return DispatchGate{}
	}
	c := &e.info.Circuit
	switch {
	case e.info.Paused != nil || c.State == events.CircuitOpen:
		return DispatchGate{Stopped: true}
	case c.State == events.CircuitHalfOpen:
		return DispatchGate{Limited: true, Probes: max(e.info.Settings.Circuit.WithDefaults().Probes-c.Probing, 0)}
	}
	return DispatchGate{}
}

func (d *decider) knownType(t events.Type) (events.TypeInfo, error) {
	if _, err := events.ParseType(string(t)); err != nil {
		return events.TypeInfo{}, events.Refuse(events.CodeBadType, "%v", err)
	}
	info, known := d.state.Type(t)
	if !known {
		return events.TypeInfo{}, UnknownType(t)
	}
	return info, nil
}

// UnknownType refuses what is about a type that does not exist.
func UnknownType(t events.Type) *events.Error {
	return events.Refuse(events.CodeNotFound, "there is no type %s: `engine types` lists them", t)
}

// circuit returns the circuit of a ref, and its settings.
func (d *decider) circuit(ref CircuitRef) (events.Circuit, events.CircuitSettings, error) {
	switch {
	case (ref.Type == "") == (ref.Worker == ""):
		return events.Circuit{}, events.CircuitSettings{}, events.Refuse(events.CodeBadRequest, "a circuit is that of a type or that of a worker: give one of them")
	case ref.Worker == "":
		t, err := d.knownType(ref.Type)
		return t.Circuit, t.Settings.Circuit, err
	}
	if _, err := events.ParseWorkerID(string(ref.Worker)); err != nil {
		return events.Circuit{}, events.CircuitSettings{}, events.Refuse(events.CodeBadRequest, "%v", err)
	}
	return d.state.WorkerCircuit(ref.Worker), d.state.limits.WorkerCircuit, nil
}

// DueCircuit says that a circuit's time may have come: a type's, or a worker's.
type DueCircuit struct {
	Type   events.Type
	Worker events.WorkerID
}

// decide half opens a circuit whose time has come. It closes one that has
// been switched off meanwhile.
func (c DueCircuit) decide(d *decider) (Decision, error) {
	ref := CircuitRef(c)
	circuit, set, err := d.circuit(ref)
	if err != nil {
		return Decision{}, err
	}
	if circuit.State != events.CircuitOpen || circuit.Until.After(d.now) {
		return Decision{Repeat: true}, nil
	}
	if !set.On() {
		return Decision{Events: []events.Event{d.circuitEvent(ref, &events.CircuitClosed{Reason: events.ReasonConfigured})}}, nil
	}
	return Decision{Events: []events.Event{d.circuitEvent(ref, &events.CircuitHalfOpened{Probes: set.WithDefaults().Probes})}}, nil
}

// ResetCircuit closes a circuit.
type ResetCircuit struct {
	Type   events.Type
	Worker events.WorkerID
}

// decide closes a circuit, whatever it has seen.
func (c ResetCircuit) decide(d *decider) (Decision, error) {
	ref := CircuitRef(c)
	circuit, _, err := d.circuit(ref)
	if err != nil {
		return Decision{}, err
	}
	if circuit.State == events.CircuitShut {
		return Decision{Repeat: true}, nil
	}
	return Decision{Events: []events.Event{d.circuitEvent(ref, &events.CircuitClosed{Reason: events.ReasonReset})}}, nil
}

// switchedOff closes the circuit of a type whose new settings have none.
func (d *decider) switchedOff(t events.TypeInfo, set events.TypeSettings) []events.Event {
	if t.Circuit.State == events.CircuitShut || set.Circuit.On() {
		return nil
	}
	return []events.Event{d.circuitEvent(CircuitRef{Type: t.Type}, &events.CircuitClosed{Reason: events.ReasonConfigured})}
}

func (d *decider) circuitEvent(ref CircuitRef, b events.Body) events.Event {
	return events.Event{Kind: b.Kind(), Type: ref.Type, Worker: ref.Worker, At: d.now, Body: b}
}

// lets refuses a claim that a pause or a circuit holds back, and says which
// half-open circuits the run tries.
func (d *decider) lets(it *events.Item, w events.WorkerID) (probe, workerProbe bool, err error) {
	t, _ := d.state.info(it.Type)
	switch c := &t.Circuit; {
	case t.Paused != nil:
		return false, false, events.Refuse(events.CodePaused, "type %s is paused: don't run item %s, it will be dispatched again when the type is resumed", it.Type, it.ID)
	case c.State == events.CircuitOpen:
		return false, false, events.Refuse(events.CodeCircuitOpen, "the circuit of type %s is open until %s: don't run item %s, it will be dispatched again", it.Type, c.Until.Format(time.RFC3339), it.ID)
	case c.State == events.CircuitHalfOpen:
		if n := t.Settings.Circuit.WithDefaults().Probes; c.Probing >= n {
			return false, false, events.Refuse(events.CodeCircuitOpen, "the circuit of type %s is half open, with %s under way: don't run item %s, it will be dispatched again", it.Type, events.Count(c.Probing, "probe"), it.ID)
		}
		probe = true
	}
	workerProbe, err = d.letsWorker(it, w)
	return probe, workerProbe, err
}

// letsWorker is the worker's part of lets. Its refusals say when it may be worth
// to pull again: the items are dispatched to others meanwhile.
func (d *decider) letsWorker(it *events.Item, w events.WorkerID) (probe bool, err error) {
	set := d.state.limits.WorkerCircuit
	c := d.state.workers.get(string(w))
	if c == nil || c.State == events.CircuitShut || !set.On() {
		return false, nil
	}
	refuse := func(wait time.Duration, why string) error {
		e := events.Refuse(events.CodeCircuitOpen, "the circuit of worker %s is %s, since it has failed one item after another which others complete: don't run item %s, and pull no more for now", w, why, it.ID)
		e.RetryAfter = max(wait, time.Second)
		return e
	}
	if c.State == events.CircuitOpen {
		return false, refuse(c.Until.Sub(d.now), "open until "+c.Until.Format(time.RFC3339))
	}
	if c.Probing >= set.WithDefaults().Probes {
		return false, refuse(0, "half open, and tried already")
	}
	return true, nil
}

// succeeded returns ev, the end of a run that has succeeded, and the events by which
// circuits change with it.
func (d *decider) succeeded(it *events.Item, ev events.Event) []events.Event {
	evs := []events.Event{ev}
	t, _ := d.state.info(it.Type)
	if set := t.Settings.Circuit; it.Probe && t.Circuit.State == events.CircuitHalfOpen && policy.RunEnded(t.Circuit, set, d.now, false, true).Succeeded >= set.WithDefaults().Probes {
		evs = append(evs, d.circuitEvent(CircuitRef{Type: it.Type}, &events.CircuitClosed{Reason: events.ReasonProbes}))
	}
	c := d.state.workers.get(string(it.Worker))
	if policy.TriedBy(c, it) && policy.RunEnded(*c, events.CircuitSettings{}, d.now, false, true).Succeeded >= d.state.limits.WorkerCircuit.WithDefaults().Probes {
		evs = append(evs, d.circuitEvent(CircuitRef{Worker: it.Worker}, &events.CircuitClosed{Reason: events.ReasonProbes}))
	}
	return evs
}

// circuitsAfter decides what a failed run does to the circuits of its type and of
// its worker.
func (d *decider) circuitsAfter(it *events.Item, f *events.Failed) (evs []events.Event) {
	t, _ := d.state.info(it.Type)
	if set := t.Settings.Circuit; set.On() && policy.Counts(set, f) {
		c := policy.RunEnded(t.Circuit, set, d.now, true, it.Probe)
		reason, failed, of := "", 1, 1
		switch {
		case c.State == events.CircuitShut:
			reason, failed, of = policy.Trips(c, set)
		case c.State == events.CircuitHalfOpen && it.Probe:
			reason, of = events.ReasonProbe, c.Succeeded+1
		}
		if reason != "" {
			evs = append(evs, d.opens(CircuitRef{Type: it.Type}, c, set, reason, failed, of))
		}
	}
	return append(evs, d.workerAfter(it, t, f)...)
}

// workerAfter opens the circuit of a worker that has failed as many items in a row as
// its settings allow, while others succeed: an item of the type that has failed now has
// completed since the row's first failure, and not on this worker, or the row would have
// ended. So where a type fails everywhere, no worker is blamed for it.
func (d *decider) workerAfter(it *events.Item, t *events.TypeInfo, f *events.Failed) []events.Event {
	set := d.state.limits.WorkerCircuit
	if !set.On() || it.Worker == "" || it.Worker.Ack() {
		return nil
	}
	ref := CircuitRef{Worker: it.Worker}
	c := d.state.WorkerCircuit(it.Worker)
	switch {
	case policy.TriedBy(&c, it):
		return []events.Event{d.opens(ref, c, set, events.ReasonProbe, 1, c.Succeeded+1)}
	case c.State == events.CircuitShut && f.Code != events.FailLeaseExpired:
		c = policy.WorkerFailed(c, it.ID, d.state.meta.Applied+1, d.now)
		if c.Consecutive >= set.Consecutive && t.Circuit.LastOK > c.Since {
			return []events.Event{d.opens(ref, c, set, events.ReasonConsecutive, c.Consecutive, c.Consecutive)}
		}
	}
	return nil
}

// opens opens a circuit, for longer each time in a row.
func (d *decider) opens(ref CircuitRef, c events.Circuit, set events.CircuitSettings, reason string, failed, of int) events.Event {
	opens := c.Opens + 1
	return d.circuitEvent(ref, &events.CircuitOpened{Reason: reason, Until: d.now.Add(policy.Cooldown(set, opens)), Opens: opens, Failed: failed, Of: of})
}

// followRun follows, in the circuits, the begin and the end of an item's run.
func (a *applier) followRun(was before, it *events.Item) {
	switch is := running(it.State); {
	case is && !running(was.state):
		a.runBegins(it)
	case !is && running(was.state):
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

func (a *applier) runEnds(was before, it *events.Item) {
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
// count: a dead worker takes no work.
func (a *applier) workerFailed(w events.WorkerID, b *events.Failed) {
	c := a.WorkerCircuit(w)
	if w == "" || w.Ack() || c.State != events.CircuitShut || b.Code == events.FailLeaseExpired {
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
	if a.WorkerCircuit(w).Probing != c.Probing {
		a.circuits.version++
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
