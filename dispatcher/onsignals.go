package dispatcher

import (
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// onSignals handles the signals that other goroutines have left.
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
		if d := l.table.ByToken[tok]; d != nil && !d.Again { // the first of two may have arrived
			back, err := l.flight.putBack(d)
			if err != nil {
				return err
			}
			if back {
				l.flight.returned(d.Type, wire.RecoveryDispatchLost, 1)
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
	for _, w := range slices.Sorted(maps.Keys(t.Beats)) { // in order: a simulation can be repeated
		if err := l.leases.heard(w, t.Beats[w], now); err != nil {
			return err
		}
	}
	for w, o := range t.Offers {
		l.assigner.offered(w, o.Session, o.Room)
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

// registryChanged looks at the lanes anew. If a lane's last worker has gone, what nobody
// has pulled is taken back.
func (wf *workforce) registryChanged(now time.Time) error {
	clear(wf.slots)
	wf.nextWorker = wf.registry.Expire(now)
	wf.l.table.Held.SetActive(wf.registry.Active())
	if err := wf.l.assigner.registryChanged(); err != nil {
		return err
	}
	for key, n := range wf.l.table.ByLane {
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
	had := f.l.table.ByLane[key]
	err := f.withdrawIf(func(d *table.Dispatch) bool { return !d.Native && lanes.Key{Type: d.Type, Name: d.Lane} == key })
	f.returned(key.Type, wire.RecoveryWorkerGone, had-f.l.table.ByLane[key])
	return err
}

// returned reports dispatches that were taken back to the hook.
func (f *flight) returned(t events.Type, why string, n int) {
	if h := f.l.cfg.Hooks.Returned; h != nil {
		for range n {
			h(t, why)
		}
	}
}

// noteAcks notes the sequences of the messages pushed since the last call.
func (f *flight) noteAcks() {
	f.stored = f.l.signals.TakeAcks(f.stored)
	if len(f.stored) > 0 {
		f.holdFor = 0
	}
	for _, a := range f.stored {
		if d := f.l.table.ByToken[a.Token]; d != nil && a.Native {
			f.l.acked.nativeStored(d, a.Seq)
		} else if d != nil {
			d.Seq = a.Seq
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

// pushFailed holds all dispatching, longer each time until a push succeeds, and has the
// stream repaired.
func (f *flight) pushFailed(now time.Time) {
	f.holdFor = min(max(2*f.holdFor, minHold), maxHold)
	f.hold = now.Add(f.holdFor)
	f.l.out.Repair()
}

// dispatchLost handles the loss of the dispatch stream with all its messages.
func (f *flight) dispatchLost(now time.Time) error {
	f.l.cfg.Logger.Warn("the dispatch stream was deleted: dispatching anew", "dispatched", f.l.table.Total())
	f.noteAcks()
	for d := range table.InOrder(f.l.table.ByToken) {
		if d.Native {
			continue
		}
		d.Seq = 0
		back, err := f.putBack(d)
		if err != nil {
			return err
		}
		if back {
			f.returned(d.Type, wire.RecoveryDispatchLost, 1)
		} else if !d.Orphan {
			f.l.table.Orphaned(d, now)
		}
	}
	f.l.leases.watchOrphans(now)
	f.l.out.Repair()
	return nil
}

// lateExpiries handles expired leases, while the batch has room.
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

// leaseExpired handles the server's advisory that a dispatch was neither acked nor renewed
// in time.
func (le *leases) leaseExpired(e natsio.Expiry) error {
	le.l.out.DeleteMsg(e.Seq)
	if d := le.l.table.ByToken[e.Token]; d != nil && d.ID == e.ID {
		if early, err := le.expiredEarly(d); early || err != nil {
			return err
		}
		if d.Lingering {
			le.l.flight.letGo(d)
			return nil
		}
		back, err := le.l.flight.putBack(d)
		if back {
			le.l.flight.returned(d.Type, wire.RecoveryUnclaimed, 1)
		}
		if back || err != nil {
			return err
		}
	}
	return le.expire(e.ID, e.Token)
}

// expiredEarly keeps a run whose worker was told a longer lease than the server uses; from
// here on the worker's heartbeats keep it.
func (le *leases) expiredEarly(d *table.Dispatch) (bool, error) {
	if !le.lentLonger(d) {
		return false, nil
	}
	if free, err := le.l.flight.unclaimed(d); free || err != nil {
		return false, err
	}
	if !d.Orphan {
		le.l.table.Orphaned(d, d.LeaseFrom())
		le.watchOrphans(le.l.clock.Now())
	}
	return true, nil
}

// expire ends the run under a token because its lease has expired. REQUIRES: room.
func (le *leases) expire(id events.ID, token events.Token) error {
	c := core.ExpireLease{ID: id, Token: token, Random: random()}
	if d := le.l.table.ByToken[token]; d != nil {
		c.Heard, c.Heartbeat = d.Heard, le.heartbeat(d)
	}
	dec, it, err := le.l.decide(c)
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

// heard notes the runs in a worker's heartbeat. It keeps the leases whose message is gone,
// and shows which cancelled runs the worker has let go.
func (le *leases) heard(w events.WorkerID, runs map[events.Token]bool, now time.Time) error {
	for tok := range runs {
		if d := le.l.table.ByToken[tok]; d != nil && d.Worker == w {
			d.Heard = now
		}
	}
	for _, d := range le.l.table.Lingering {
		if d.Worker == w && !runs[d.Token] {
			le.l.flight.letGo(d)
		}
	}
	return le.l.assigner.heard(w, runs)
}

// watchOrphans sets the time at which orphans must be looked at next.
func (le *leases) watchOrphans(now time.Time) {
	le.nextOrphan = time.Time{}
	for _, d := range le.l.table.Orphans {
		le.nextOrphan = clock.Sooner(le.nextOrphan, clock.Later(d.LeaseFrom().Add(le.leaseOf(d)), now.Add(time.Millisecond)))
	}
}

// expireOrphans ends the runs whose message is gone and whose worker has been silent for a
// lease.
func (le *leases) expireOrphans(now time.Time) error {
	for d := range table.InOrder(le.l.table.Orphans) {
		if d.LeaseFrom().Add(le.leaseOf(d)).After(now) {
			continue
		}
		if d.Lingering {
			le.l.flight.letGo(d)
			continue
		}
		if !le.l.pipe.room() {
			break
		}
		if err := le.expire(d.ID, d.Token); err != nil {
			return err
		}
		d.KeptFrom = now // until the decision is durable and frees it
	}
	le.watchOrphans(now)
	return nil
}
