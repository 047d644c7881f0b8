package wire

import (
	"encoding/json"

	"github.com/streamwright/streamwright/events"
)

// Assigned is an item that the engine has claimed for a session of a worker, and sends to
// Names.RunOf. A message has an array of them.
type Assigned struct {
	ID      string            `json:"id"`
	Type    string            `json:"type"`
	Token   string            `json:"token"`
	Attempt int               `json:"attempt"`
	Lease   events.Duration   `json:"lease_ms"`
	Timeout events.Duration   `json:"timeout_ms,omitzero"`
	Trace   string            `json:"traceparent,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Left
	// Bytes is the length of Params, for readers that are no JSON parsers.
	Bytes  int             `json:"bytes"`
	Params json.RawMessage `json:"params"`
}

// MaxAssignedBytes is about what a message of several assigned items has at most. One alone may
// be larger: with the largest params and all that can be left for it, it has less than 4 MiB.
const MaxAssignedBytes = 256 << 10
