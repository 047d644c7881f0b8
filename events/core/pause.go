package core

import (
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

// decide holds a type back. One that is paused gets another end at most.
func (c PauseType) decide(d *decider) (Decision, error) {
	t, err := d.knownType(c.Type)
	if err != nil {
		return Decision{}, err
	}
	if err := checkNote(c.Reason, c.By); err != nil {
		return Decision{}, err
	}
	until, err := c.until(d)
	if err != nil {
		return Decision{}, err
	}
	if t.Paused != nil {
		return c.again(d, t.Paused, until)
	}
	return Decision{Events: []events.Event{d.typeEvent(c.Type, &events.Paused{Reason: c.Reason, By: c.By, Until: until})}}, nil
}

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
	return Decision{Events: []events.Event{d.typeEvent(c.Type, &b)}}, nil
}

// decide ends a pause, if there is one.
func (c ResumeType) decide(d *decider) (Decision, error) {
	t, err := d.knownType(c.Type)
	if err != nil {
		return Decision{}, err
	}
	if _, err := events.CheckText("by", c.By, events.MaxNameLen); err != nil {
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
