package core

import (
	"github.com/streamwright/streamwright/events"
)

// RaiseFormat raises the log's format level, which nothing lowers again: a program that
// does not read the level refuses the log from then on.
type RaiseFormat struct {
	Level   int
	Version string // of the program that asks
	By      string // who, if it is a person
}

// decide raises the level. A log that is there already keeps it.
func (c RaiseFormat) decide(d *decider) (Decision, error) {
	if c.Level < 1 || c.Level > d.state.reads {
		return Decision{}, events.Refuse(events.CodeBadRequest, "the log can't be raised to format level %d: this program reads 1 to %d", c.Level, d.state.reads)
	}
	if err := checkNote("", c.By); err != nil {
		return Decision{}, err
	}
	if d.state.meta.Epoch == 0 { // a log begins with an ownership
		return Decision{}, events.Refuse(events.CodeWrongState, "nobody owns the partition yet")
	}
	if c.Level <= d.state.Level() {
		return Decision{Repeat: true}, nil
	}
	raised := &events.FormatRaised{Level: c.Level, Version: events.Shorten(c.Version, events.MaxNameLen), By: c.By}
	return Decision{Events: []events.Event{d.typeEvent("", raised)}}, nil
}

// Level returns the log's format level. What a level brings is decided only if it is
// at least that.
func (s *State) Level() int { return max(1, s.meta.Level) }

// SetFormatLevel sets the highest format level that the state reads, and writes once
// the log is raised to it; [events.FormatLevel] without it. A log above it is refused
// with an [*events.NewerError].
func (s *State) SetFormatLevel(level int) error {
	s.reads = level
	return s.mayRead()
}

// mayRead refuses a log above what the state reads.
func (s *State) mayRead() error {
	level, by := s.meta.Level, s.meta.LevelBy
	if level <= s.reads {
		return nil
	}
	return &events.NewerError{Level: level, Reads: s.reads, Version: by}
}

func applyFormatRaised(a *applier, b *events.FormatRaised) error {
	if b.Level <= a.Level() {
		return a.corrupt("it raises the log to format level %d, which it has passed", b.Level)
	}
	a.meta.Level, a.meta.LevelBy = b.Level, b.Version
	return a.mayRead()
}
