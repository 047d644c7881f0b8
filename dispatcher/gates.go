package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// A pause or an open circuit is decided and recorded: see package events. The code here
// only follows it: nothing is dispatched that could not be claimed, and messages of ack
// types that no worker has are taken back.

// gates follows the pauses and circuits of types.
type gates struct {
	*decider
	table   *table.Table
	stopped map[events.Type]bool // paused, or their circuit open
}

// changed follows the pause and the circuit of a type, and reports whether the type has
// been stopped, or goes on.
func (g *gates) changed(t events.Type) bool {
	stopped := g.state.DispatchGate(t).Stopped
	if stopped == g.stopped[t] {
		return false
	}
	if stopped {
		g.stopped[t] = true
	} else {
		delete(g.stopped, t)
	}
	return true
}

// admitted returns how many more items of a type may be dispatched because of its gate;
// limited is false if there is no such bound.
func (g *gates) admitted(t events.Type) (n int, limited bool, err error) {
	gate := g.state.DispatchGate(t)
	if gate.Stopped || !gate.Limited {
		return 0, gate.Stopped, nil
	}
	n = gate.Probes
	for _, d := range g.table.Acks { // rare: only while a circuit is half open
		if d.Type != t {
			continue
		}
		unseen, err := unseen(g.state, d)
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
	for g.room() {
		var c core.Command
		if typ, at := g.state.NextPauseEnd(); clock.Passed(at, now) {
			c = core.DuePause{Type: typ}
		} else if ref, at := g.state.NextCircuit(); clock.Passed(at, now) {
			c = core.DueCircuit(ref)
		} else {
			return nil
		}
		if _, _, err := g.decide(c); err != nil {
			return err
		}
	}
	return nil
}

// next returns when the next pause ends by itself, or the next circuit half opens; zero for
// never.
func (g *gates) next() time.Time {
	_, pause := g.state.NextPauseEnd()
	_, circuit := g.state.NextCircuit()
	return clock.Sooner(pause, circuit)
}
