package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
)

// DuePause says that the time at which a type's pause ends may have come.
type DuePause struct{ Type events.Type }

// until resolves when a pause is to end by itself: the zero time for never.
func (c PauseType) until(d *decider) (time.Time, error) {
	at, err := d.availableAt(c.Until, c.For)
	if err == nil && at.IsZero() && !c.Until.IsZero() {
		err = events.Refuse(events.CodeBadTime, "the pause would end at %s, which has passed: give a later time, or none", c.Until.UTC().Format(time.RFC3339))
	}
	return at, err
}

// again gives a pause another end. It keeps what is not said anew.
func (c PauseType) again(d *decider, p *events.Pause, until time.Time) (Decision, error) {
	if until.Equal(p.Until) {
		return Decision{Repeat: true}, nil
	}
	b := events.Paused{Reason: c.Reason, By: c.By, Until: until}
	if b.Reason == "" {
		b.Reason = p.Reason
	}
	if b.By == "" {
		b.By = p.By
	}
	return Decision{Events: []events.Event{{Kind: events.KindPaused, Type: c.Type, At: d.now, Body: &b}}}, nil
}

// decide ends a pause whose time has come.
func (c DuePause) decide(d *decider) (Decision, error) {
	t, err := d.knownType(c.Type)
	if err != nil {
		return Decision{}, err
	}
	if t.Paused == nil || t.Paused.Until.IsZero() || t.Paused.Until.After(d.now) {
		return Decision{Repeat: true}, nil
	}
	return Decision{Events: []events.Event{{Kind: events.KindResumed, Type: c.Type, At: d.now, Body: &events.Resumed{Reason: events.ReasonUntil}}}}, nil
}

// applyPaused folds in a pause, or a new end of one that there is.
func applyPaused(a *applier, b *events.Paused) error {
	if a.types[a.ev.Type] == nil {
		return a.corrupt("there is no type %q", a.ev.Type)
	}
	info := &a.typeOf(a.ev.Type).info
	p := &events.Pause{At: a.ev.At, Reason: b.Reason, By: b.By, Until: b.Until}
	if had := info.Paused; had != nil {
		p.At, p.UntilSet = had.At, a.ev.At
	}
	info.Paused = p
	a.pauses.note(a.ev.Type, p)
	return nil
}

func applyResumed(a *applier, _ *events.Resumed) error {
	t := a.types[a.ev.Type]
	if t == nil || t.info.Paused == nil {
		return a.corrupt("type %s is not paused", a.ev.Type)
	}
	a.typeOf(a.ev.Type).info.Paused = nil
	a.pauses.note(a.ev.Type, nil)
	return nil
}

// pauseEnds is when the types' pauses end by themselves. It follows from what is
// kept of the types.
type pauseEnds struct {
	at     map[events.Type]time.Time
	next   events.Type // the first to end
	nextAt time.Time   // when; zero: none does
}

// note notes what has become of a type's pause.
func (p *pauseEnds) note(t events.Type, pause *events.Pause) {
	delete(p.at, t)
	if pause != nil && !pause.Until.IsZero() {
		p.at[t] = pause.Until
	}
	p.next, p.nextAt = "", time.Time{}
	for t, at := range p.at {
		if p.nextAt.IsZero() || at.Before(p.nextAt) || at.Equal(p.nextAt) && t < p.next {
			p.next, p.nextAt = t, at
		}
	}
}

// NextPauseEnd returns the type whose pause ends first by itself, and when; the
// zero time for none.
func (s *State) NextPauseEnd() (events.Type, time.Time) { return s.pauses.next, s.pauses.nextAt }

// loadPauses notes when the pauses end that the types have.
func (s *State) loadPauses() {
	s.pauses = pauseEnds{at: map[events.Type]time.Time{}}
	for t, e := range s.types {
		if e.info.Paused != nil {
			s.pauses.note(t, e.info.Paused)
		}
	}
}

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

