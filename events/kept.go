package events

import (
	"encoding/json"
	"time"
)

// DocKind says what a document kept beside an item is.
type DocKind byte

// The kinds of documents.
const (
	DocParams     DocKind = 'p'
	DocResult     DocKind = 'r'
	DocCheckpoint DocKind = 'x' // what the last checkpointed run has saved
	DocOutcomes   DocKind = 'o' // how the children of the last spawn ended: a JSON array of Outcome
	DocChildren   DocKind = 'c' // the children of a spawn that is made in parts: a JSON array of ID
	DocMailbox    DocKind = 's' // the signals that have come: a [Mailbox]
	DocQuestion   DocKind = 'q' // what the last wait that asked something has asked: a [Question]
)

// DocKinds lists them all.
var DocKinds = [...]DocKind{DocParams, DocResult, DocCheckpoint, DocOutcomes, DocChildren, DocMailbox, DocQuestion}

// RecordKind says what a [Record] is of.
type RecordKind byte

// The kinds of records.
const (
	RecordSchedule RecordKind = 's'
	RecordWorker   RecordKind = 'w' // a worker's circuit
	RecordCause    RecordKind = 'c' // what items have died of
	RecordDrain    RecordKind = 'd' // that a worker is to drain
	// RecordNamespace is a [NamespaceInfo]; the default namespace has none.
	RecordNamespace RecordKind = 'n'
)

// Record is one of the few things, in number, that belong to the partition as a
// whole; all of them are in memory. Nil Data removes it.
type Record struct {
	Kind RecordKind      `json:"kind"`
	Key  string          `json:"key"`
	Data json.RawMessage `json:"data,omitempty"`
}

// Cause is a cause of death. Items share it if their type, reason, code and error
// text, with its numbers and ids left out, are the same.
type Cause struct {
	Type    Type      `json:"type"`
	Reason  string    `json:"reason"`
	Code    string    `json:"code,omitempty"`
	Error   string    `json:"error,omitempty"` // of the example
	Count   int64     `json:"count"`           // deaths, in all
	Dead    int64     `json:"dead"`            // of these items, how many are dead now
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Example ID        `json:"example"` // the last one
	// The window in which fast growth is noticed.
	WindowAt time.Time `json:"window_at,omitzero"`
	Window   int64     `json:"window,omitempty"`
	Noted    int64     `json:"noted,omitempty"` // the window's count when that was last noted
}

// CircuitState says whether a circuit lets work through.
type CircuitState string

// The states of a circuit. The zero one is closed: work goes through.
const (
	CircuitShut     CircuitState = "" // closed
	CircuitOpen     CircuitState = "open"
	CircuitHalfOpen CircuitState = "half_open"
)

func (s CircuitState) String() string {
	if s == CircuitShut {
		return "closed"
	}
	return string(s)
}

// Circuit is the circuit breaker of a type or of a worker. Values are copied on
// write; the slices in them are never written.
type Circuit struct {
	State  CircuitState `json:"state,omitempty"`
	At     time.Time    `json:"at,omitzero"`      // when it came into this state; zero: it was never in another
	Reason string       `json:"reason,omitempty"` // why it last opened; empty when it is closed

	Consecutive int `json:"consecutive,omitempty"` // failures in a row
	// The rolling window of the failure ratio: two halves, the older one first.
	WindowAt time.Time `json:"window_at,omitzero"` // when the newer half began
	Ended    [2]int    `json:"ended,omitzero"`
	Failed   [2]int    `json:"failed,omitzero"`

	Opens     int       `json:"opens,omitempty"`     // in a row, with no close between
	Until     time.Time `json:"until,omitzero"`      // open: when it becomes half open
	Probing   int       `json:"probing,omitempty"`   // runs under way that were begun to try it
	Succeeded int       `json:"succeeded,omitempty"` // half open: how many trials have succeeded
	LastAt    time.Time `json:"last_at,omitzero"`    // of its last failure

	// Of a type: the last event by which one of its items completed.
	LastOK Seq `json:"last_ok,omitempty"`

	// Of a worker: the event that began its failures in a row, the items that
	// have failed in a row, each once, and those whose run tries the circuit.
	Since  Seq  `json:"since,omitempty"`
	Items  []ID `json:"items,omitempty"`
	Trying []ID `json:"trying,omitempty"`
}

// Drain records that a worker is marked to drain.
type Drain struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
}
