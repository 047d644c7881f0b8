package events

import "time"

// pauseType holds a type back. One that is paused gets another end at most.
func (d *decider) pauseType(c PauseType) (Decision, error) {
	t, err := d.knownType(c.Type)
	if err != nil {
		return Decision{}, err
	}
	for _, f := range [...]struct{ field, v string }{{"reason", c.Reason}, {"by", c.By}} {
		if _, err := name(f.field, f.v, MaxNameLen); err != nil {
			return Decision{}, err
		}
	}
	until, err := d.pauseUntil(c)
	if err != nil {
		return Decision{}, err
	}
	if t.Paused != nil {
		return d.pauseAgain(c, t.Paused, until)
	}
	return Decision{Events: []Event{{Kind: KindPaused, Type: c.Type, At: d.now, Body: &Paused{Reason: c.Reason, By: c.By, Until: until}}}}, nil
}

// resumeType ends a pause, if there is one.
func (d *decider) resumeType(c ResumeType) (Decision, error) {
	t, err := d.knownType(c.Type)
	if err != nil {
		return Decision{}, err
	}
	if _, err := name("by", c.By, MaxNameLen); err != nil {
		return Decision{}, err
	}
	if t.Paused == nil {
		return Decision{Repeat: true}, nil
	}
	return Decision{Events: []Event{{Kind: KindResumed, Type: c.Type, At: d.now, Body: &Resumed{By: c.By}}}}, nil
}

// info is what is known of an item's type, not to be written.
func (d *decider) info(t Type) *TypeInfo {
	if e := d.s.types[t]; e != nil {
		return &e.info
	}
	return &TypeInfo{Type: t, Settings: d.s.defaults}
}

func (d *decider) knownType(t Type) (TypeInfo, error) {
	if _, err := ParseType(string(t)); err != nil {
		return TypeInfo{}, Refuse(CodeBadType, "%v", err)
	}
	info, known := d.s.Type(t)
	if !known {
		return TypeInfo{}, Refuse(CodeNotFound, "there is no type %s: `engine types` lists them", t)
	}
	return info, nil
}

// circuit returns the circuit of a ref, and its settings.
func (d *decider) circuit(ref CircuitRef) (Circuit, CircuitSettings, error) {
	switch {
	case (ref.Type == "") == (ref.Worker == ""):
		return Circuit{}, CircuitSettings{}, Refuse(CodeBadRequest, "a circuit is that of a type or that of a worker: give one of them")
	case ref.Worker == "":
		t, err := d.knownType(ref.Type)
		return t.Circuit, t.Settings.Circuit, err
	}
	if _, err := ParseWorkerID(string(ref.Worker)); err != nil {
		return Circuit{}, CircuitSettings{}, Refuse(CodeBadRequest, "%v", err)
	}
	return d.s.WorkerCircuit(ref.Worker), d.s.limits.WorkerCircuit, nil
}

// dueCircuit half opens a circuit whose time has come. It closes one that has
// been switched off meanwhile.
func (d *decider) dueCircuit(c DueCircuit) (Decision, error) {
	ref := CircuitRef(c)
	circuit, set, err := d.circuit(ref)
	if err != nil {
		return Decision{}, err
	}
	if circuit.State != CircuitOpen || circuit.Until.After(d.now) {
		return Decision{Repeat: true}, nil
	}
	if !set.On() {
		return Decision{Events: []Event{d.circuitEvent(ref, &CircuitClosed{Reason: ReasonConfigured})}}, nil
	}
	return Decision{Events: []Event{d.circuitEvent(ref, &CircuitHalfOpened{Probes: set.WithDefaults().Probes})}}, nil
}

// resetCircuit closes a circuit, whatever it has seen.
func (d *decider) resetCircuit(c ResetCircuit) (Decision, error) {
	ref := CircuitRef(c)
	circuit, _, err := d.circuit(ref)
	if err != nil {
		return Decision{}, err
	}
	if circuit.State == CircuitShut {
		return Decision{Repeat: true}, nil
	}
	return Decision{Events: []Event{d.circuitEvent(ref, &CircuitClosed{Reason: ReasonReset})}}, nil
}

// switchedOff closes the circuit of a type whose new settings have none.
func (d *decider) switchedOff(t TypeInfo, set TypeSettings) []Event {
	if t.Circuit.State == CircuitShut || set.Circuit.On() {
		return nil
	}
	return []Event{d.circuitEvent(CircuitRef{Type: t.Type}, &CircuitClosed{Reason: ReasonConfigured})}
}

func (d *decider) circuitEvent(ref CircuitRef, b Body) Event {
	return Event{Kind: b.kind(), Type: ref.Type, Worker: ref.Worker, At: d.now, Body: b}
}

