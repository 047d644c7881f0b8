package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/events"
)

// ackWait is the lease that a type's consumers have. One that becomes shorter
// is announced with each message at once, and applied to the consumers only
// when the messages of before, which announced the longer one, have had their
// time: a consumer's ack-wait hits what is already pending.
type ackWait struct {
	applied time.Duration
	shorter time.Time // when the type's shorter lease is to be applied; zero: none
}

// typesChanged follows what has changed about types: their leases, and what
// lets them dispatch more.
func (l *loop) typesChanged(changed []events.TypeInfo) {
	for _, t := range changed {
		l.dirty[t.Type] = true // its capacity may be another
		l.limitsMayHaveChanged(t)
		lease := t.Settings.Lease()
		w, known := l.leases[t.Type]
		switch {
		case !known:
			l.leases[t.Type] = ackWait{applied: lease} // its consumers are made when a worker registers
		case lease > w.applied:
			l.leases[t.Type] = ackWait{applied: lease}
			l.makeConsumers(t.Type)
		case lease == w.applied:
			l.leases[t.Type] = ackWait{applied: lease}
		case w.shorter.IsZero():
			w.shorter = l.clock.now().Add(w.applied)
			l.leases[t.Type] = w
			l.nextLease = sooner(l.nextLease, w.shorter)
		}
	}
}

// shortenLeases applies the shorter leases whose time has come.
func (l *loop) shortenLeases(now time.Time) {
	l.nextLease = time.Time{}
	for t, w := range l.leases {
		if w.shorter.IsZero() {
			continue
		}
		if w.shorter.After(now) {
			l.nextLease = sooner(l.nextLease, w.shorter)
			continue
		}
		set, _ := l.state.Settings(t)
		l.leases[t] = ackWait{applied: set.Lease()}
		l.makeConsumers(t)
	}
}

// ackWait is what a type's consumers are to have now.
func (l *loop) ackWait(t events.Type) time.Duration {
	if w, ok := l.leases[t]; ok {
		return w.applied
	}
	set, _ := l.state.Settings(t)
	return set.Lease()
}

// makeConsumers makes the consumers of all lanes of a type that have workers.
func (l *loop) makeConsumers(t events.Type) {
	l.makeNative(t)
	for name := range l.ready.types[t] {
		if name != "" && len(l.registry.able(t, name)) > 0 {
			l.out.ensureConsumer(laneKey{t, name}, l.ackWait(t), false)
		}
	}
	l.out.ensureConsumer(laneKey{t, ""}, l.ackWait(t), false)
}

// newLane tells the workers that serve a lane with capabilities, which is first
// used, to register again and hear of it. If there is none its consumer is not
// made either: a stream has room for a bounded number of them.
func (l *loop) newLane(t events.Type, lane string) {
	if len(l.registry.able(t, lane)) > 0 { // also those that are unhealthy: they will be back
		l.out.ensureConsumer(laneKey{t, lane}, l.ackWait(t), true)
	}
}
