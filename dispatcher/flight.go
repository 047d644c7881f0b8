package dispatcher

import (
	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/dispatcher/seats"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// itemChanged applies an item's durable change to the dispatch table and the ready
// windows.
func (f *flight) itemChanged(before, after *events.Item) error {
	if before != nil && before.State == events.StateQueued {
		f.ready.Remove(before)
	}
	if after == nil {
		return nil // pruned: at most a slot is left that its worker still holds
	}
	f.tableFollows(before, after)
	if !f.clock.Reached(after.AvailableAt) {
		return nil
	}
	return f.makeReady(after)
}

// makeReady puts an item whose time has come into its queue, if it is queued and not
// dispatched.
func (f *flight) makeReady(it *events.Item) error {
	if it.State != events.StateQueued || f.table.ByID[it.ID] != nil {
		return nil
	}
	f.dirty.mark(it.Type)
	return f.ready.Insert(it)
}

// tableFollows applies an item's change to the dispatch table.
func (f *flight) tableFollows(before, after *events.Item) {
	d := f.table.ByID[after.ID]
	if d == nil {
		return
	}
	run := after.Token == d.Token // claimed under this dispatch
	switch {
	case d.Session != "" && after.Token < d.Token:
		// It was claimed again by a decision that is not durable yet.
	case run && (after.State == events.StateClaimed || after.State == events.StateRunning):
		if !d.Claimed {
			f.table.Claim(d, after.Worker, f.clock.Now())
			f.roomChanged(d.Type, d.Group)
		} else if before == nil || !after.StartedAt.Equal(before.StartedAt) {
			d.Heard = f.clock.Now()
		}
	case run && after.State == events.StateCancelled && (d.Session == "" || d.Sent):
		// The worker keeps the slot until it lets go.
		f.table.Claim(d, after.Worker, f.clock.Now())
		f.table.Linger(d)
		if !d.Ack { // in ack types the answer or the lease's end frees the slot
			f.out.Control(d.Worker, wire.Control{Cancel: []wire.RunRef{{ID: d.ID.String(), Token: d.Token.String()}}})
		}
	case !run && after.State == events.StateQueued && !moved(before, after):
		// Its message is on its way.
	case d.Sent && f.seats.Holds(d.Worker, d.Session):
		f.table.Claim(d, d.Worker, f.clock.Now())
		f.table.Linger(d) // the engine has ended the run, and the worker holds the slot
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
	f.table.Remove(d)
	if d.Ack {
		f.ackGone(d)
	}
	f.dirty.mark(d.Type)
	if seat := f.seats.Of(d.Worker); seat != nil && len(seat.Types) > 1 { // the slot may be any of theirs
		for _, t := range seat.Types {
			if !f.ready.Empty(events.Type(t)) {
				f.dirty.mark(events.Type(t))
			}
		}
	}
	f.roomChanged(d.Type, d.Group)
}

// roomChanged tells the queues and the pool that a dispatch of a type and group has begun
// to run, or has ended: what was held back for it is looked at again.
func (f *flight) roomChanged(t events.Type, group string) {
	f.ready.Moved(t, group)
	if p := f.pools.of(t); p != nil {
		f.dirty.mark(p.types...)
	}
}

// returned reports dispatches that were taken back to the hook.
func (f *flight) returned(t events.Type, why string, n int) {
	if h := f.hooks.Returned; h != nil {
		for range n {
			h(t, why)
		}
	}
}

// flight follows the items that are with workers, or on their way to them. Owned by the
// loop.
type flight struct {
	clock *clock.Clock
	table *table.Table
	ready *readyq.Queues
	seats *seats.Seats
	pools *pools
	dirty dirty
	out   effects
	// ackGone is called with each dispatch of an ack type that has been let go.
	ackGone func(*table.Dispatch)
	hooks   *Hooks
}
