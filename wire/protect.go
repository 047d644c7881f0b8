package wire

import (
	"time"

	"github.com/streamwright/streamwright/events"
)

// Pause holds the items of a type back until it is resumed, or until a time. For a
// paused type it changes that time.
type Pause struct {
	Type   string          `json:"type"`
	Reason string          `json:"reason,omitempty"`                  // at most 256 bytes
	By     string          `json:"by,omitempty"`                      // at most 256 bytes
	Until  time.Time       `json:"until,omitzero"`                    // when it ends by itself; at most one of Until and For
	For    events.Duration `json:"for_ms,omitzero" strict:"positive"` // from now on
}

// Resume ends a pause.
type Resume struct {
	Type string `json:"type"`
	By   string `json:"by,omitempty"`
}

// CircuitReset closes the circuit of a type, or of a worker: exactly one of them
// is given.
type CircuitReset struct {
	Type   string `json:"type,omitempty"`
	Worker string `json:"worker,omitempty"`
}

// TypeRemove forgets a type that nothing uses.
type TypeRemove struct {
	Type string `json:"type"`
}

// Changed answers a Pause, a Resume, a CircuitReset, a TypeRemove, an Undrain or a
// NodeRemove.
// Changed is false if there was nothing to change.
type Changed struct {
	Changed  bool     `json:"changed"`
	Position Position `json:"position,omitempty"`
}

// Circuit is a circuit that is not closed, as queries show it.
type Circuit struct {
	Worker  string    `json:"worker,omitempty"` // whose it is; empty: the type's
	State   string    `json:"state"`            // open, half_open
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason"`            // why it opened: consecutive, ratio, probe
	Until   time.Time `json:"until,omitzero"`    // open: when it becomes half open
	Opens   int       `json:"opens"`             // in a row
	Probing int       `json:"probing,omitempty"` // runs that try it
}

// FromCircuit returns a circuit as queries show it, nil if it is closed.
func FromCircuit(worker string, c events.Circuit) *Circuit {
	if c.State == events.CircuitShut {
		return nil
	}
	return &Circuit{Worker: worker, State: c.State.String(), Since: c.At, Reason: c.Reason, Until: c.Until, Opens: c.Opens, Probing: c.Probing}
}
