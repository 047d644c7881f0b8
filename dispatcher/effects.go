package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
)

func timerKey(it *events.Item) (projector.TimerKey, bool) {
	if it == nil {
		return projector.TimerKey{}, false
	}
	return projector.TimerKeyOf(it)
}

// itemChanged follows an item's durable change in all that is volatile: the
// timers, the dispatch table, the ready windows.
func (l *loop) itemChanged(before, after *events.Item) error {
	oldKey, had := timerKey(before)
	newKey, has := timerKey(after)
	if had && oldKey != newKey {
		l.timers.remove(oldKey)
	}
	if has && oldKey != newKey {
		l.timers.insert(newKey)
	}
	if before != nil && before.State == events.StateQueued {
		l.ready.remove(before)
	}
	l.tableFollows(before, after)
	if after.State == events.StateQueued && l.table.byID[after.ID] == nil && !after.AvailableAt.After(l.clock.now()) {
		l.ready.insert(after)
		l.dirty[after.Type] = true
	}
	return nil
}

// tableFollows follows an item's change in the dispatch table.
func (l *loop) tableFollows(before, after *events.Item) {
	d := l.table.byID[after.ID]
	if d == nil {
		return
	}
	switch {
	case after.Token == d.token && (after.State == events.StateClaimed || after.State == events.StateRunning):
		d.claimed, d.worker = true, after.Worker
	case after.State == events.StateQueued && after.Token != d.token && !moved(before, after):
		// On its way, and still to be claimed.
	case after.State == events.StateCancelled && d.claimed:
		// The slot is the worker's until it lets go.
		l.table.linger(d)
		l.pusher.control(d.worker, wire.Control{Cancel: []wire.RunRef{{ID: d.id.String(), Token: d.token.String()}}})
	default:
		l.letGo(d)
	}
}

// moved reports whether a queued item's order has changed, so that what was
// dispatched by the old one must not be claimed.
func moved(before, after *events.Item) bool {
	return before == nil || before.State != events.StateQueued || before.Priority != after.Priority ||
		!before.OrderAt.Equal(after.OrderAt) || !before.AvailableAt.Equal(after.AvailableAt)
}

// letGo frees a dispatch's slot.
func (l *loop) letGo(d *dispatched) {
	l.table.remove(d)
	l.dirty[d.typ] = true
}

// putBack takes back a dispatch that was not claimed: its item is ready again,
// under another token.
func (l *loop) putBack(d *dispatched) {
	l.letGo(d)
	it, err := l.state.Item(d.id)
	if err != nil || it == nil || it.State != events.StateQueued {
		return
	}
	if !it.AvailableAt.After(l.clock.now()) {
		l.ready.insert(it)
	}
}

// onTime does what is due: timers, silent workers and orphans, the sweep.
func (l *loop) onTime() error {
	now := l.clock.now()
	if err := l.dueTimers(now); err != nil {
		return err
	}
	if !l.nextWorker.IsZero() && !l.nextWorker.After(now) {
		l.nextWorker = l.registry.expire(now)
	}
	if !l.nextOrphan.IsZero() && !l.nextOrphan.After(now) {
		if err := l.expireOrphans(now); err != nil {
			return err
		}
	}
	if !l.nextSweep.After(now) {
		return l.sweep(now)
	}
	return nil
}

// dueTimers handles the item timers that have passed.
func (l *loop) dueTimers(now time.Time) error {
	for {
		for l.timers.wantsPage() && l.caughtUp() {
			if err := l.pageTimers(); err != nil {
				return err
			}
		}
		k, ok := l.timers.min()
		if !ok || k.At > now.UnixNano() || !l.room() {
			return nil
		}
		it, err := l.state.Item(k.ID)
		if err != nil {
			return err
		}
		l.timers.remove(k)
		if it == nil {
			continue
		}
		if it.State == events.StateQueued {
			if l.table.byID[it.ID] == nil && !it.AvailableAt.After(now) {
				l.ready.insert(it)
				l.dirty[it.Type] = true
			}
			continue
		}
		if _, _, err := l.decide(events.Due{ID: it.ID, Random: random()}); fatal(err) != nil {
			return err
		}
	}
}

// pageTimers takes in the next part of the timer index.
func (l *loop) pageTimers() error {
	entries, err := l.cfg.Store.Timers(l.timers.horizon, windowPage)
	if err != nil {
		return err
	}
	keys, last := make([]projector.TimerKey, len(entries)), l.timers.horizon
	for i, e := range entries {
		keys[i], last = e.TimerKey, e.TimerKey
	}
	l.timers.page(keys, last, len(keys) < windowPage)
	return nil
}

// onSignals handles what other goroutines have left.
func (l *loop) onSignals() error {
	t := l.signals.take()
	if t.reload {
		return errReload
	}
	now := l.clock.now()
	if t.registry {
		l.registryChanged(now)
	}
	if t.lost {
		l.dispatchLost(now)
	}
	for _, tok := range t.failed {
		if d := l.table.byToken[tok]; d != nil && !d.claimed {
			l.putBack(d)
		}
	}
	if len(t.failed) > 0 {
		l.pusher.repair()
	}
	for _, e := range t.expired {
		if err := l.leaseExpired(e); err != nil {
			return err
		}
	}
	for i := range t.beats {
		l.heard(&t.beats[i], now)
	}
	for _, typ := range t.types {
		l.makeConsumers(typ)
	}
	if t.sweep {
		l.nextSweep = now
	}
	return nil
}

