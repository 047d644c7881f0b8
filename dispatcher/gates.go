package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// A pause or an open circuit is decided and recorded: see package events. The code here
// only follows it: nothing is dispatched that could not be claimed, and unclaimed
// dispatches are taken back.

// gates follows the pauses and circuits of types and workers.
type gates struct {
	l        *loop
	stopped  map[events.Type]bool // paused, or their circuit open
	circuits uint64               // State.CircuitVersion as the registry knows it
}

// changed follows the pauses and circuits of the changed types, and the circuits of
// workers.
func (g *gates) changed(types []events.TypeInfo) error {
	for i := range types {
		t := types[i].Type
		stopped := g.l.state.DispatchGate(t).Stopped
		if stopped == g.stopped[t] {
			continue
		}
		if !stopped {
			delete(g.stopped, t)
			g.l.acked.makeNative(t) // its consumer goes on
			continue
		}
		g.stopped[t] = true
		if err := g.l.flight.withdrawIf(func(d *table.Dispatch) bool { return d.Type == t && !d.Native }); err != nil {
			return err
		}
		g.l.acked.withdrawNatives(t)
	}
	if v := g.l.state.CircuitVersion(); v != g.circuits {
		g.circuits = v
		g.l.workforce.registry.Bench(g.l.state.OpenWorkerCircuits())
	}
	g.l.workforce.followDrains()
	return nil
}

// admitted returns how many more items of a type may be dispatched because of its gate;
// limited is false if there is no such bound.
func (g *gates) admitted(t events.Type) (n int, limited bool, err error) {
	gate := g.l.state.DispatchGate(t)
	if gate.Stopped || !gate.Limited {
		return 0, gate.Stopped, nil
	}
	n = gate.Probes
	for _, d := range g.l.table.ByToken { // rare: only while a circuit is half open
		if d.Type != t {
			continue
		}
		free, err := g.l.flight.unclaimed(d)
		if err != nil {
			return 0, true, err
		}
		if free {
			n--
		}
	}
	return n, true, nil
}

// due ends the pauses and half opens the circuits whose time has come, while the batch has
// room.
func (g *gates) due(now time.Time) error {
	for g.l.pipe.room() {
		var c core.Command
		if typ, at := g.l.state.NextPauseEnd(); clock.Passed(at, now) {
			c = core.DuePause{Type: typ}
		} else if ref, at := g.l.state.NextCircuit(); clock.Passed(at, now) {
			c = core.DueCircuit(ref)
		} else {
			return nil
		}
		if _, _, err := g.l.decide(c); err != nil {
			return err
		}
	}
	return nil
}

// next returns when the next pause ends by itself, or the next circuit half opens; zero for
// never.
func (g *gates) next() time.Time {
	_, pause := g.l.state.NextPauseEnd()
	_, circuit := g.l.state.NextCircuit()
	return clock.Sooner(pause, circuit)
}

// withdrawIf takes back the unclaimed dispatches that match.
func (f *flight) withdrawIf(match func(*table.Dispatch) bool) error {
	f.noteAcks()
	for d := range table.InOrder(f.l.table.ByToken) {
		if !match(d) {
			continue
		}
		back, err := f.putBack(d)
		if err != nil {
			return err
		}
		if back {
			f.l.out.DeleteMsg(d.Seq)
		}
	}
	return nil
}

// heldBack takes back a dispatch whose claim was refused by a pause, a circuit, or a full
// limit. It goes out again once the checks at dispatch allow it.
func (f *flight) heldBack(d *table.Dispatch, cmd core.Command, refusal error) error {
	claim, is := cmd.(core.Claim)
	if d == nil || !is || d.ID != claim.ID {
		return nil
	}
	switch events.CodeOf(refusal) {
	case events.CodePaused, events.CodeCircuitOpen, events.CodeRateLimited, events.CodeAtCapacity:
		return f.takeBack(d)
	}
	return nil
}
