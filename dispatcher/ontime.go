package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
)

// maxDue is how many timers are handled before the loop looks at what else
// there is to do.
const maxDue = 1024

// pushTimeout is how long a push may go without an answer before it counts as
// lost.
const pushTimeout = 5 * time.Second

// onTime does what is due: timers, expired leases that had to wait, silent
// workers and orphans, pushes without an answer, the sweep.
func (l *loop) onTime() error {
	now, due := l.clock.Now(), l.clock.Due()
	if err := l.dueTimers(due); err != nil {
		return err
	}
	if err := l.duePauses(due); err != nil {
		return err
	}
	if err := l.dueCircuits(due); err != nil {
		return err
	}
	if err := l.leases.lateExpiries(); err != nil {
		return err
	}
	if err := l.acked.hearNatives(); err != nil {
		return err
	}
	if err := l.acked.heldNaks(now); err != nil {
		return err
	}
	if err := l.acked.settleNatives(now); err != nil {
		return err
	}
	l.ready.Release(now)
	if clock.Passed(l.workforce.nextWorker, now) {
		l.workforce.nextWorker = l.registry.Expire(now)
	}
	if clock.Passed(l.nextPurge, now) {
		l.purgeIntake(now)
	}
	if clock.Passed(l.flight.nextAck, now) {
		if err := l.flight.lostPushes(now); err != nil {
			return err
		}
	}
	if clock.Passed(l.leases.nextOrphan, now) {
		if err := l.leases.expireOrphans(now); err != nil {
			return err
		}
	}
	if clock.Passed(l.nextSweep, now) {
		if err := l.sweep(now); err != nil {
			return err
		}
	}
	return l.retention.retain(now)
}

// dueTimers handles the item timers that have passed, up to maxDue of them.
func (l *loop) dueTimers(now time.Time) error {
	for range maxDue {
		for l.timers.WantsPage() {
			if err := l.pageTimers(); err != nil {
				return err
			}
		}
		k, ok := l.timers.Min()
		if !ok || k.At > now.UnixNano() || !l.room() {
			return nil
		}
		l.timers.Remove(k)
		it, err := l.state.Item(k.ID)
		if err != nil {
			return err
		}
		if it == nil {
			continue
		}
		if it.State == events.StateQueued && !clock.Passed(it.ExpiryAt(), now) {
			if err := l.readyIfDue(it, now); err != nil {
				return err
			}
			continue
		}
		if _, _, err := l.decide(core.Due{ID: it.ID, Random: random()}); fatal(err) != nil {
			return err
		}
	}
	return nil
}

// pageTimers takes in the next part of the timer index.
func (l *loop) pageTimers() error {
	entries, err := l.cfg.Store.Timers(l.timers.Horizon, readyq.WindowPage)
	if err != nil {
		return err
	}
	keys, last := make([]projector.TimerKey, len(entries)), l.timers.Horizon
	for i, e := range entries {
		keys[i], last = e.TimerKey, e.TimerKey
	}
	l.timers.Page(keys, last, len(keys) < readyq.WindowPage)
	l.eachUnprojected(func(before, after *events.Item) {
		for _, k := range timerKeys(before) {
			if k != (projector.TimerKey{}) {
				l.timers.Remove(k)
			}
		}
		for _, k := range timerKeys(after) {
			if k != (projector.TimerKey{}) {
				l.timers.Insert(k)
			}
		}
	})
	return nil
}

// noteIntake notes that the log answers the intake up to a position, and has it
// purged once that has surely been written to disk.
func (l *loop) noteIntake(through uint64) {
	l.answered = through
	if l.nextPurge.IsZero() && through > l.purged {
		l.synced, l.nextPurge = through, l.clock.Now().Add(l.cfg.SyncWithin)
	}
}

func (l *loop) purgeIntake(now time.Time) {
	l.nextPurge = time.Time{}
	l.out.PurgeIntake(l.synced)
	l.purged = l.synced
	l.noteIntake(l.answered)
}

// lostPushes puts back what was pushed long ago with no answer. If it did
// arrive, its token is stale by then, and it is deleted when that turns out.
func (f *flight) lostPushes(now time.Time) error {
	f.noteAcks()
	f.nextAck = time.Time{}
	lost := 0
	for _, d := range f.l.table.byToken {
		if d.seq != 0 || d.claimed || d.orphan {
			continue
		}
		if d.at.Add(pushTimeout).After(now) {
			f.nextAck = clock.Sooner(f.nextAck, d.at.Add(pushTimeout))
			continue
		}
		if d.native {
			if err := f.l.acked.pushNativeAgain(d, now); err != nil {
				return err
			}
			continue
		}
		back, err := f.putBack(d)
		if err != nil {
			return err
		}
		if back {
			f.returned(d.typ, wire.RecoveryDispatchLost, 1)
			lost++
		}
	}
	if lost > 0 {
		f.l.log.Warn("dispatched items were not acknowledged in time: dispatching them anew", "items", lost, "after", pushTimeout)
		f.pushFailed(now)
	}
	return nil
}