// registryChanged looks at the lanes anew: those whose last worker has gone
// get back what nobody has pulled.
func (l *loop) registryChanged(now time.Time) {
	clear(l.slots)
	l.nextWorker = l.registry.expire(now)
	for key, n := range l.table.byLane {
		if n > 0 && l.laneSlots(key) == 0 {
			l.withdraw(key)
		}
	}
	for t := range l.ready.types {
		l.dirty[t] = true
	}
	if h := l.cfg.Hooks.Workers; h != nil {
		h(l.registry.list())
	}
}

// withdraw takes back what was dispatched to a lane that has no worker.
func (l *loop) withdraw(key laneKey) {
	l.noteAcks()
	for _, d := range l.table.byToken {
		if (laneKey{d.typ, d.lane}) != key {
			continue
		}
		if !d.claimed && !d.lingering {
			l.pusher.deleteMsg(d.seq)
			l.putBack(d)
		}
	}
}

// noteAcks notes where the messages pushed since the last call went.
func (l *loop) noteAcks() {
	l.acks = l.signals.takeAcks(l.acks)
	for _, a := range l.acks {
		if d := l.table.byToken[a.token]; d != nil {
			d.seq = a.seq
		}
	}
}

// makeConsumers makes the consumers of all lanes that a type has.
func (l *loop) makeConsumers(typ events.Type) {
	set, _ := l.state.Settings(typ)
	l.pusher.ensureConsumer(laneKey{typ, ""}, set.Lease(), false)
	for name := range l.ready.types[typ] {
		if name != "" {
			l.pusher.ensureConsumer(laneKey{typ, name}, set.Lease(), false)
		}
	}
}

// newLane makes the consumer of a lane with capabilities that is first used,
// and has the workers that serve it register again to hear of it.
func (l *loop) newLane(typ events.Type, lane string) {
	set, _ := l.state.Settings(typ)
	l.pusher.ensureConsumer(laneKey{typ, lane}, set.Lease(), true)
}

// dispatchLost: the dispatch stream is gone with all its messages.
func (l *loop) dispatchLost(now time.Time) {
	l.log.Warn("the dispatch stream was deleted: dispatching anew", "dispatched", l.table.total())
	for _, d := range l.table.byToken {
		if !d.claimed && !d.lingering {
			l.putBack(d)
		} else if !d.orphan {
			l.table.orphaned(d, now)
		}
	}
	l.watchOrphans(now)
}

// leaseExpired handles the server's word that a dispatch was neither acked nor
// renewed in time.
func (l *loop) leaseExpired(e expiry) error {
	l.pusher.deleteMsg(e.seq)
	d := l.table.byToken[e.token]
	if d != nil && d.id == e.id && !d.claimed && !d.lingering && l.isQueued(d) {
		l.putBack(d)
		return nil
	}
	if d != nil && d.lingering {
		l.letGo(d)
		return nil
	}
	return l.expire(e.id, e.token)
}

// expire ends the run under a token, whose lease has run out.
func (l *loop) expire(id events.ID, token events.Token) error {
	if !l.room() {
		l.signals.leaseExpired(expiry{id: id, token: token})
		return nil
	}
	dec, it, err := l.decide(events.ExpireLease{ID: id, Token: token, Random: random()})
	if fatal(err) != nil {
		return err
	}
	if it != nil && !dec.Repeat {
		l.log.Warn("a lease expired", "id", id, "type", it.Type, "attempt", it.Attempt, "trace", it.Trace)
		if h := l.cfg.Hooks.LeaseExpired; h != nil {
			h(it.Type)
		}
	}
	return nil
}

// heard notes what a worker says that it runs: it keeps the leases whose
// message is gone, and shows which cancelled runs it has let go.
func (l *loop) heard(h *wire.Heartbeat, now time.Time) {
	runs := make(map[events.Token]bool, len(h.InFlight))
	for _, r := range h.InFlight {
		if tok, err := wire.ParseToken(r.Token); err == nil {
			runs[tok] = true
		}
	}
	for tok := range runs {
		if d := l.table.byToken[tok]; d != nil && string(d.worker) == h.Worker {
			d.heard = now
		}
	}
	for _, d := range l.table.byToken {
		if d.lingering && string(d.worker) == h.Worker && !runs[d.token] {
			l.letGo(d)
		}
	}
}

// watchOrphans sees to it that orphans are looked at in time.
func (l *loop) watchOrphans(now time.Time) {
	next := time.Time{}
	for _, d := range l.table.orphans {
		set, _ := l.state.Settings(d.typ)
		end := d.heard.Add(set.Lease())
		if !end.After(now) {
			end = now.Add(time.Millisecond)
		}
		if next.IsZero() || end.Before(next) {
			next = end
		}
	}
	l.nextOrphan = next
}

// expireOrphans ends the runs whose message is gone and whose worker has been
// silent for a lease.
func (l *loop) expireOrphans(now time.Time) error {
	for _, d := range l.table.orphans {
		set, _ := l.state.Settings(d.typ)
		if d.heard.Add(set.Lease()).After(now) {
			continue
		}
		if d.lingering {
			l.letGo(d)
			continue
		}
		if !l.room() {
			break
		}
		if err := l.expire(d.id, d.token); err != nil {
			return err
		}
		d.heard = now // until the decision is durable and frees it
	}
	l.watchOrphans(now)
	return nil
}
