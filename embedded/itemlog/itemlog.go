// Package itemlog writes what becomes of items to the engine's log.
package itemlog

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/lograte"
)

// Bounds of the lines about items, beyond which they are counted only.
const (
	maxEndLines  = 20  // a second, of items that completed, were cancelled or merged
	maxFailLines = 20  // a second, of attempts that failed and items that died
	maxMoveLines = 100 // a second, of transitions when they are sampled
	maxLogError  = 300 // bytes of an error's text in a line
)

// Transitions says which transitions of items are logged, a line for each.
type Transitions string

// Off leaves the lines about ends and failures; Sampled writes a bounded number of
// transitions a second; All writes each.
const (
	Off     Transitions = "off"
	Sampled Transitions = "sampled"
	All     Transitions = "all"
)

// Log writes items' events to the engine's log: at level info a line for
// each item that ends and each attempt that fails, a limited number a second;
// at level debug one for each event. With [Transitions] it writes at level info a
// line for each transition instead. It does so while this process owns the
// log: it or another has already logged the events from before that.
type Log struct {
	log         *slog.Logger
	transitions Transitions
	owner       atomic.Bool
	ends        *lograte.Limiter
	fails       *lograte.Limiter
	moves       *lograte.Limiter

	// The items of a batch as they stand within it, by id. Owned by Projected.
	standings map[events.ID]standing
}

// standing is an item within a batch: its state so far, and its record.
type standing struct {
	state events.ItemState
	item  *events.Item
}

// New returns a Log that is silent until Owned.
func New(log *slog.Logger, transitions Transitions) *Log {
	leftOut := func(what string) func(int) {
		return func(n int) { log.Info("more "+what+" than are logged in a second", "left_out", n) }
	}
	return &Log{
		log: log, transitions: transitions, standings: map[events.ID]standing{},
		ends: lograte.New(maxEndLines, leftOut("items ended")), fails: lograte.New(maxFailLines, leftOut("attempts failed or items died")),
		moves: lograte.New(maxMoveLines, leftOut("transitions")),
	}
}

// Projected writes what a batch has to tell.
func (l *Log) Projected(c *core.Changes) {
	ctx := context.Background()
	if !l.owner.Load() || !l.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	l.enter(c)
	all := l.log.Enabled(ctx, slog.LevelDebug)
	for i := range c.History {
		ev := &c.History[i]
		if l.transition(ctx, ev) {
			continue
		}
		msg, limiter := lineOf(ev.Kind)
		switch {
		case limiter != nil && died(c.History[i:]):
			continue // dead says the same, and more
		case limiter != nil && (all || limiter(l).Allow()):
			l.log.LogAttrs(ctx, slog.LevelInfo, msg, attrs(ev, l.traceOf(ev.ID))...)
		case limiter == nil && all && ev.Kind != events.KindCarried:
			l.log.LogAttrs(ctx, slog.LevelDebug, "item "+ev.Kind.String(), attrs(ev, "")...)
		}
	}
}

// enter notes the items of a batch as they were before it.
func (l *Log) enter(c *core.Changes) {
	clear(l.standings)
	for i := range c.Items {
		s := standing{item: c.Items[i].New}
		if old := c.Items[i].Old; old != nil {
			s.state = old.State
			s.item = cmp.Or(s.item, old)
		}
		if _, known := l.standings[s.item.ID]; !known { // an item that was pruned and created anew is there twice
			l.standings[s.item.ID] = s
		}
	}
}

// transition writes an event that takes an item from a state to another, if
// transitions are logged, and reports whether it is one of those.
func (l *Log) transition(ctx context.Context, ev *events.Event) bool {
	if l.transitions != Sampled && l.transitions != All {
		return false
	}
	s := l.standings[ev.ID]
	from := s.state
	to, moves := events.Next(from, ev.Kind)
	if !moves || from == to {
		return false
	}
	s.state = to
	l.standings[ev.ID] = s
	if l.transitions == All || l.moves.Allow() {
		l.log.LogAttrs(ctx, slog.LevelInfo, "item transition", s.attrs(ev, from)...)
	}
	return true
}

