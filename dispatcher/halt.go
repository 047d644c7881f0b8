package dispatcher

import (
	"sync/atomic"

	"github.com/streamwright/streamwright/dispatcher/natsio"
)

// halt is why nothing new is begun; empty: it is. Any goroutine may set it.
type halt struct{ why atomic.Pointer[string] }

func (h *halt) set(why string) { h.why.Store(&why) }

// reason is why nothing new is begun, empty for no reason.
func (h *halt) reason() string {
	if h == nil {
		return ""
	}
	if why := h.why.Load(); why != nil {
		return *why
	}
	return ""
}

func (h *halt) on() bool { return h.reason() != "" }

// halted reports whether nothing new is begun.
func (l *loop) halted() bool { return l.halt.on() }

// HoldDispatch stops what makes new work or begins it, and gives the reason that
// items are then said to wait for; an empty one lets it go on. Held are
// dispatching, schedules, spawned children, what follows from items' ends, and
// the rounds and passes of retention, but not the cut behind a round that has
// ended. What runs is reported, times out and is cancelled as ever: what is held
// leaves the room for that. It holds for later ownerships too.
func (e *Engine) HoldDispatch(why string) {
	if e.halt.reason() == why {
		return
	}
	e.halt.set(why)
	e.whenOwner(lookAgain)()
}

// PauseIntake stops, or starts again, the reading of the intake stream: what is
// published stays there, and the stream pushes back on publishers at its limit.
// What the loop has taken already is decided, and everything else goes on. It
// holds for later ownerships too.
func (e *Engine) PauseIntake(paused bool) {
	e.paused.Store(paused)
	e.whenOwner(lookAgain)()
}

func lookAgain(s *natsio.Signals) { s.Leave(func(*natsio.Taken) {}) }
