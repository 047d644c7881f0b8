package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
)

// A worker is told its lease with each message. The consumer keeps the lease by its
// ack-wait, which applies to all its messages, even delivered ones. So when a type's lease
// becomes shorter, and its consumers get the shorter ack-wait at once, the server gives up
// messages whose workers were told the longer lease: they renew too seldom. Such messages
// that nobody has claimed are taken back first, and go out again under the shorter lease.
// Runs keep the lease that their worker was told: once the server reports it expired, which
// is too early, the worker's heartbeats keep it, as they keep runs whose message was lost
// (see lentLonger). The workers are asked to register again, to learn how often a heartbeat
// is due.
//
// Native workers send no heartbeats. Their consumer gets the shorter ack-wait once nothing
// is left that was sent with the longer one.

// typesChanged follows changes of types: their leases, and whatever lets them dispatch
// more.
func (le *leases) typesChanged(changed []events.TypeInfo) error {
	for _, t := range changed {
		le.l.sender.dirty[t.Type] = true // its capacity may have changed
		le.l.sender.limitsMayHaveChanged(t)
		if err := le.leaseChanged(t.Type, t.Settings.Lease()); err != nil {
			return err
		}
	}
	return nil
}

func (le *leases) leaseChanged(t events.Type, lease time.Duration) error {
	was, known := le.ackWaits[t]
	switch {
	case !known:
		le.ackWaits[t] = lease // its consumers are made when a worker registers
	case lease > was:
		le.ackWaits[t] = lease
		le.makeConsumers(t, false)
	case lease < was && !le.nativesLentLonger(t, lease):
		le.ackWaits[t] = lease
		if err := le.l.flight.withdrawIf(func(d *table.Dispatch) bool { return d.Type == t && !d.Native && d.Lease > lease }); err != nil {
			return err
		}
		le.makeConsumers(t, true)
	}
	return nil
}

// nativesLentLonger reports whether any item of a type was sent to native workers with a
// longer lease.
func (le *leases) nativesLentLonger(t events.Type, lease time.Duration) bool {
	for _, d := range le.l.table.Natives {
		if d.Type == t && d.Lease > lease {
			return true
		}
	}
	return false
}

// nativeEnded applies a type's shorter lease once the last item that was sent to native
// workers with a longer one has ended.
func (le *leases) nativeEnded(d *table.Dispatch) {
	set, _ := le.l.state.Settings(d.Type)
	if lease := set.Lease(); d.Lease > lease && lease < le.ackWait(d.Type) && !le.nativesLentLonger(d.Type, lease) {
		le.ackWaits[d.Type] = lease
		le.makeConsumers(d.Type, true)
	}
}

// ackWait returns the ack-wait that a type's consumers should have now.
func (le *leases) ackWait(t events.Type) time.Duration {
	if lease, ok := le.ackWaits[t]; ok {
		return lease
	}
	set, _ := le.l.state.Settings(t)
	return set.Lease()
}

// leaseOf returns the lease of a dispatch: the one its worker was told, or its consumer's
// if that is longer.
func (le *leases) leaseOf(d *table.Dispatch) time.Duration { return max(d.Lease, le.ackWait(d.Type)) }

// heartbeat returns the longest time between two heartbeats of a dispatch's worker.
func (le *leases) heartbeat(d *table.Dispatch) time.Duration {
	return min(le.l.cfg.Heartbeat, le.leaseOf(d)/beatsPerLease)
}

// lentLonger reports whether the worker of a dispatch was told a longer lease than the
// consumer has: the server then gives the worker up too early.
func (le *leases) lentLonger(d *table.Dispatch) bool { return d.Lease > le.ackWait(d.Type) }

// makeConsumers makes the consumers of a type's open lanes; with tell, its workers are
// asked to register again.
func (le *leases) makeConsumers(t events.Type, tell bool) {
	le.l.acked.makeNative(t)
	for name := range le.l.ready.OpenLanes(t) {
		le.l.out.EnsureConsumer(lanes.Key{Type: t, Name: name}, le.ackWait(t), false)
	}
	le.l.out.EnsureConsumer(lanes.Key{Type: t, Name: ""}, le.ackWait(t), tell)
}

// leases follows the leases of types and runs. Owned by the loop.
type leases struct {
	l *loop

	ackWaits   map[events.Type]time.Duration // ack-waits of the types' consumers
	late       []natsio.Expiry               // expired leases that found no room in the batch
	nextOrphan time.Time                     // when an orphan's lease ends; zero: never
	since      time.Time                     // earlier advisories concern no dispatch: leases also end while nobody owns the log
}
