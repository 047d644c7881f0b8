package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// What holds work back (a pause, an open circuit) is decided and recorded; see
// package events. Here it is only followed: nothing is dispatched that could not
// be claimed, and what is on its way and unclaimed is taken back.

// followGates follows the pauses and circuits of the types that have changed,
// and the circuits of workers.
func (l *loop) followGates(changed []events.TypeInfo) error {
	for i := range changed {
		t := changed[i].Type
		stopped := l.state.DispatchGate(t).Stopped
		if stopped == l.stopped[t] {
			continue
		}
		if !stopped {
			delete(l.stopped, t)
			l.acked.makeNative(t) // its consumer goes on
			continue
		}
		l.stopped[t] = true
		if err := l.flight.withdrawIf(func(d *dispatched) bool { return d.typ == t && !d.native }); err != nil {
			return err
		}
		l.acked.withdrawNatives(t)
	}
	if v := l.state.CircuitVersion(); v != l.circuits {
		l.circuits = v
		l.registry.Bench(l.state.OpenWorkerCircuits())
	}
	l.workforce.followDrains()
	return nil
}

// admitted is how many more items of a type may be dispatched because of its
// gate; limited is false if there is no such bound.
func (l *loop) admitted(t events.Type) (n int, limited bool, err error) {
	g := l.state.DispatchGate(t)
	if g.Stopped || !g.Limited {
		return 0, g.Stopped, nil
	}
	n = g.Probes
	for _, d := range l.table.byToken { // rare: only while a circuit is half open
		if d.typ != t {
			continue
		}
		free, err := l.flight.unclaimed(d)
		if err != nil {
			return 0, true, err
		}
		if free {
			n--
		}
	}
	return n, true, nil
}

// withdrawIf takes back those of the unclaimed dispatches that match.
func (f *flight) withdrawIf(match func(*dispatched) bool) error {
	f.noteAcks()
	for _, d := range f.l.table.byToken {
		if !match(d) {
			continue
		}
		back, err := f.putBack(d)
		if err != nil {
			return err
		}
		if back {
			f.l.out.DeleteMsg(d.seq)
		}
	}
	return nil
}

// heldBack takes back a dispatch whose claim was refused by a pause, a circuit,
// or for want of room. It goes out again once the checks at dispatch let it.
func (f *flight) heldBack(d *dispatched, cmd core.Command, refusal error) error {
	claim, is := cmd.(core.Claim)
	if d == nil || !is || d.id != claim.ID {
		return nil
	}
	switch events.CodeOf(refusal) {
	case events.CodePaused, events.CodeCircuitOpen, events.CodeRateLimited, events.CodeAtCapacity:
		return f.takeBack(d)
	}
	return nil
}

// dueCircuits half opens the circuits whose time has come, as far as the batch
// has room.
func (l *loop) dueCircuits(now time.Time) error {
	for l.room() {
		ref, at := l.state.NextCircuit()
		if !clock.Passed(at, now) {
			return nil
		}
		if _, _, err := l.decide(core.DueCircuit(ref)); err != nil {
			return err
		}
	}
	return nil
}

// nextCircuit is when the next circuit half opens, zero for never, or not before
// there is room.
func (l *loop) nextCircuit() time.Time {
	if !l.room() {
		return time.Time{}
	}
	_, at := l.state.NextCircuit()
	return at
}
