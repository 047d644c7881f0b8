package wire

import "time"

// The verdicts on the NATS server's clock.
const (
	ClockPlausible = "plausible"
	ClockAhead     = "ahead"  // implausibly far ahead of all that is known
	ClockBehind    = "behind" // implausibly far behind the event log, or an earlier run
)

// Clock answers clock and clock_accept: the engine's time, and what it makes of
// the NATS server's.
type Clock struct {
	// Verdict is one of the Clock constants. What is not plausible is not
	// followed.
	Verdict    string    `json:"verdict"`
	EngineTime time.Time `json:"engine_time"` // by which everything is recorded
	ServerTime time.Time `json:"server_time"` // of the NATS server
	LastEvent  time.Time `json:"last_event,omitzero"`
	// KnownGood is when the server's clock was last plausible to an earlier process
	// of this engine.
	KnownGood    time.Time `json:"known_good,omitzero"`
	DifferenceMS int64     `json:"difference_ms"` // server_time less engine_time
	// MaxJumpMS is the setting max_clock_jump_ms; 0: any time of the server is
	// followed.
	MaxJumpMS int64     `json:"max_jump_ms"`
	Since     time.Time `json:"since,omitzero"` // of a verdict that is not plausible, by the engine's time
	Why       string    `json:"why,omitempty"`  // of the same, and what to do
	// Held names what rests until the clock is plausible or accepted.
	Held []string `json:"held,omitempty"`
}

// AcceptClock confirms the NATS server's clock: from then on it is the engine's.
type AcceptClock struct {
	By string `json:"by,omitempty"` // who confirms it, at most 256 bytes
}