// TypeInUse reports why a type can't be forgotten, empty if it can: it has items, or
// somebody has set something for it.
func (s *State) TypeInUse(t events.Type) (why string) {
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
	if why := d.state.TypeInUse(c.Type); why != "" {
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

// typeAllowed reports whether items of a type may be submitted.
func typeAllowed(l *events.Limits, t events.Type) bool { return l.Types == nil || l.Types[t] }

// checkAllowed refuses a type that the configuration does not list.
func (d *decider) checkAllowed(t events.Type) error {
	if typeAllowed(&d.state.limits, t) {
		return nil
	}
	return events.Refuse(events.CodeTypeNotAllowed, "type %s is not one of those that this engine serves: check its spelling, or add it to types under [limits] in engine.toml", t)
}

// DrainWorker marks a worker, whichever program has its id, until EndDrain.
type DrainWorker struct {
	Worker events.WorkerID
	Reason string
	By     string
}

// EndDrain takes the mark away, for one of the reasons of drain_ended.
type EndDrain struct {
	Worker events.WorkerID
	Reason string // empty: ReasonUndrained
	By     string
}

// decide marks a worker. One that is marked keeps its mark.
func (c DrainWorker) decide(d *decider) (Decision, error) {
	if _, err := events.ParseWorkerID(string(c.Worker)); err != nil {
		return Decision{}, events.Refuse(events.CodeBadRequest, "%v", err)
	}
	if err := checkNote(c.Reason, c.By); err != nil {
		return Decision{}, err
	}
	if d.state.drains.get(string(c.Worker)) != nil {
		return Decision{Repeat: true}, nil
	}
	if d.state.drains.len() >= d.state.maxDrains {
		return Decision{}, events.Refuse(events.CodeUnavailable, "%d workers are marked to drain, which is the most: end the drain of those that are gone (`engine workers` lists them)", d.state.maxDrains)
	}
	return Decision{Events: []events.Event{{Kind: events.KindDrainSet, Worker: c.Worker, At: d.now, Body: &events.DrainSet{Reason: c.Reason, By: c.By}}}}, nil
}

// decide takes a worker's mark away, if there is one.
func (c EndDrain) decide(d *decider) (Decision, error) {
	if _, err := events.ParseWorkerID(string(c.Worker)); err != nil {
		return Decision{}, events.Refuse(events.CodeBadRequest, "%v", err)
	}
	if _, err := events.CheckText("by", c.By, events.MaxNameLen); err != nil {
		return Decision{}, err
	}
	switch c.Reason {
	case "":
		c.Reason = events.ReasonUndrained
	case events.ReasonUndrained, events.ReasonLeft, events.ReasonUnseen:
	default:
		return Decision{}, events.Refuse(events.CodeBadRequest, "%q is no reason for a drain to end", events.Clip(c.Reason, 64))
	}
	if d.state.drains.get(string(c.Worker)) == nil {
		return Decision{Repeat: true}, nil
	}
	return Decision{Events: []events.Event{{Kind: events.KindDrainEnded, Worker: c.Worker, At: d.now, Body: &events.DrainEnded{Reason: c.Reason, By: c.By}}}}, nil
}

func applyDrainSet(a *applier, b *events.DrainSet) error {
	w := string(a.ev.Worker)
	if a.drains.get(w) != nil {
		return a.corrupt("worker %s is marked to drain", w)
	}
	a.drains.set(w, events.Drain{At: a.ev.At, Reason: b.Reason, By: b.By})
	a.drainVersion++
	return nil
}

func applyDrainEnded(a *applier, _ *events.DrainEnded) error {
	w := string(a.ev.Worker)
	if a.drains.get(w) == nil {
		return a.corrupt("worker %s is not marked to drain", w)
	}
	a.drains.remove(w)
	a.drainVersion++
	return nil
}

// Drains are the workers that are marked to drain. The caller may keep it.
func (s *State) Drains() map[events.WorkerID]events.Drain {
	out := make(map[events.WorkerID]events.Drain, s.drains.len())
	for w, d := range s.drains.m {
		out[events.WorkerID(w)] = *d
	}
	return out
}

// DrainVersion changes whenever a worker is marked to drain, or no longer.
func (s *State) DrainVersion() uint64 { return s.drainVersion }
