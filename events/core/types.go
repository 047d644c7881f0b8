package core

import (
	"bytes"
	"encoding/json"
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
	return Decision{Events: []events.Event{d.typeEvent(c.Type, &events.TypeForgotten{Reason: events.ReasonRemoved})}}, nil
}

// usedBy returns what the log knows to use a type and what to do about it, empty
// for nothing.
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
	case t.Settings.Ack():
		return "its protocol is ack, and who takes its items is not known; set the protocol to offer first"
	}
	var names []string
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

// TypeInUse reports why a type can't be forgotten, empty if it can: something
// uses it, or somebody has set something for it.
func (s *State) TypeInUse(t events.Type) (why string) {
	e := s.types[t]
	switch {
	case e == nil:
		return "there is no such type"
	case e.info.Source != events.SourceDefault:
		return "it has settings of its own"
	case e.info.Paused != nil || e.info.Circuit.State != events.CircuitShut:
		return "it is paused, or its circuit is not closed"
	}
	return s.usedBy(&e.info)
}

func (c ForgetType) decide(d *decider) (Decision, error) {
	if why := d.state.TypeInUse(c.Type); why != "" {
		return Decision{}, events.Refuse(events.CodeWrongState, "type %s can't be forgotten: %s", events.Clip(string(c.Type), events.MaxTypeLen), why)
	}
	return Decision{Events: []events.Event{d.typeEvent(c.Type, &events.TypeForgotten{Reason: events.ReasonIdle})}}, nil
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
	a.notePause(a.ev.Type, nil)
	a.circuits.note(CircuitRef{Type: a.ev.Type}, nil)
	delete(a.types, a.ev.Type)
	a.forgotten = append(a.forgotten, a.ev.Type)
	return nil
}

// Configure sets a type's settings. Changes only what differs.
type Configure struct {
	Type     events.Type
	Source   string // file, api
	Settings events.TypeSettings
}

func (c Configure) decide(d *decider) (Decision, error) {
	if _, err := events.ParseType(string(c.Type)); err != nil {
		return Decision{}, events.Refuse(events.CodeBadType, "%v", err)
	}
	if c.Source != events.SourceDefault && c.Source != events.SourceFile && c.Source != events.SourceAPI {
		return Decision{}, events.Refuse(events.CodeBadRequest, "%q is no source of settings: use %s or %s", events.Clip(c.Source, 64), events.SourceFile, events.SourceAPI)
	}
	c.Settings.Protocol = c.Settings.Protocol.Canonical()
	if err := c.Settings.Validate(); err != nil {
		return Decision{}, events.Refuse(events.CodeBadRequest, "settings of type %s: %s", c.Type, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if err := d.checkPool(c.Type, c.Settings); err != nil {
		return Decision{}, err
	}
	t, known := d.state.Type(c.Type)
	if !known && c.Source != events.SourceFile {
		if err := d.checkAllowed(c.Type); err != nil {
			return Decision{}, err
		}
	}
	if !known && len(d.state.types) >= events.MaxTypes {
		return Decision{}, tooManyTypes(c.Type)
	}
	if known && sameJSON(t.Settings, c.Settings) {
		return Decision{Repeat: true}, nil
	}
	return Decision{Events: append([]events.Event{d.configured(c.Type, c.Source, c.Settings)}, d.switchedOff(t, c.Settings)...)}, nil
}

// Define makes a type known, with the default settings, if it is not.
type Define struct{ Type events.Type }

func (c Define) decide(d *decider) (Decision, error) {
	if _, known := d.state.Type(c.Type); known {
		return Decision{Repeat: true}, nil
	}
	if err := d.checkAllowed(c.Type); err != nil {
		return Decision{}, err
	}
	return Configure{Type: c.Type, Source: events.SourceDefault, Settings: d.state.defaults}.decide(d)
}

func (d *decider) configured(t events.Type, source string, set events.TypeSettings) events.Event {
	if len(set.PerPriority) == 0 {
		set.PerPriority = nil // not an empty map, which the log doesn't tell from none
	}
	if len(set.Codes) == 0 {
		set.Codes = nil
	}
	plainLimits(&set)
	return d.typeEvent(t, &events.TypeConfigured{Source: source, Settings: set})
}

// checkPool refuses settings that name a pool which the engine has not.
func (d *decider) checkPool(t events.Type, set events.TypeSettings) error {
	if _, ok := d.state.limits.Pools[set.Pool]; set.Pool != "" && !ok {
		return events.Refuse(events.CodeBadRequest, "settings of type %s: there is no pool %q: make it in engine.toml, as [pools.%s] with slots", t, set.Pool, set.Pool)
	}
	return nil
}

// sameJSON compares two values, in their canonical form, by content.
func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// plainLimits makes empty lists none, which the log doesn't tell from them.
func plainLimits(s *events.TypeSettings) {
	if len(s.Rates) == 0 {
		s.Rates = nil
	}
	s.QueueSteps = slices.Clone(s.QueueSteps)
	for i := range s.QueueSteps {
		if len(s.QueueSteps[i].Sources) == 0 {
			s.QueueSteps[i].Sources = nil
		}
	}
	if len(s.QueueSteps) == 0 {
		s.QueueSteps = nil
	}
}
