package streamwright

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// TailOptions says which events Tail tells, and from where on. The zero value
// is all events, from now on.
type TailOptions struct {
	Types []string // only of these types
	Kinds []string // only of these kinds, such as "completed"
	ID    string   // only of this item

	// At most one of these two says where to begin.
	Since   time.Time  // with events from then on
	FromSeq events.Seq // with this position, or the first that is kept
}

// Tail tells fn the events of the log, live and in order, until ctx ends or fn
// errs; that is the error it returns. The engine filters them. An event is told
// once its whole decision is in the log, so what a crash has cut short is never
// seen. Each event is told once: over a lost connection's repair, or a restart of
// the engine, no event is skipped and none repeated. A Tail that is so far behind
// that retention cuts the log ahead of it ends with an error of the code
// not_found.
func (c *Client) Tail(ctx context.Context, o TailOptions, fn func(Event) error) error {
	req, err := c.tailRequest(o)
	if err != nil {
		return err
	}
	f, err := c.openFeed(ctx, req)
	if err != nil {
		return err
	}
	defer f.close()
	for first := true; ; first = false {
		select {
		case m := <-f.pages:
			if m.err != nil {
				return m.err
			}
			if gap := m.page.Gap; gap != nil && !first {
				return events.Refuse(events.CodeNotFound, "tail: retention has cut the positions %d to %d before they were read: begin anew, and read faster or keep more", gap.From, gap.To)
			}
			for _, ev := range m.page.Events {
				if err := fn(ev); err != nil {
					return err
				}
				if ctx.Err() != nil {
					return endOf("tail", ctx.Err(), nil)
				}
			}
		case <-ctx.Done():
			return endOf("tail", ctx.Err(), nil)
		}
	}
}

// maxTailFilters bounds the types of one tail, and its kinds.
const maxTailFilters = wire.MaxEventTypes

// tailRequest is the first request for what the options ask for.
func (c *Client) tailRequest(o TailOptions) (req wire.ReadEvents, err error) {
	for _, t := range o.Types {
		if _, err := events.ParseType(t); err != nil {
			return req, events.Refuse(events.CodeBadType, "%v", err)
		}
	}
	for _, k := range o.Kinds {
		if _, err := events.ParseKind(k); err != nil {
			return req, events.Refuse(events.CodeBadRequest, "%v", err)
		}
	}
	if o.ID != "" {
		if _, err := events.ParseID(o.ID); err != nil {
			return req, events.Refuse(events.CodeBadID, "%v", err)
		}
	}
	if o.FromSeq > 0 && !o.Since.IsZero() {
		return req, events.Refuse(events.CodeBadRequest, "both a position and a time to begin with are given: give one of them")
	}
	req = wire.ReadEvents{FromSeq: o.FromSeq, Since: o.Since, Types: distinct(o.Types), Kinds: distinct(o.Kinds), ID: strings.ToUpper(o.ID)}
	if n := max(len(req.Types), len(req.Kinds)); n > maxTailFilters {
		return req, events.Refuse(events.CodeTooLarge, "%d types or kinds are asked for: at most %d of each are allowed; leave out the types or the kinds", n, maxTailFilters)
	}
	return req, nil
}

// distinct are the values without repetitions.
func distinct(values []string) []string {
	values = slices.Clone(values)
	slices.Sort(values)
	return slices.Compact(values)
}
