package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// A pause or an open circuit is decided and recorded: see package events. The code here
// only follows it: nothing is dispatched that could not be claimed, and messages of ack
// types that no worker has are taken back.

// gates follows the pauses and circuits of types and workers.
type gates struct {
	l        *loop
	stopped  map[events.Type]bool // paused, or their circuit open
	circuits uint64               // State.CircuitVersion as the registry knows it
}

// changed follows the pauses and circuits of the changed types, and the circuits of
// workers.
func (g *gates) changed(types []events.TypeInfo) {
	for i := range types {
		t := types[i].Type
		stopped := g.l.state.DispatchGate(t).Stopped
		if stopped == g.stopped[t] {
			continue
		}
		if !stopped {
			delete(g.stopped, t)
			g.l.acked.make(t) // its consumer goes on
			continue
		}
		g.stopped[t] = true
		g.l.acked.withdraw(t)
	}
	if v := g.l.state.CircuitVersion(); v != g.circuits {
		g.circuits = v
		g.l.workforce.registry.Bench(g.l.state.OpenWorkerCircuits())
	}
	g.l.workforce.followDrains()
}

// admitted returns how many more items of a type may be dispatched because of its gate;
// limited is false if there is no such bound.
func (g *gates) admitted(t events.Type) (n int, limited bool, err error) {
	gate := g.l.state.DispatchGate(t)
	if gate.Stopped || !gate.Limited {
		return 0, gate.Stopped, nil
	}
	n = gate.Probes
	for _, d := range g.l.table.Acks { // rare: only while a circuit is half open
		if d.Type != t {
			continue
		}
		unseen, err := g.l.acked.unseen(d)
		if err != nil {
			return 0, true, err
		}
		if unseen {
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
