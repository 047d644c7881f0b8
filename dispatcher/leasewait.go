package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
)

// A lease is told to a worker with each message, and is kept by the consumer, whose
// ack-wait holds for all its messages, also those that are delivered. So when a
// type's lease becomes shorter, and the consumers get the shorter ack-wait at once,
// the server gives up the messages whose workers were told the longer one: they
// renew too seldom. What of these nobody has claimed is taken back before, and goes
// out again under the shorter lease. Runs keep the lease that their worker was told:
// from the server's word on, which comes too early, its heartbeats keep them, as
// they keep runs whose message was lost (see lentLonger). The workers are asked to
// register again, to hear how often a heartbeat is due.
//
// Native workers send no heartbeats. Their consumer gets the shorter ack-wait when
// nothing is left that was sent with the longer one.

// typesChanged follows what has changed about types: their leases, and what
// lets them dispatch more.
func (l *loop) typesChanged(changed []events.TypeInfo) error {
	for _, t := range changed {
		l.dirty[t.Type] = true // its capacity may be another
		l.sender.limitsMayHaveChanged(t)
		if err := l.leaseChanged(t.Type, t.Settings.Lease()); err != nil {
			return err
		}
	}
	return nil
}

func (l *loop) leaseChanged(t events.Type, lease time.Duration) error {
	was, known := l.ackWaits[t]
	switch {
	case !known:
		l.ackWaits[t] = lease // its consumers are made when a worker registers
	case lease > was:
		l.ackWaits[t] = lease
		l.makeConsumers(t, false)
	case lease < was && !l.nativesLentLonger(t, lease):
		l.ackWaits[t] = lease
		if err := l.flight.withdrawIf(func(d *dispatched) bool { return d.typ == t && !d.native && d.lease > lease }); err != nil {
			return err
		}
		l.makeConsumers(t, true)
	}
	return nil
}

// nativesLentLonger reports whether something of a type was sent to native workers
// with a longer lease.
func (l *loop) nativesLentLonger(t events.Type, lease time.Duration) bool {
	for _, d := range l.table.natives {
		if d.typ == t && d.lease > lease {
			return true
		}
	}
	return false
}

// nativeEnded applies a type's shorter lease once the last of what was sent to
// native workers with a longer one has ended.
func (l *loop) nativeEnded(d *dispatched) {
	set, _ := l.state.Settings(d.typ)
	if lease := set.Lease(); d.lease > lease && lease < l.ackWait(d.typ) && !l.nativesLentLonger(d.typ, lease) {
		l.ackWaits[d.typ] = lease
		l.makeConsumers(d.typ, true)
	}
}

// ackWait is what a type's consumers are to have now.
func (l *loop) ackWait(t events.Type) time.Duration {
	if lease, ok := l.ackWaits[t]; ok {
		return lease
	}
	set, _ := l.state.Settings(t)
	return set.Lease()
}

// leaseOf is the lease of a dispatch: what its worker was told, or what its
// consumer has if that is longer.
func (l *loop) leaseOf(d *dispatched) time.Duration { return max(d.lease, l.ackWait(d.typ)) }

// lentLonger reports whether the worker of a dispatch was told a longer lease than
// the consumer has: the server then takes it for lost too early.
func (l *loop) lentLonger(d *dispatched) bool { return d.lease > l.ackWait(d.typ) }

// makeConsumers makes the consumers of a type's open lanes; tell has its workers
// register again.
func (l *loop) makeConsumers(t events.Type, tell bool) {
	l.acked.makeNative(t)
	for name := range l.ready.OpenLanes(t) {
		l.out.EnsureConsumer(lanes.Key{Type: t, Name: name}, l.ackWait(t), false)
	}
	l.out.EnsureConsumer(lanes.Key{Type: t, Name: ""}, l.ackWait(t), tell)
}

// leases follows the leases of types and runs. Owned by the loop.
type leases struct {
	l *loop
}
