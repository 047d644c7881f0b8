package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// A worker is told its lease with each item, and its heartbeats, which name its runs, renew
// them. A run that no heartbeat has named for a lease has failed. When a type's lease
// becomes shorter, runs keep the one that their worker was told, and the type's workers are
// asked to register again, to learn how often a heartbeat is due. The messages of ack types
// have their lease from their consumer: see ackRuns.ackWait.

// leases follows the leases of types and runs. Owned by the loop.
type leases struct {
	l    *loop
	of   map[events.Type]time.Duration // as last seen
	next time.Time                     // when the next lease may end; zero: never
}

// typesChanged follows changes of types: their leases, and whatever lets them dispatch
// more.
func (le *leases) typesChanged(changed []events.TypeInfo) {
	for i := range changed {
		t := &changed[i]
		le.l.sender.dirty[t.Type] = true // its capacity may have changed
		le.l.sender.limitsMayHaveChanged(t)
		was, lease := le.of[t.Type], t.Settings.Lease()
		if le.of[t.Type] = lease; lease >= was || t.Settings.Ack() {
			continue
		}
		for _, w := range le.l.workforce.registry.Serving(t.Type) {
			le.l.out.Control(w, wire.Control{Register: true})
		}
	}
}

// leaseOf returns the lease of a dispatch: the one its worker was told, or the type's if
// that is longer.
func (le *leases) leaseOf(d *table.Dispatch) time.Duration {
	set, _ := le.l.state.Settings(d.Type)
	return max(d.Lease, set.Lease())
}

// ends returns when the lease of a dispatch ends.
func (le *leases) ends(d *table.Dispatch) time.Time { return d.LeaseFrom().Add(le.leaseOf(d)) }

// heard notes the runs in a worker's heartbeat. It renews their leases, and shows which
// ended runs the worker has let go.
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

// begin watches the lease of a dispatch that has begun.
func (le *leases) begin(d *table.Dispatch) { le.next = clock.Sooner(le.next, le.ends(d)) }

// watch sets the time at which leases must be looked at next.
func (le *leases) watch(now time.Time) {
	le.next = time.Time{}
	for _, d := range le.l.table.Leased {
		le.next = clock.Sooner(le.next, clock.Later(le.ends(d), now.Add(time.Millisecond)))
	}
}

// expireDue ends the runs whose worker has been silent for a lease, while the batch has
// room.
func (le *leases) expireDue(now time.Time) error {
	for d := range table.InOrder(le.l.table.Leased) {
		if le.ends(d).After(now) {
			continue
		}
		if d.Lingering {
			le.l.flight.letGo(d)
			continue
		}
		if !le.l.pipe.room() {
			break
		}
		if err := le.expire(d); err != nil {
			return err
		}
		d.KeptFrom = now // until the decision is durable and frees it
	}
	le.watch(now)
	return nil
}

// expire ends a run because its lease has ended. Its worker, which may be gone, is given
// nothing before it is heard of again. REQUIRES: room.
func (le *leases) expire(d *table.Dispatch) error {
	beat := min(le.l.cfg.Heartbeat, le.leaseOf(d)/beatsPerLease)
	dec, it, err := le.l.decide(core.ExpireLease{ID: d.ID, Token: d.Token, Heard: d.Heard, Heartbeat: beat, Random: random()})
	if fatal(err) != nil {
		return err
	}
	if it != nil && !dec.Repeat {
		le.l.assigner.seats.Rest(d.Worker)
		le.l.cfg.Logger.Warn("a lease expired", "id", d.ID, "type", it.Type, "attempt", it.Attempt, "trace", it.Trace)
		if h := le.l.cfg.Hooks.LeaseExpired; h != nil {
			h(it.Type)
		}
	}
	return nil
}
