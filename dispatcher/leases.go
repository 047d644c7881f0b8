package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/registry"
	"github.com/streamwright/streamwright/dispatcher/seats"
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
	*decider
	table    *table.Table
	flight   *flight
	seats    *seats.Seats
	registry *registry.Registry
	out      effects
	cfg      *Config

	of   map[events.Type]time.Duration // as last seen
	next time.Time                     // when the next lease may end; zero: never
}

// typeChanged follows a type's lease.
func (le *leases) typeChanged(t *events.TypeInfo) {
	was, lease := le.of[t.Type], t.Settings.Lease.Duration
	if le.of[t.Type] = lease; lease >= was || t.Settings.Ack() {
		return
	}
	for _, w := range le.registry.Serving(t.Type) {
		le.out.Control(w, wire.Control{Register: true})
	}
}

// leaseOf returns the lease of a dispatch: the one its worker was told, or the type's if
// that is longer.
func (le *leases) leaseOf(d *table.Dispatch) time.Duration {
	set, _ := le.state.Settings(d.Type)
	return max(d.Lease, set.Lease.Duration)
}

// ends returns when the lease of a dispatch ends.
func (le *leases) ends(d *table.Dispatch) time.Time { return d.LeaseFrom().Add(le.leaseOf(d)) }

// heard notes the runs in a worker's heartbeat. It renews their leases, and shows which
// ended runs the worker has let go.
func (le *leases) heard(w events.WorkerID, runs map[events.Token]bool, now time.Time) {
	for tok := range runs {
		if d := le.table.ByToken[tok]; d != nil && d.Worker == w {
			d.Heard = now
		}
	}
	for _, d := range le.table.Lingering {
		if d.Worker == w && !runs[d.Token] {
			le.flight.letGo(d)
		}
	}
}

// begin watches the lease of a dispatch that has begun.
func (le *leases) begin(d *table.Dispatch) { le.next = clock.Sooner(le.next, le.ends(d)) }

// watch sets the time at which leases must be looked at next.
func (le *leases) watch(now time.Time) {
	le.next = time.Time{}
	for _, d := range le.table.Leased {
		le.next = clock.Sooner(le.next, clock.Later(le.ends(d), now.Add(time.Millisecond)))
	}
}

// expireDue ends the runs whose worker has been silent for a lease, while the batch has
// room.
func (le *leases) expireDue(now time.Time) error {
	for d := range table.InOrder(le.table.Leased) {
		if le.ends(d).After(now) {
			continue
		}
		if d.Lingering {
			le.flight.letGo(d)
			continue
		}
		if !le.room() {
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
	beat := min(le.cfg.Heartbeat, le.leaseOf(d)/beatsPerLease)
	dec, it, err := le.decide(core.ExpireLease{ID: d.ID, Token: d.Token, Heard: d.Heard, Heartbeat: beat, Random: random()})
	if fatal(err) != nil {
		return err
	}
	if it != nil && !dec.Repeat {
		le.seats.Rest(d.Worker)
		le.cfg.Logger.Warn("a lease expired", "id", d.ID, "type", it.Type, "attempt", it.Attempt, "trace", it.Trace)
		if h := le.cfg.Hooks.LeaseExpired; h != nil {
			h(it.Type)
		}
	}
	return nil
}
