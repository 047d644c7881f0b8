package dispatcher

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/streamwright/streamwright/dispatcher/ahead"
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// Why returns the reasons why an item is not running now.
func (d *Dispatcher) Why(ctx context.Context, id events.ID) (wire.WhyReply, error) {
	a, err := ask(ctx, d, func(l *loop) (whyAnswer, error) { return l.why(id) })
	if err != nil || !a.queued {
		return a.reply, err
	}
	// Outside of the loop, since this reads as many index entries as there are items in
	// front.
	own, err := ahead.OfType(d.cfg.Store, a.item, a.ageStep, a.reply.At)
	if err != nil {
		return a.reply, err
	}
	others, err := a.contest.Count(d.cfg.Store, a.item, a.ageStep, a.reply.At, ahead.Max-own.Items)
	if err != nil || own.Items+others == 0 {
		return a.reply, err
	}
	a.reply.Reasons = append(a.reply.Reasons, events.BlockReason{Code: events.WhyBehind, Message: ahead.Said(own.Items, others, &a.contest), Ahead: own.Items + others})
	return a.reply, nil
}

// whyAnswer holds the loop's answer to Why.
type whyAnswer struct {
	reply   wire.WhyReply
	item    *events.Item
	ageStep time.Duration
	queued  bool         // the item may run, and waits for its turn
	contest ahead.Rivals // competition with other types
}

// why returns what keeps an item from running, except the items ahead of it.
func (l *loop) why(id events.ID) (a whyAnswer, err error) {
	it, err := l.state.Item(id)
	if err != nil {
		return a, err
	}
	if it == nil {
		return a, events.Refuse(events.CodeNotFound, "there is no item %s: check the id; ended items are forgotten after their retention", id)
	}
	now := l.clock.Now()
	copied := *it // the state may still change it
	a.item = &copied
	a.reply = wire.WhyReply{ID: it.ID.String(), Type: string(it.Type), State: it.State, At: now, Position: wire.PositionOf(l.state.Meta().Applied)}
	due := l.clock.Due()
	reasons := core.Explain(l.state, it, due)
	if it.State == events.StateQueued {
		set, _ := l.state.Settings(it.Type)
		a.ageStep = l.limits.ageStep(it.Type, &set)
		d := l.table.ByID[it.ID]
		if a.queued = d == nil && !it.AvailableAt.After(due); a.queued {
			a.contest = l.limits.rivals(it.Type)
		}
		reasons = append(reasons, l.explainDispatch(it, d, set, now)...)
	}
	if len(reasons) == 0 {
		reasons = []events.BlockReason{{Code: events.WhyReady, Message: "nothing stands in its way: it is about to go"}}
	}
	a.reply.Reasons = reasons
	return a, nil
}

// explainDispatch returns what in the dispatcher's own state keeps a queued item from
// running.
func (l *loop) explainDispatch(it *events.Item, d *table.Dispatch, set events.TypeSettings, now time.Time) []events.BlockReason {
	if set.Ack() || d != nil && d.Ack {
		return l.acks.explain(it, d, &set, now)
	}
	out := l.explainWorkers(it)
	add := func(code, format string, args ...any) {
		out = append(out, events.BlockReason{Code: code, Message: fmt.Sprintf(format, args...)})
	}
	if n := l.table.ByType[it.Type].All; n >= set.Capacity {
		add(events.WhyTypeFull, "type %s has %s dispatched or running: its capacity is %d", it.Type, events.Count(n, "item"), set.Capacity)
	}
	if n := l.table.Total(); l.limits.full() {
		add(events.WhyEngineFull, "the engine has %s dispatched or running: its max_running is %d", events.Count(n, "item"), l.cfg.MaxRunning)
	}
	if p := l.pools.of(it.Type); p != nil && l.pools.full(p) && l.state.PoolRuns(p.name) < int64(p.slots) { // otherwise the state reports it
		add(events.WhyPoolFull, "pool %s has %s dispatched or running: it has %d slots", p.name, events.Count(p.slots, "item"), p.slots)
	}
	if why := l.halt.reason(); why != "" {
		out = append(out, events.BlockReason{Code: events.WhyNoRoom, Message: "nothing new is begun: " + why})
	}
	return out
}

