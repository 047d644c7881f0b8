package dispatcher

import (
	"fmt"
	"time"

	"github.com/streamwright/streamwright/events"
)

// explainNative says what of the dispatcher's own keeps a queued item of a type
// with native workers. d is its dispatch, nil for none.
func (a *ackRuns) explainNative(it *events.Item, d *dispatched, set *events.TypeSettings, now time.Time) (out []events.Obstacle) {
	add := func(code, format string, args ...any) {
		out = append(out, events.Obstacle{Code: code, Message: fmt.Sprintf(format, args...)})
	}
	if d != nil {
		add(events.WhyOnItsWay, "it was sent to the JetStream consumer %s of stream %s %s ago; whether a worker has it yet is not known before it answers, renews, or the next sweep", d.typ, a.l.cfg.Names.NativeStream(), now.Sub(d.at).Round(time.Millisecond))
		return out
	}
	if it.Lane() != "" {
		add(events.WhyNoCapable, "it needs capabilities, and its type has protocol ack, whose workers tell none: submit it without, or set protocol=claim")
		return out
	}
	if n := a.l.table.byType[it.Type]; n >= nativeWindow(set) {
		add(events.WhyTypeFull, "type %s has %s on their way or running: its workers get at most %d", it.Type, count(n, "item"), nativeWindow(set))
	}
	if n := a.l.table.total(); n >= a.l.cfg.MaxRunning {
		add(events.WhyEngineFull, "the engine has %s dispatched or running: its max_running is %d", count(n, "item"), a.l.cfg.MaxRunning)
	}
	if why := a.l.halt.reason(); why != "" {
		out = append(out, events.Obstacle{Code: events.WhyNoRoom, Message: "nothing new is begun: " + why})
	}
	if a.l.flight.hold.After(now) {
		out = append(out, events.Obstacle{Code: events.WhyHeld, Message: "dispatching rests for a moment: the NATS server has just refused a dispatch", Until: a.l.flight.hold})
	}
	return out
}
