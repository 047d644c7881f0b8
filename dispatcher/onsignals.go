package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// onSignals handles what other goroutines have left.
func (l *loop) onSignals() error {
	t := l.signals.Take()
	if t.Reload {
		return errReload
	}
	now := l.clock.Now()
	if t.Registry {
		if err := l.workforce.registryChanged(now); err != nil {
			return err
		}
	}
	if t.Lost {
		if err := l.flight.dispatchLost(now); err != nil {
			return err
		}
	}
	if len(t.Failed) > 0 {
		l.cfg.Logger.Warn("items could not be dispatched: trying again", "items", len(t.Failed))
		l.flight.pushFailed(now)
	}
	for _, tok := range t.Failed {
		if d := l.table.byToken[tok]; d != nil && !d.again { // the first of two may have arrived
			back, err := l.flight.putBack(d)
			if err != nil {
				return err
			}
			if back {
				l.flight.returned(d.typ, wire.RecoveryDispatchLost, 1)
			}
		}
	}
	if err := l.flight.spent(t.Spent, now); err != nil {
		return err
	}
	l.leases.late = append(l.leases.late, t.Expired...)
	if err := l.leases.lateExpiries(); err != nil {
		return err
	}
	if err := l.acked.nativeSignals(&t, now); err != nil {
		return err
	}
	for w, runs := range t.Beats {
		l.leases.heard(w, runs, now)
	}
	for typ := range t.Types {
		l.leases.makeConsumers(typ, false)
	}
	if err := l.workforce.consumersFound(t.Lanes); err != nil {
		return err
	}
	if t.Cut > 0 {
		l.retention.CutDone(t.Cut)
	}
	if t.Sweep {
		l.sweeper.next = now
	}
	return nil
}

// RegistryChanged looks at the lanes anew: those whose last worker has gone
// get back what nobody has pulled.
func (wf *workforce) registryChanged(now time.Time) error {
	clear(wf.slots)
	wf.nextWorker = wf.registry.Expire(now)
	wf.l.table.held.setActive(wf.registry.Active())
	for key, n := range wf.l.table.byLane {
		if n > 0 && wf.laneSlots(key) == 0 {
			if err := wf.l.flight.withdraw(key); err != nil {
				return err
			}
		}
	}
	wf.l.ready.Offers(wf.registry.Offers())
	for _, t := range wf.l.state.TypeNames() {
		wf.l.sender.dirty[t] = true
	}
	if h := wf.l.cfg.Hooks.Workers; h != nil {
		h(wf.registry.List())
	}
	return nil
}

// withdraw takes back what was dispatched to a lane that has no worker.
func (f *flight) withdraw(key lanes.Key) error {
	had := f.l.table.byLane[key]
	err := f.withdrawIf(func(d *dispatched) bool { return !d.native && lanes.Key{Type: d.typ, Name: d.lane} == key })
	f.returned(key.Type, wire.RecoveryWorkerGone, had-f.l.table.byLane[key])
	return err
}

// returned tells of dispatches that are taken back.
func (f *flight) returned(t events.Type, why string, n int) {
	if h := f.l.cfg.Hooks.Returned; h != nil {
		for range n {
			h(t, why)
		}
	}
}

// noteAcks notes where the messages pushed since the last call went.
func (f *flight) noteAcks() {
	f.stored = f.l.signals.TakeAcks(f.stored)
	if len(f.stored) > 0 {
		f.holdFor = 0
	}
	for _, a := range f.stored {
		if d := f.l.table.byToken[a.Token]; d != nil && a.Native {
			f.l.acked.nativeStored(d, a.Seq)
		} else if d != nil {
			d.seq = a.Seq
		} else if a.Native {
			f.l.acked.nativeStray(a.Seq)
		} else {
			f.l.out.DeleteMsg(a.Seq) // it was taken back meanwhile
		}
	}
}

// The wait before anything is dispatched again after a push has failed.
const (
	minHold = 10 * time.Millisecond
	maxHold = 2 * time.Second
)

// PushFailed holds what is to be dispatched, longer each time until a push
// succeeds, and has the stream looked at.
func (f *flight) pushFailed(now time.Time) {
	f.holdFor = min(max(2*f.holdFor, minHold), maxHold)
	f.hold = now.Add(f.holdFor)
	f.l.out.Repair()
}

