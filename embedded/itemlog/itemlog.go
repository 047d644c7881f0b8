// Package itemlog writes what becomes of items to the engine's log.
package itemlog

import (
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
	maxLogError  = 300 // bytes of an error's text in a line
)

// Log writes items' events to the engine's log: at level info a line for
// each item that ends and each attempt that fails, a limited number a second;
// at level debug one for each event. It does so while this process owns the
// log: it or another has already logged the events from before that.
type Log struct {
	log   *slog.Logger
	owner atomic.Bool
	ends  *lograte.Limiter
	fails *lograte.Limiter
}

// New returns a Log that is silent until Owned.
func New(log *slog.Logger) *Log {
	leftOut := func(what string) func(int) {
		return func(n int) { log.Info("more "+what+" than are logged in a second", "left_out", n) }
	}
	return &Log{log: log, ends: lograte.New(maxEndLines, leftOut("items ended")), fails: lograte.New(maxFailLines, leftOut("attempts failed or items died"))}
}

// Projected writes what a batch has to tell.
func (l *Log) Projected(c *core.Changes) {
	ctx := context.Background()
	if !l.owner.Load() || !l.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	all := l.log.Enabled(ctx, slog.LevelDebug)
	for i := range c.History {
		ev := &c.History[i]
		msg, limiter := lineOf(ev.Kind)
		switch {
		case limiter != nil && died(c.History[i:]):
			continue // dead says the same, and more
		case limiter != nil && (all || limiter(l).Allow()):
			l.log.LogAttrs(ctx, slog.LevelInfo, msg, attrs(ev, traceOf(c, ev.ID))...)
		case limiter == nil && all && ev.Kind != events.KindCarried:
			l.log.LogAttrs(ctx, slog.LevelDebug, "item "+ev.Kind.String(), attrs(ev, "")...)
		}
	}
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
		took(b.DurationMS)
	case *events.Failed:
		took(b.DurationMS)
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

// traceOf returns the trace id of an item of a batch, empty if it has no trace.
func traceOf(c *core.Changes, id events.ID) string {
	for i := range c.Items {
		it := c.Items[i].New
		if it == nil {
			it = c.Items[i].Old
		}
		if it == nil || it.ID != id {
			continue
		}
		if parts := strings.Split(it.Trace, "-"); len(parts) == 4 {
			return parts[1]
		}
		return ""
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
}
