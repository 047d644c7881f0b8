package core

import (
	"fmt"
	"slices"
	"strings"

	"github.com/streamwright/streamwright/events"
)

// ForgetType forgets a type that has no items and no settings of its own.
type ForgetType struct{ Type events.Type }

// RemoveType forgets a type that nothing uses, with its settings, its pause and
// its circuit.
type RemoveType struct{ Type events.Type }

func (c RemoveType) decide(d *decider) (Decision, error) {
	t, err := d.knownType(c.Type)
	if err != nil {
		return Decision{}, err
	}
	if used := d.state.usedBy(&t); used != "" {
		return Decision{}, events.Refuse(events.CodeWrongState, "type %s is in use: %s", c.Type, used)
	}
	return Decision{Events: []events.Event{{Kind: events.KindTypeForgotten, Type: c.Type, At: d.now, Body: &events.TypeForgotten{Reason: events.ReasonRemoved}}}}, nil
}

// usedBy says what the log knows to use a type, and what to do about it; empty:
// nothing.
func (s *State) usedBy(t *events.TypeInfo) string {
	var items int64
	var states []string
	for state, n := range t.Counts {
		if items += n; n > 0 {
			states = append(states, fmt.Sprintf("%d %s", n, events.ItemState(state)))
		}
	}
	switch {
	case items > 0:
		return fmt.Sprintf("it has items (%s); cancel those that are to run no more, and purge those that have ended, or wait until they are forgotten", strings.Join(states, ", "))
	case t.Settings.Native():
		return "its protocol is ack, and who takes its items is not known; set the protocol to claim first"
	}
	names := make([]string, 0, len(s.schedules.m))
	for _, sch := range s.schedules.m {
		if sch.Type == t.Type {
			names = append(names, sch.Name)
		}
	}
	if slices.Sort(names); len(names) > 0 {
		return "items of it are made by schedule " + strings.Join(names, ", ") + "; remove that first"
	}
	return ""
}

// Kept reports why a type can't be forgotten, empty if it can: it has items, or
// somebody has set something for it.
func (s *State) Kept(t events.Type) (why string) {
	e := s.types[t]
	if e == nil {
		return "there is no such type"
	}
	switch {
	case e.info.Source != events.SourceDefault:
		return "it has settings of its own"
	case e.info.Counts != [events.NumStates]int64{}:
		return "it has items"
	case e.info.Paused != nil || e.info.Circuit.State != events.CircuitShut:
		return "it is paused, or its circuit is not closed"
	case e.info.Settings.Native():
		return "its items go to workers that do not register"
	}
	for _, sch := range s.schedules.m {
		if sch.Type == t {
			return "schedule " + sch.Name + " makes items of it"
		}
	}
	return ""
}

func (c ForgetType) decide(d *decider) (Decision, error) {
	if why := d.state.Kept(c.Type); why != "" {
		return Decision{}, events.Refuse(events.CodeWrongState, "type %s can't be forgotten: %s", events.Clip(string(c.Type), events.MaxTypeLen), why)
	}
	return Decision{Events: []events.Event{{Kind: events.KindTypeForgotten, Type: c.Type, At: d.now, Body: &events.TypeForgotten{Reason: events.ReasonIdle}}}}, nil
}

// applyTypeForgotten forgets a type. In the round at the head of a log that has been
// cut it may not be known yet.
func applyTypeForgotten(a *applier, _ *events.TypeForgotten) error {
	e := a.types[a.ev.Type]
	if e == nil && a.meta.Partial {
		return nil
	}
	if e == nil || e.info.Counts != [events.NumStates]int64{} {
		return a.corrupt("there is no such type, or it has items")
	}
	for i, dirty := range a.dirtyTypes {
		if dirty == e {
			a.dirtyTypes = append(a.dirtyTypes[:i], a.dirtyTypes[i+1:]...)
			break
		}
	}
	a.pauses.note(a.ev.Type, nil)
	a.circuits.note(CircuitRef{Type: a.ev.Type}, nil)
	delete(a.types, a.ev.Type)
	a.forgotten = append(a.forgotten, a.ev.Type)
	return nil
}

// allowed reports whether items of a type may be submitted.
func typeAllowed(l *events.Limits, t events.Type) bool { return l.Types == nil || l.Types[t] }

// checkAllowed refuses a type that the configuration does not list.
func (d *decider) checkAllowed(t events.Type) error {
	if typeAllowed(&d.state.limits, t) {
		return nil
	}
	return events.Refuse(events.CodeTypeNotAllowed, "type %s is not one of those that this engine serves: check its spelling, or add it to types under [limits] in engine.toml", t)
}
