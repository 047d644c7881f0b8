package workers

import (
	"time"

	"github.com/nats-io/nats.go"
)

// What the tests in package workers_test need of the inside.

// Conn returns the worker's connection.
func (w *Worker) Conn() *nats.Conn { return w.nc }

// Draining reports whether the engine has asked the worker to drain.
func (w *Worker) Draining() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.phase == phaseDraining
}

// Hang has the worker hang until release is called.
func (w *Worker) Hang() (release func()) {
	w.mu.Lock()
	return w.mu.Unlock
}

// SetAbandonAfter sets another AbandonAfter, before Start.
func (w *Worker) SetAbandonAfter(d time.Duration) { w.abandonAfter = d }

// Ended reports whether the worker's loops have been told to end.
func (w *Worker) Ended() bool { return w.life.Err() != nil }

// OnCall has the worker hear a message to all workers.
func (w *Worker) OnCall(m *nats.Msg) { w.session.onCall(m) }

// MaxIdle bounds Idle.
const MaxIdle = maxIdle

// Idle returns the goroutines that wait for another handler to run.
func (w *Worker) Idle() int { return int(w.goroutines.idle.Load()) }
