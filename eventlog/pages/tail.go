package pages

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
)

const (
	// tailFilters bounds the types × kinds of a tail.
	tailFilters = 1024
	// tailWait bounds the time that a tail waits to be told that the log has
	// grown before it looks for itself: another engine may be appending.
	tailWait = 5 * time.Second
)

// TailConfig says which events to tail.
type TailConfig struct {
	// FromSeq begins at a position, or at the first that is kept behind it.
	FromSeq events.Seq
	// Since begins with the first frame stored at or after a time. Ignored with
	// FromSeq. With neither, the tail begins with what comes next.
	Since time.Time

	Types []events.Type // none: all; the empty type: the partition's own events
	Kinds []events.Kind // none: all
	ID    events.ID     // zero: all
	Wants Filter        // see [Query]
}

// Validate reports what is wrong.
func (c TailConfig) Validate() error {
	if n := len(c.Types) * len(c.Kinds); n > tailFilters {
		return fmt.Errorf("%d types and %d kinds make %d filters: use at most %d, or tail all and choose from them", len(c.Types), len(c.Kinds), n, tailFilters)
	}
	return nil
}

// Tail passes the log's events to fn, in order, one at a time, until
// ctx ends, which is no error. It waits out everything that time can mend, such
// as a server that reloads. It ends with fn's error; with a *eventlog.BehindError if the
// log does not reach FromSeq; or with an error about the log or the connection.
//
// For reading see [Reader.Read].
func (p *Reader) Tail(ctx context.Context, cfg TailConfig, reading func(context.Context) (done func(), err error), fn func(events.Event) error) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("tail the event log: %w", err)
	}
	q := Query{From: cfg.FromSeq, Since: cfg.Since, Types: cfg.Types, Kinds: cfg.Kinds, ID: cfg.ID, Wants: cfg.Wants, Wait: tailWait}
	for wait := eventlog.RetryMin; ; {
		page, err := p.Read(ctx, q, reading)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, eventlog.ErrUnreachable) && p.nc.IsClosed():
			return fmt.Errorf("tail the event log: %w", nats.ErrConnectionClosed)
		case errors.Is(err, eventlog.ErrUnreachable):
			_ = sleep.Longer(ctx, &wait, eventlog.RetryMax) // its error shows in the next attempt
			continue
		case err != nil:
			return fmt.Errorf("tail the event log: %w", err)
		}
		wait = eventlog.RetryMin
		q.From, q.Since = page.Next, time.Time{}
		for _, ev := range page.Events {
			if err := fn(ev); err != nil {
				return err
			}
		}
	}
}