// DispatchLost: the dispatch stream is gone with all its messages.
func (f *flight) dispatchLost(now time.Time) error {
	f.l.cfg.Logger.Warn("the dispatch stream was deleted: dispatching anew", "dispatched", f.l.table.total())
	f.noteAcks()
	for _, d := range f.l.table.byToken {
		if d.native {
			continue
		}
		d.seq = 0
		back, err := f.putBack(d)
		if err != nil {
			return err
		}
		if back {
			f.returned(d.typ, wire.RecoveryDispatchLost, 1)
		} else if !d.orphan {
			f.l.table.orphaned(d, now)
		}
	}
	f.l.leases.watchOrphans(now)
	f.l.out.Repair()
	return nil
}

// lateExpiries handles expired leases as far as the batch has room.
func (le *leases) lateExpiries() error {
	for len(le.late) > 0 && le.l.pipe.room() {
		e := le.late[0]
		if le.late = le.late[1:]; len(le.late) == 0 {
			le.late = nil
		}
		if err := le.leaseExpired(e); err != nil {
			return err
		}
	}
	return nil
}

// LeaseExpired handles the server's word that a dispatch was neither acked nor
// renewed in time.
func (le *leases) leaseExpired(e natsio.Expiry) error {
	le.l.out.DeleteMsg(e.Seq)
	if d := le.l.table.byToken[e.Token]; d != nil && d.id == e.ID {
		if early, err := le.expiredEarly(d); early || err != nil {
			return err
		}
		if d.lingering {
			le.l.flight.letGo(d)
			return nil
		}
		back, err := le.l.flight.putBack(d)
		if back {
			le.l.flight.returned(d.typ, wire.RecoveryUnclaimed, 1)
		}
		if back || err != nil {
			return err
		}
	}
	return le.expire(e.ID, e.Token)
}

// expiredEarly keeps a run whose worker was told a longer lease than the server
// goes by: from here on its worker's heartbeats do.
func (le *leases) expiredEarly(d *dispatched) (bool, error) {
	if !le.lentLonger(d) {
		return false, nil
	}
	if free, err := le.l.flight.unclaimed(d); free || err != nil {
		return false, err
	}
	if !d.orphan {
		le.l.table.orphaned(d, clock.Later(d.heard, d.at))
		le.watchOrphans(le.l.clock.Now())
	}
	return true, nil
}

// expire ends the run under a token, whose lease has run out. REQUIRES: room.
func (le *leases) expire(id events.ID, token events.Token) error {
	dec, it, err := le.l.decide(core.ExpireLease{ID: id, Token: token, Random: random()})
	if fatal(err) != nil {
		return err
	}
	if it != nil && !dec.Repeat {
		le.l.cfg.Logger.Warn("a lease expired", "id", id, "type", it.Type, "attempt", it.Attempt, "trace", it.Trace)
		if h := le.l.cfg.Hooks.LeaseExpired; h != nil {
			h(it.Type)
		}
	}
	return nil
}

// heard notes what a worker says that it runs: it keeps the leases whose
// message is gone, and shows which cancelled runs it has let go.
func (le *leases) heard(w events.WorkerID, runs map[events.Token]bool, now time.Time) {
	for tok := range runs {
		if d := le.l.table.byToken[tok]; d != nil && d.worker == w {
			d.heard = now
		}
	}
	for _, d := range le.l.table.lingering {
		if d.worker == w && !runs[d.token] {
			le.l.flight.letGo(d)
		}
	}
}

// watchOrphans sees to it that orphans are looked at in time.
func (le *leases) watchOrphans(now time.Time) {
	le.nextOrphan = time.Time{}
	for _, d := range le.l.table.orphans {
		le.nextOrphan = clock.Sooner(le.nextOrphan, clock.Later(d.heard.Add(le.leaseOf(d)), now.Add(time.Millisecond)))
	}
}

// expireOrphans ends the runs whose message is gone and whose worker has been
// silent for a lease.
func (le *leases) expireOrphans(now time.Time) error {
	for _, d := range le.l.table.orphans {
		if d.heard.Add(le.leaseOf(d)).After(now) {
			continue
		}
		if d.lingering {
			le.l.flight.letGo(d)
			continue
		}
		if !le.l.pipe.room() {
			break
		}
		if err := le.expire(d.id, d.token); err != nil {
			return err
		}
		d.heard = now // until the decision is durable and frees it
	}
	le.watchOrphans(now)
	return nil
}
