package events

import (
	"encoding/json"
	"fmt"
)

// FormatLevel is the highest format level that this program reads and writes. A
// log is at level 1 until format_raised says otherwise.
//
// What an older program would misread needs a new level: a kind, a field, or a
// meaning that the state follows from. To add one: raise FormatLevel, decide what is
// new only where [core.State.Level] allows it, keep what earlier levels mean, and
// commit a golden log of it (see TestEachLevelHasAGoldenLog in core).
const FormatLevel = 1

// FormatRaised is the payload of format_raised: from here on the log may hold what
// only programs of this level read.
type FormatRaised struct {
	Level   int    `json:"level"`
	Version string `json:"version,omitempty"` // of the program that raised it
	By      string `json:"by,omitempty"`
}

// Kind returns KindFormatRaised.
func (*FormatRaised) Kind() Kind { return KindFormatRaised }

func (b *FormatRaised) check(*Event) error {
	if b.Level < 2 {
		return fmt.Errorf("level %d: a log begins at level 1", b.Level)
	}
	return nil
}

// NewerError says that a log, or something in it, is of a format level above what the
// program reads. It wraps [ErrNewer].
type NewerError struct {
	Level   int    // of the log
	Reads   int    // the highest that this program reads
	Version string // of the program that raised the log; empty: not known
}

func (e *NewerError) Error() string {
	use := "use a newer program"
	if e.Version != "" {
		use = fmt.Sprintf("use version %s or newer", e.Version)
	}
	return fmt.Sprintf("the log has format level %d, this program reads up to level %d: %s", e.Level, e.Reads, use)
}

// Unwrap makes errors.Is(err, ErrNewer) true.
func (e *NewerError) Unwrap() error { return ErrNewer }

// envelopeVersion returns the v of an event: the level of the events that say which
// level the log has, so that a program which does not know the level stops there even
// if it does not know the kind; else 1.
func (e *Event) envelopeVersion() int64 {
	switch b := e.Body.(type) {
	case *FormatRaised:
		return int64(b.Level)
	case *Snapshot:
		return int64(max(Version, b.Level))
	}
	return Version
}

// newer returns the event of an envelope whose version lies above FormatLevel, if it
// is one that says which level the log has: State.Apply refuses it.
func (env *envelope) newer() (Event, error) {
	var said FormatRaised
	_ = json.Unmarshal(env.Data, &said) // what can't be read is left out of the text
	e := Event{ID: env.ID, Type: env.Type, At: env.At}
	switch env.Kind {
	case KindFormatRaised.String():
		e.Body = &FormatRaised{}
	case KindSnapshot.String():
		e.Body = &Snapshot{}
	default:
		return Event{}, fmt.Errorf("decode event: %w", &NewerError{Level: env.V, Reads: FormatLevel, Version: said.Version})
	}
	e.Kind = e.Body.Kind()
	if err := json.Unmarshal(env.Data, e.Body); err != nil || e.envelopeVersion() != int64(env.V) || e.Check() != nil {
		return Event{}, fmt.Errorf("decode event: %w", &NewerError{Level: env.V, Reads: FormatLevel, Version: said.Version})
	}
	return e, nil
}