// explainWorkers returns why no worker could run an item now, nil if one could.
func (l *loop) explainWorkers(it *events.Item) []events.BlockReason {
	one := func(code, format string, args ...any) []events.BlockReason {
		return []events.BlockReason{{Code: code, Message: fmt.Sprintf(format, args...)}}
	}
	lane := it.Lane()
	slots, _ := l.workforce.registry.Slots(it.Type, lane)
	if slots > 0 {
		if lane != "" && !l.ready.IsOpen(it.Type, lane) {
			return one(events.WhyLanesFull, "items that ask for other sets of capabilities go first: at most %d sets of one type, and %d of all, are served at once", lanes.MaxPerType, lanes.Max)
		}
		if l.seats.Free(lanes.Key{Type: it.Type, Name: lane}) <= 0 {
			return one(events.WhyBusy, "the workers have %s for it, and none is free: %s dispatched or running", events.Count(slots, "slot"), events.Count(l.table.ByType[it.Type].All, "item"))
		}
		return nil
	}
	switch able, of := l.workforce.registry.Able(it.Type, lane), l.workforce.registry.Able(it.Type, ""); {
	case len(able) > 0:
		return one(events.WhyUnfit, "%s could run it, and none takes work now (draining, unhealthy, or its circuit is open): see `engine workers`", events.Count(len(able), "worker"))
	case len(of) > 0:
		return one(events.WhyNoCapable, "it needs %s, and of the %s of type %s none has all of that: start one with --capability", strings.Join(it.Capabilities, ", "), events.Count(len(of), "worker"), it.Type)
	}
	return one(events.WhyNoWorker, "no worker of type %s is registered: start one, for instance with `engine work %s -- CMD`", it.Type, it.Type)
}

// explain returns what in the dispatcher's own state keeps a queued item of an ack type
// from running. d is its dispatch, nil for none.
func (a *ackRuns) explain(it *events.Item, d *table.Dispatch, set *events.TypeSettings, now time.Time) (out []events.BlockReason) {
	add := func(code, format string, args ...any) {
		out = append(out, events.BlockReason{Code: code, Message: fmt.Sprintf(format, args...)})
	}
	if d != nil {
		add(events.WhyOnItsWay, "it was sent to the JetStream consumer %s of stream %s %s ago; whether a worker has it yet is not known before it answers, renews, or the next sweep", d.Type, a.cfg.Names.DispatchStream(), now.Sub(d.At).Round(time.Millisecond))
		return out
	}
	if it.Lane() != "" {
		add(events.WhyNoCapable, "it needs capabilities, and its type has protocol ack, whose workers tell none: submit it without, or set protocol=offer")
		return out
	}
	if n := a.table.ByType[it.Type].All; n >= ackWindow(set) {
		add(events.WhyTypeFull, "type %s has %s on their way or running: its workers get at most %d", it.Type, events.Count(n, "item"), ackWindow(set))
	}
	if n := a.table.Total(); n >= a.cfg.MaxRunning {
		add(events.WhyEngineFull, "the engine has %s dispatched or running: its max_running is %d", events.Count(n, "item"), a.cfg.MaxRunning)
	}
	if why := a.halt.reason(); why != "" {
		out = append(out, events.BlockReason{Code: events.WhyNoRoom, Message: "nothing new is begun: " + why})
	}
	if a.hold.After(now) {
		out = append(out, events.BlockReason{Code: events.WhyHeld, Message: "dispatching rests for a moment: the NATS server has just refused a dispatch", Until: a.hold})
	}
	return out
}
