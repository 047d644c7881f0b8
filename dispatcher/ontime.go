package dispatcher

import (
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
)

// maxDue is the most timers handled before the loop looks at other work.
const maxDue = 1024

// onTime does what is due: timers, leases, silent workers, what ack types wait for, the
// sweep.
func (l *loop) onTime() error {
	now, due := l.clock.Now(), l.clock.Due()
	l.state.SetDue(l.clock.BlindDue()) // no decision's time is earlier than due
	if err := l.recount.work(); err != nil {
		return err
	}
	if err := l.timers.due(due); err != nil {
		return err
	}
	if err := l.assigner.endGrace(now); err != nil {
		return err
	}
	if err := l.gates.due(due); err != nil {
		return err
	}
	if err := l.acks.onTime(now); err != nil {
		return err
	}
	l.ready.Release(now)
	if clock.Passed(l.workforce.nextWorker, now) {
		l.workforce.nextWorker = l.workforce.registry.Expire(now)
	}
	if clock.Passed(l.purge.Next, now) {
		l.purge.Now()
	}
	if clock.Passed(l.leases.next, now) {
		if err := l.leases.expireDue(now); err != nil {
			return err
		}
	}
	if clock.Passed(l.sweeper.next, now) {
		if err := l.sweeper.sweep(now); err != nil {
			return err
		}
	}
	return l.retention.Work(now)
}

// timers holds the items' own timers: when they become due, expire or run out of time. The
// next ones are in memory, and the rest is paged in from the projection's index.
type timers struct {
	*decider
	store    *projector.Store
	newID    func() events.ID // for reminders
	flight   *flight
	assigner *assigner
	*readyq.Window[projector.TimerKey]
}

// due handles the timers that have passed, up to maxDue of them.
func (t *timers) due(now time.Time) error {
	for range maxDue {
		for t.WantsPage() {
			if err := t.page(); err != nil {
				return err
			}
		}
		k, ok := t.Min()
		if !ok || k.At > now.UnixNano() || !t.room() {
			return nil
		}
		t.Remove(k)
		it, err := t.state.Item(k.ID)
		if err != nil {
			return err
		}
		if it == nil {
			continue
		}
		if it.State == events.StateQueued && !clock.Passed(it.ExpiryAt(), now) {
			if !it.AvailableAt.After(now) {
				err = t.flight.makeReady(it)
			}
			if err != nil {
				return err
			}
			continue
		}
		if !clock.Passed(it.ExpiryAt(), now) && t.assigner.spares(it) {
			continue
		}
		if _, _, err := t.decide(core.Due{ID: it.ID, Random: random(), NewID: t.newID()}); fatal(err) != nil {
			return err
		}
	}
	return nil
}

// recount has the items with timers counted anew after the clock was set back: see
// [core.Recount]. A new owner begins again, until the time has come to which items may have
// been counted. Owned by the loop.
type recount struct {
	*decider
	store *projector.Store

	on     bool
	ids    []events.ID        // the next
	behind projector.TimerKey // the place of the last of them
}

// begin begins with what is due later than now: every such item is in the projection.
func (r *recount) begin(now time.Time) {
	r.on, r.behind = !r.state.Meta().Ahead.IsZero(), projector.TimerKey{At: now.UnixNano()}
}

// work counts up to maxDue items anew.
func (r *recount) work() error {
	for range maxDue {
		if !r.on || !r.room() {
			return nil
		}
		if len(r.ids) == 0 {
			if err := r.page(); err != nil {
				return err
			}
			continue
		}
		if _, _, err := r.decide(core.Recount{ID: r.ids[0]}); err != nil {
			return err // it is never refused
		}
		r.ids = r.ids[1:]
	}
	return nil
}

func (r *recount) page() error {
	entries, err := r.store.Timers(r.behind, maxDue)
	if err != nil {
		return err
	}
	for _, e := range entries {
		r.ids, r.behind = append(r.ids, e.ID), e.TimerKey
	}
	r.on = len(entries) > 0
	return nil
}

// page takes in the next part of the timer index.
func (t *timers) page() error {
	entries, err := t.store.Timers(t.Horizon, readyq.WindowPage)
	if err != nil {
		return err
	}
	keys, last := make([]projector.TimerKey, len(entries)), t.Horizon
	for i, e := range entries {
		keys[i], last = e.TimerKey, e.TimerKey
	}
	t.Page(keys, last, len(keys) < readyq.WindowPage)
	t.pipe.eachUnprojected(t.changed)
	return nil
}

// changed follows an item's change. The zero key stands for no timer.
func (t *timers) changed(before, after *events.Item) {
	was, now := timerKeys(before), timerKeys(after)
	if was == now {
		return
	}
	for _, k := range was {
		if k != (projector.TimerKey{}) && !slices.Contains(now[:], k) {
			t.Remove(k)
		}
	}
	for _, k := range now {
		if k != (projector.TimerKey{}) && !slices.Contains(was[:], k) {
			t.Insert(k)
		}
	}
}

func timerKeys(it *events.Item) (keys [2]projector.TimerKey) {
	if it != nil {
		keys = projector.TimerKeysOf(it)
	}
	return keys
}
