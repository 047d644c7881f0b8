package dispatcher

import (
	"sync/atomic"

	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/events"
)

// hold says why nothing new is begun; empty: new work is begun.
type hold struct {
	why  string
	full bool // nor made: there is no room for it
}

// halt holds back new work. Any goroutine may set it.
type halt struct{ now atomic.Pointer[hold] }

func (h *halt) set(to hold) { h.now.Store(&to) }

func (h *halt) get() hold {
	if h == nil {
		return hold{}
	}
	if now := h.now.Load(); now != nil {
		return *now
	}
	return hold{}
}

// reason returns why nothing new is begun, empty if new work is begun.
func (h *halt) reason() string { return h.get().why }

// noRoom refuses new items, if there is no room for them.
func (h *halt) noRoom() *events.Error {
	if now := h.get(); now.full {
		return events.Refuse(events.CodeUnavailable, "no item may be spawned now: %s", now.why)
	}
	return nil
}

func (h *halt) on() bool { return h.reason() != "" }

// HoldDispatch stops everything that begins new work. why is the reason then
// given for waiting items; an empty one lets work go on. It holds dispatching, schedules,
// follow-ups of ended items, and the rounds and passes of retention, but
// not the cut after a round that has ended. Running items are still reported, time out and
// are cancelled: the hold keeps room for that. If there is no room (full), it holds
// spawned children too. It applies to later ownerships too.
func (d *Dispatcher) HoldDispatch(why string, full bool) {
	to := hold{why, full && why != ""}
	if d.halt.get() == to {
		return
	}
	d.halt.set(to)
	d.whenOwner(lookAgain)()
}

// PauseIntake stops, or resumes, the reading of the intake stream. Published messages stay
// in the stream, which pushes back on publishers at its limit. What the loop has already
// taken is decided, and everything else goes on. It applies to later ownerships too.
func (d *Dispatcher) PauseIntake(paused bool) {
	d.paused.Store(paused)
	d.whenOwner(lookAgain)()
}

func lookAgain(s *natsio.Signals) { s.Leave(func(*natsio.Taken) {}) }
