package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// itemChanged applies an item's durable change to all volatile state: the timers, the
// dispatch table, the ready windows.
func (f *flight) itemChanged(before, after *events.Item) error {
	f.l.timers.changed(before, after)
	if before != nil && before.State == events.StateQueued {
		f.l.ready.Remove(before)
	}
	if after == nil {
		return nil // pruned: at most a slot is left that its worker still holds
	}
	f.tableFollows(before, after)
	return f.readyIfDue(after, f.l.clock.Due())
}

// readyIfDue puts an item into its queue if it may run and is not dispatched.
func (f *flight) readyIfDue(it *events.Item, now time.Time) error {
	if it.State != events.StateQueued || f.l.table.ByID[it.ID] != nil || it.AvailableAt.After(now) {
		return nil
	}
	f.l.sender.dirty[it.Type] = true
	return f.l.ready.Insert(it)
}

// tableFollows applies an item's change to the dispatch table.
func (f *flight) tableFollows(before, after *events.Item) {
	d := f.l.table.ByID[after.ID]
	if d == nil {
		return
	}
	run := after.Token == d.Token // claimed under this dispatch
	switch {
	case d.Session != "" && after.Token < d.Token:
		// It was claimed again by a decision that is not durable yet.
	case run && (after.State == events.StateClaimed || after.State == events.StateRunning):
		if !d.Claimed {
			f.l.table.Claim(d, after.Worker, f.l.clock.Now())
			f.roomChanged(d.Type, d.Group)
		} else if before == nil || !after.StartedAt.Equal(before.StartedAt) {
			d.Heard = f.l.clock.Now()
		}
	case run && after.State == events.StateCancelled && (d.Session == "" || d.Sent):
		// The worker keeps the slot until it lets go.
		f.l.table.Claim(d, after.Worker, f.l.clock.Now())
		f.l.table.Linger(d)
		if !d.Ack { // in ack types the answer or the lease's end frees the slot
			f.l.out.Control(d.Worker, wire.Control{Cancel: []wire.RunRef{{ID: d.ID.String(), Token: d.Token.String()}}})
		}
	case !run && after.State == events.StateQueued && !moved(before, after):
		// Its message is on its way.
	case d.Sent && f.l.assigner.holds(d):
		f.l.table.Claim(d, d.Worker, f.l.clock.Now())
		f.l.table.Linger(d) // the engine has ended the run, and the worker holds the slot
	default:
		f.letGo(d)
	}
}

// moved reports whether a queued item's order has changed: then a dispatch made under the
// old order must not be claimed.
func moved(before, after *events.Item) bool {
	return before == nil || before.State != events.StateQueued || before.Priority != after.Priority ||
		!before.OrderAt.Equal(after.OrderAt) || !before.AvailableAt.Equal(after.AvailableAt)
}

// letGo removes a dispatch and frees its slot.
func (f *flight) letGo(d *table.Dispatch) {
	f.l.table.Remove(d)
	if d.Ack {
		f.l.acked.letGo(d)
		f.l.acked.leaseEnded(d)
	}
	f.l.sender.dirty[d.Type] = true
	if seat := f.l.assigner.seats.Of(d.Worker); seat != nil && len(seat.Types) > 1 { // the slot may be any of theirs
		for _, t := range seat.Types {
			if !f.l.ready.Empty(events.Type(t)) {
				f.l.sender.dirty[events.Type(t)] = true
			}
		}
	}
	f.roomChanged(d.Type, d.Group)
}

// roomChanged tells the queues and the pool that a dispatch of a type and group has begun
// to run, or has ended: what was held back for it is looked at again.
func (f *flight) roomChanged(t events.Type, group string) {
	f.l.ready.Moved(t, group)
	if p := f.l.sender.pools.of(t); p != nil {
		for _, member := range p.types {
			f.l.sender.dirty[member] = true
		}
	}
}

// returned reports dispatches that were taken back to the hook.
func (f *flight) returned(t events.Type, why string, n int) {
	if h := f.l.cfg.Hooks.Returned; h != nil {
		for range n {
			h(t, why)
		}
	}
}

// flight follows the items that are with workers, or on their way to them. Owned by the
// loop.
type flight struct{ l *loop }
