// Package standing has what the worker runtime and the HTTP bridge share of the worker
// protocol: a worker's standing with the engine, which messages are the engine's, and what its
// refusals mean.
package standing

import (
	"cmp"
	"time"

	"github.com/streamwright/streamwright/wire"
)

const (
	// DefaultHeartbeat is the time between two heartbeats until the engine says
	// another.
	DefaultHeartbeat = 20 * time.Second

	// MinHeartbeat is the shortest time between two heartbeats.
	MinHeartbeat = 100 * time.Millisecond
)

// Standing is one worker's latest standing with the engine, from the replies to its
// registration and heartbeats and from control messages. It is not safe for concurrent use.
type Standing struct {
	Registered bool          // the engine knows the worker
	Heard      time.Time     // when the engine last heard of the worker
	Every      time.Duration // between two heartbeats
	Draining   bool          // the worker is to take no new work; never taken back
	Status     wire.WorkerStatus
	Reason     string // of Status

	mayRest   time.Duration // how long a worker that has nothing may be silent, by the last reply; 0: no longer than Every
	announced time.Duration // by the heartbeat that is on its way; see Beat
	rest      time.Duration // announced by the last heartbeat, once it is answered: so long the engine waits

	asked  bool      // a heartbeat was asked for since the last was sent; see Ask
	rested time.Time // when a heartbeat was last left out; see Rest
}

// Due returns the time of the next heartbeat, or of the next look whether one is needed.
func (s *Standing) Due() time.Time {
	if s.rested.After(s.Heard) {
		return s.rested.Add(s.Every)
	}
	return s.Heard.Add(s.Every)
}

// Ask makes a heartbeat due at once, even if another one is on its way.
func (s *Standing) Ask() { s.Heard, s.rested, s.asked = time.Time{}, time.Time{}, true }

// Rest reports whether a worker that has nothing may leave out the heartbeat that is due,
// and if so puts it off. It may for as long as the last heartbeat announced, if that was
// answered: the engine counts from there, and does not know what it has let the worker do
// since.
func (s *Standing) Rest(now time.Time) bool {
	if !now.Before(s.Heard.Add(s.rest)) {
		return false
	}
	s.rested = now
	return true
}

// Beat notes that a heartbeat is sent, and returns how long a rest it must announce. An idle
// worker has nothing, and nothing is wrong with it.
func (s *Standing) Beat(idle bool) (rest time.Duration) {
	s.announced, s.rest, s.asked = 0, 0, false
	if idle {
		s.announced = s.mayRest
	}
	return s.announced
}

// Unhealthy returns why the engine takes the worker for unhealthy; empty: it does
// not.
func (s *Standing) Unhealthy() string {
	if s.Status != wire.WorkerUnhealthy {
		return ""
	}
	return cmp.Or(s.Reason, "the engine says so")
}

// Confirm follows from a registration that was sent at a time.
func (s *Standing) Confirm(r *wire.Registered, sent time.Time) {
	s.Registered, s.Heard, s.mayRest, s.rest = true, sent, 0, 0
	s.Every = cmp.Or(s.Every, DefaultHeartbeat)
	if r.Heartbeat.Duration > 0 {
		s.Every = max(r.Heartbeat.Duration, MinHeartbeat)
	}
}

// Beaten follows from the reply to the last heartbeat, which was sent at a time.
func (s *Standing) Beaten(r *wire.HeartbeatReply, sent time.Time) {
	if !s.asked {
		s.Heard = sent
	}
	s.rest, s.mayRest = s.announced, r.Idle.Duration
	s.Told(&wire.Control{Drain: r.ShouldDrain, Status: r.Status, Reason: r.Reason})
}

// Told follows from a control message. The runs that it cancels are the caller's
// to stop.
func (s *Standing) Told(c *wire.Control) {
	s.Draining = s.Draining || c.Drain
	if c.Status != "" {
		s.Status, s.Reason = c.Status, c.Reason
	}
	if c.Register {
		s.Registered = false
	}
}
