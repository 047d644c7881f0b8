package core

import (
	"cmp"
	"time"

	"github.com/streamwright/streamwright/events"
)

// PauseType holds the items of a type back until ResumeType, or until a time. Of
// a type that is paused it changes that time.
type PauseType struct {
	Type   events.Type
	Reason string
	By     string
	Until  time.Time     // when it ends by itself; at most one of Until and For
	For    time.Duration // from the time of the decision
}

// ResumeType ends a pause.
type ResumeType struct {
	Type events.Type
	By   string
}

// DuePause says that the time at which a type's pause ends may have come.
type DuePause struct{ Type events.Type }

// decide pauses a type, which becomes known by it. Another pause of a paused type can
// only move its end, and keeps the reason and author that it does not replace.
func (c PauseType) decide(d *decider) (Decision, error) {
	if c.Type == events.BatchType {
		return Decision{}, events.Refuse(events.CodeBadType, "type %s can't be paused: batches run nothing; pause the types of their items", c.Type)
	}
	known, err := Define{Type: c.Type}.decide(d)
	if err != nil {
		return Decision{}, err
	}
	t, _ := d.state.Type(c.Type)
	if err := checkNote(c.Reason, c.By); err != nil {
		return Decision{}, err
	}
	until, err := d.availableAt(c.Until, c.For)
	if err != nil {
		return Decision{}, err
	}
	if until.IsZero() && !c.Until.IsZero() {
		return Decision{}, events.Refuse(events.CodeBadTime, "the pause would end at %s, which has passed: give a later time, or none", c.Until.UTC().Format(time.RFC3339))
	}
	b := &events.Paused{Reason: c.Reason, By: c.By, Until: until}
	if p := t.Paused; p != nil {
		if until.Equal(p.Until) {
			return Decision{Repeat: true}, nil
		}
		b.Reason, b.By = cmp.Or(b.Reason, p.Reason), cmp.Or(b.By, p.By)
	}
	return Decision{Events: append(known.Events, d.typeEvent(c.Type, b))}, nil
}

func (c ResumeType) decide(d *decider) (Decision, error) {
	t, err := d.knownType(c.Type)
	if err != nil {
		return Decision{}, err
	}
	if err := checkNote("", c.By); err != nil {
		return Decision{}, err
	}
	if t.Paused == nil {
		return Decision{Repeat: true}, nil
	}
	return Decision{Events: []events.Event{d.typeEvent(c.Type, &events.Resumed{By: c.By})}}, nil
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
	return Decision{Events: []events.Event{d.typeEvent(c.Type, &events.Resumed{Reason: events.ReasonUntil})}}, nil
}

// applyPaused folds in a pause, or the new end of one.
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
	a.notePause(a.ev.Type, p)
	return nil
}

func applyResumed(a *applier, _ *events.Resumed) error {
	t := a.types[a.ev.Type]
	if t == nil || t.info.Paused == nil {
		return a.corrupt("type %s is not paused", a.ev.Type)
	}
	a.typeOf(a.ev.Type).info.Paused = nil
	a.notePause(a.ev.Type, nil)
	return nil
}

// notePause keeps pauseEnds.
func (s *State) notePause(t events.Type, p *events.Pause) {
	if p == nil || p.Until.IsZero() {
		delete(s.pauseEnds, t)
		return
	}
	s.pauseEnds[t] = p.Until
}

// NextPauseEnd returns the type whose pause ends first by itself, and when; the
// zero time for none.
func (s *State) NextPauseEnd() (events.Type, time.Time) {
	return earliest(s.pauseEnds, cmp.Compare[events.Type])
}

// earliest returns the key with the earliest time, and of several the least one.
// Zero times don't count.
func earliest[K comparable](times map[K]time.Time, compare func(a, b K) int) (first K, at time.Time) {
	for k, t := range times {
		if !t.IsZero() && (at.IsZero() || t.Before(at) || t.Equal(at) && compare(k, first) < 0) {
			first, at = k, t
		}
	}
	return first, at
}

// loadPauses fills pauseEnds from the types.
func (s *State) loadPauses() {
	s.pauseEnds = map[events.Type]time.Time{}
	for t, e := range s.types {
		s.notePause(t, e.info.Paused)
	}
}