func stateName(s events.ItemState) string {
	if s == events.StateNone {
		return "none"
	}
	return s.String()
}

// attrs returns what a line says of a transition: what others say of its event, and
// of the item.
func (s standing) attrs(ev *events.Event, from events.ItemState) []slog.Attr {
	out := make([]slog.Attr, 0, 16)
	out = append(out, slog.String("event", ev.Kind.String()), slog.String("from", stateName(from)), slog.String("to", s.state.String()))
	trace := ""
	if it := s.item; it != nil {
		out = append(out, slog.Int("priority", int(it.Priority)), slog.Float64("age_seconds", max(ev.At.Sub(it.CreatedAt), 0).Seconds()))
		if it.Tenant != "" {
			out = append(out, slog.String("tenant", it.Tenant))
		}
		trace = traceID(it)
	}
	return append(out, attrs(ev, trace)...)
}

// lineOf returns the message at level info for an event of that kind, and the
// limiter of such lines; nil if there is no message.
func lineOf(k events.Kind) (string, func(*Log) *lograte.Limiter) {
	ends := func(l *Log) *lograte.Limiter { return l.ends }
	fails := func(l *Log) *lograte.Limiter { return l.fails }
	switch k {
	case events.KindCompleted:
		return "item completed", ends
	case events.KindCancelled:
		return "item cancelled", ends
	case events.KindMerged:
		return "item merged", ends
	case events.KindFailed:
		return "attempt failed", fails
	case events.KindDead:
		return "item dead", fails
	}
	return "", nil
}

// died reports whether the first of some events is the failure that the item is
// dead of by the second.
func died(evs []events.Event) bool {
	return len(evs) > 1 && evs[0].Kind == events.KindFailed && evs[1].Kind == events.KindDead && evs[0].ID == evs[1].ID
}

// attrs returns what a line says of an event.
func attrs(ev *events.Event, trace string) []slog.Attr {
	out := make([]slog.Attr, 0, 10)
	out = append(out, slog.String("item", ev.ID.String()), slog.String("type", string(ev.Type)))
	text := func(key, v string) {
		if v != "" {
			out = append(out, slog.String(key, v))
		}
	}
	took := func(ms int64) { out = append(out, slog.Duration("took", time.Duration(ms)*time.Millisecond)) }
	attempt := ev.Attempt
	if b, ok := ev.Body.(*events.Dead); ok && attempt == 0 {
		attempt = b.Attempts
	}
	if attempt > 0 {
		out = append(out, slog.Int("attempt", int(attempt)))
	}
	text("worker", string(ev.Worker))
	switch b := ev.Body.(type) {
	case *events.Completed:
		took(b.Duration.Milliseconds())
	case *events.Failed:
		took(b.Duration.Milliseconds())
		text("code", b.Code)
		text("error", clipText(b.Error))
	case *events.Dead:
		text("reason", b.Reason)
		text("code", b.Code)
		text("error", clipText(b.Error))
	case *events.Cancelled:
		text("reason", b.Reason)
	case *events.Merged:
		text("into", b.Into.String())
	case *events.Queued:
		text("reason", b.Reason)
	}
	text("trace", trace)
	return out
}

func clipText(s string) string {
	if len(s) <= maxLogError {
		return s
	}
	return strings.ToValidUTF8(s[:maxLogError], "") + "…"
}

// traceOf returns the trace id of an item of the batch, empty if it has no trace.
func (l *Log) traceOf(id events.ID) string {
	if it := l.standings[id].item; it != nil {
		return traceID(it)
	}
	return ""
}

func traceID(it *events.Item) string {
	if parts := strings.Split(it.Trace, "-"); len(parts) == 4 {
		return parts[1]
	}
	return ""
}

// Owned begins: this process owns the log.
func (l *Log) Owned(events.Epoch) { l.owner.Store(true) }

// Lost ends what Owned has begun.
func (l *Log) Lost(error) { l.owner.Store(false) }

// Stop logs how many lines were left out at the end.
func (l *Log) Stop() {
	l.ends.Flush()
	l.fails.Flush()
	l.moves.Flush()
}
