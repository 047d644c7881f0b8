package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrReadOnly: the log is read from a mirror of its stream. Nothing can be appended to it,
// and nothing was sent.
var ErrReadOnly = errors.New("the event log is a mirror: its origin alone is written to")

// Origin says where the stream is that a mirror follows.
type Origin struct {
	// API begins the subjects of requests to the origin's JetStream, such as
	// "$JS.hub.API", and Deliver those on which it sends the mirror what it has. With both
	// empty the origin is in the mirror's own account, under another name.
	API, Deliver string
	Stream       string // its name; empty: as the mirror's
}

func (o Origin) source(mirror string) *jetstream.StreamSource {
	s := &jetstream.StreamSource{Name: o.Stream}
	if s.Name == "" {
		s.Name = mirror
	}
	if o.API != "" {
		s.External = &jetstream.ExternalStream{APIPrefix: o.API, DeliverPrefix: o.Deliver}
	}
	return s
}

// OpenMirror opens the log on a mirror of the origin's stream, and makes the mirror if there
// is none. The log can be read like any other, up to where the mirror has come; Append and
// Purge fail with ErrReadOnly. Its identity is the mirror's own. The server makes the mirror
// whether or not it can reach the origin, and goes on when it can.
//
// A mirror that was cut off while the origin was cut behind its end has a hole, which reads
// as ErrCorrupt: Trim it to where the origin begins.
func OpenMirror(ctx context.Context, cfg Config, of Origin) (*JetStream, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open the mirror of an event log: %w", err)
	}
	l := newJetStream(cfg.WithDefaults())
	l.readOnly = true
	js, err := l.js()
	if err == nil {
		err = ensureMirror(ctx, js, l.cfg, of.source(l.stream))
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// Trim drops the frames below a sequence from a mirror, as its origin has dropped them. A
// sequence beyond the mirror's end has it go on there.
func (l *JetStream) Trim(ctx context.Context, below uint64) error {
	if !l.readOnly {
		return errors.New("trim a mirror: the log is none")
	}
	if err := l.purge(ctx, fmt.Appendf(nil, `{"seq":%d}`, below)); err != nil {
		return fmt.Errorf("trim the mirror below frame %d: %w", below, err)
	}
	return nil
}

func ensureMirror(ctx context.Context, js jetstream.JetStream, c Config, of *jetstream.StreamSource) error {
	want := c.stream()
	want.Description = "A mirror of the event log " + of.Name + "."
	want.Subjects, want.Mirror, want.Duplicates = nil, of, 0
	s, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if c.Existing {
			return fmt.Errorf("open the mirror %s: %w", want.Name, ErrNoLog)
		}
		s, err = js.CreateStream(ctx, want)
	}
	if err != nil {
		return fmt.Errorf("open the mirror %s: %w", want.Name, err)
	}
	switch have := s.CachedInfo().Config.Mirror; {
	case have == nil:
		return fmt.Errorf("open the mirror %s: there is an event log of that name: use another data folder", want.Name)
	case have.Name != of.Name || (have.External == nil) != (of.External == nil) || of.External != nil && *have.External != *of.External:
		return fmt.Errorf("open the mirror %s: it follows another log: use another data folder", want.Name)
	}
	return nil
}
