package events

import "time"

// CircuitState is whether a circuit lets work through.
type CircuitState string

// The states of a circuit. The zero one is closed: work goes through.
const (
	CircuitShut     CircuitState = "" // closed
	CircuitOpen     CircuitState = "open"
	CircuitHalfOpen CircuitState = "half_open"
)

// Circuit is the circuit breaker of a type or of a worker.
type Circuit struct {
	State       CircuitState `json:"state,omitempty"`
	Consecutive int          `json:"consecutive,omitempty"` // failures in a row
	// The rolling window of the failure ratio: two halves, the older one first.
	WindowAt time.Time `json:"window_at,omitzero"` // when the newer half began
	Ended    [2]int    `json:"ended,omitzero"`
	Failed   [2]int    `json:"failed,omitzero"`

	Opens     int       `json:"opens,omitempty"`     // in a row, with no close between
	Until     time.Time `json:"until,omitzero"`      // open: when it becomes half open
	Probing   int       `json:"probing,omitempty"`   // half open: runs that try it
	Succeeded int       `json:"succeeded,omitempty"` // half open: of those that have ended
	LastAt    time.Time `json:"last_at,omitzero"`    // of its last failure
}