// lets refuses a claim that a pause or a circuit holds back, and says which
// half-open circuits the run tries.
func (d *decider) lets(it *Item, w WorkerID) (probe, workerProbe bool, err error) {
	t := d.info(it.Type)
	switch c := &t.Circuit; {
	case t.Paused != nil:
		return false, false, Refuse(CodePaused, "type %s is paused: don't run item %s, it will be dispatched again when the type is resumed", it.Type, it.ID)
	case c.State == CircuitOpen:
		return false, false, Refuse(CodeCircuitOpen, "the circuit of type %s is open until %s: don't run item %s, it will be dispatched again", it.Type, c.Until.Format(time.RFC3339), it.ID)
	case c.State == CircuitHalfOpen:
		if n := t.Settings.Circuit.WithDefaults().Probes; c.Probing >= n {
			return false, false, Refuse(CodeCircuitOpen, "the circuit of type %s is half open, with %s under way: don't run item %s, it will be dispatched again", it.Type, Count(c.Probing, "probe"), it.ID)
		}
		probe = true
	}
	workerProbe, err = d.letsWorker(it, w)
	return probe, workerProbe, err
}

// letsWorker is the worker's part of lets. Its refusals say when it may be worth
// to pull again: the items are dispatched to others meanwhile.
func (d *decider) letsWorker(it *Item, w WorkerID) (probe bool, err error) {
	set := d.s.limits.WorkerCircuit
	c := d.s.workers.get(string(w))
	if c == nil || c.State == CircuitShut || !set.On() {
		return false, nil
	}
	refuse := func(wait time.Duration, why string) error {
		e := Refuse(CodeCircuitOpen, "the circuit of worker %s is %s, since it has failed one item after another which others complete: don't run item %s, and pull no more for now", w, why, it.ID)
		e.RetryAfter = max(wait, time.Second)
		return e
	}
	if c.State == CircuitOpen {
		return false, refuse(c.Until.Sub(d.now), "open until "+c.Until.Format(time.RFC3339))
	}
	if c.Probing >= set.WithDefaults().Probes {
		return false, refuse(0, "half open, and tried already")
	}
	return true, nil
}

// succeeded is the end of a run that has succeeded, and what it does to the
// circuits.
func (d *decider) succeeded(it *Item, ev Event) []Event {
	evs := []Event{ev}
	t := d.info(it.Type)
	if set := t.Settings.Circuit; it.Probe && t.Circuit.State == CircuitHalfOpen && t.Circuit.ended(set, d.now, false, true).Succeeded >= set.WithDefaults().Probes {
		evs = append(evs, d.circuitEvent(CircuitRef{Type: it.Type}, &CircuitClosed{Reason: ReasonProbes}))
	}
	c := d.s.workers.get(string(it.Worker))
	if c.triedBy(it) && c.ended(CircuitSettings{}, d.now, false, true).Succeeded >= d.s.limits.WorkerCircuit.WithDefaults().Probes {
		evs = append(evs, d.circuitEvent(CircuitRef{Worker: it.Worker}, &CircuitClosed{Reason: ReasonProbes}))
	}
	return evs
}

// circuitsAfter is what a failed run does to the circuits of its type and of its
// worker.
func (d *decider) circuitsAfter(it *Item, f *Failed) (evs []Event) {
	t := d.info(it.Type)
	if set := t.Settings.Circuit; set.On() && set.counts(f) {
		c := t.Circuit.ended(set, d.now, true, it.Probe)
		reason, failed, of := "", 1, 1
		switch {
		case c.State == CircuitShut:
			reason, failed, of = c.trips(set)
		case c.State == CircuitHalfOpen && it.Probe:
			reason, of = ReasonProbe, c.Succeeded+1
		}
		if reason != "" {
			evs = append(evs, d.opens(CircuitRef{Type: it.Type}, c, set, reason, failed, of))
		}
	}
	return append(evs, d.workerAfter(it, t, f)...)
}

// workerAfter opens the circuit of a worker that has failed so many items in a
// row, of which others complete some meanwhile: an item of the type that has
// failed now has completed since its first failure in the row, and not by it,
// or the row would have ended. So where a type fails everywhere, no worker is
// blamed for it.
func (d *decider) workerAfter(it *Item, t *TypeInfo, f *Failed) []Event {
	set := d.s.limits.WorkerCircuit
	if !set.On() || it.Worker == "" || it.Worker.Native() {
		return nil
	}
	ref := CircuitRef{Worker: it.Worker}
	c := d.s.WorkerCircuit(it.Worker)
	switch {
	case c.triedBy(it):
		return []Event{d.opens(ref, c, set, ReasonProbe, 1, c.Succeeded+1)}
	case c.State == CircuitShut && f.Code != FailLeaseExpired:
		c = c.workerFailed(it.ID, d.s.meta.Applied+1, d.now)
		if c.Consecutive >= set.Consecutive && t.Circuit.LastOK > c.Since {
			return []Event{d.opens(ref, c, set, ReasonConsecutive, c.Consecutive, c.Consecutive)}
		}
	}
	return nil
}

// opens opens a circuit, for longer each time in a row.
func (d *decider) opens(ref CircuitRef, c Circuit, set CircuitSettings, reason string, failed, of int) Event {
	opens := c.Opens + 1
	return d.circuitEvent(ref, &CircuitOpened{Reason: reason, Until: d.now.Add(set.cooldown(opens)), Opens: opens, Failed: failed, Of: of})
}
