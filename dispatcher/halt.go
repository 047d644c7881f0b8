package dispatcher

import (
	"sync/atomic"

	"github.com/streamwright/streamwright/dispatcher/natsio"
)

// halt holds the reason why nothing new is begun; empty: new work is begun. Any goroutine
// may set it.
type halt struct{ why atomic.Pointer[string] }

func (h *halt) set(why string) { h.why.Store(&why) }

// reason returns why nothing new is begun, empty if new work is begun.
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

// HoldDispatch stops everything that makes new work or begins it. why is the reason then
// given for waiting items; an empty one lets work go on. It holds dispatching, schedules,
// spawned children, follow-ups of ended items, and the rounds and passes of retention, but
// not the cut after a round that has ended. Running items are still reported, time out and
// are cancelled: the hold keeps room for that. It applies to later ownerships too.
func (e *Engine) HoldDispatch(why string) {
	if e.halt.reason() == why {
		return
	}
	e.halt.set(why)
	e.whenOwner(lookAgain)()
}

// PauseIntake stops, or resumes, the reading of the intake stream. Published messages stay
// in the stream, which pushes back on publishers at its limit. What the loop has already
// taken is decided, and everything else goes on. It applies to later ownerships too.
func (e *Engine) PauseIntake(paused bool) {
	e.paused.Store(paused)
	e.whenOwner(lookAgain)()
}

func lookAgain(s *natsio.Signals) { s.Leave(func(*natsio.Taken) {}) }
