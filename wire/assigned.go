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
	// Ask says that earlier runs have left something for this one: the worker reports
	// the start before it runs the item, and the answer has it.
	Ask bool `json:"ask,omitempty"`
	// Bytes is the length of Params, for readers that are no JSON parsers.
	Bytes  int             `json:"bytes"`
	Params json.RawMessage `json:"params"`
}

// MaxAssignedBytes is the size from which a message of assigned items takes no further
// one.
const MaxAssignedBytes = 256 << 10
