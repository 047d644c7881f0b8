package dispatcher

// PauseIntake stops, or starts again, the reading of the intake stream: what is
// published stays there, and the stream pushes back on publishers at its limit.
// What the loop has taken already is decided, and everything else goes on. It
// holds for later ownerships too.
func (e *Engine) PauseIntake(paused bool) {
	e.paused.Store(paused)
	if s := e.signals.Load(); s != nil {
		s.leave(func(*taken) {}) // the loop looks again
	}
}
