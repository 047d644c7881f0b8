package wire

import (
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/events"
)

// What a worker that speaks HTTP says and hears. Its reports are [Report]s.

// WorkerRegistration announces a worker over HTTP.
type WorkerRegistration struct {
	Worker       string   `json:"worker,omitempty"` // empty: the server names it
	Types        []string `json:"types"`
	Capabilities []string `json:"capabilities,omitempty"`
	Slots        int      `json:"slots"`
	Host         string   `json:"host,omitempty"`
	Version      string   `json:"version,omitempty"`
	// Probe says that the worker waits for probes, and answers them: see ProbeWait.
	Probe bool `json:"probe,omitempty"`
}

// WorkerSession answers a WorkerRegistration.
type WorkerSession struct {
	Worker    string                     `json:"worker"`
	Session   string                     `json:"session"` // a secret of the worker's
	Heartbeat events.Duration            `json:"heartbeat_ms"`
	Lease     map[string]events.Duration `json:"lease_ms"` // by type
}

// Poll asks for work.
type Poll struct {
	Session string `json:"session"`
	Max     int    `json:"max,omitempty"` // items; 0: as many as there are slots free
	// Wait is how long it waits for work; nil: the default. With 0 it waits for the
	// engine's answer alone, for up to 100 ms.
	Wait *events.Duration `json:"wait_ms,omitempty"`
	// PollID names the poll, so that it can be repeated when its reply was lost: the
	// same request returns the same items, until another poll, or a report or a
	// heartbeat of one of them, shows that they have come. At most 64 bytes, new for
	// each poll; empty: it can't be repeated.
	PollID string `json:"poll_id,omitempty"`
}

// Polled answers a Poll.
type Polled struct {
	Items       []PolledItem `json:"items"`
	ShouldDrain bool         `json:"should_drain"`
	Status      WorkerStatus `json:"status,omitempty"` // if it is not active
	Reason      string       `json:"reason,omitempty"` // why
}

// PolledItem is an item that the worker runs. Its start is reported within
// 5 seconds, or with its end. Only a repeated poll returns items that have started; these have a Deadline.
type PolledItem struct {
	ID      string            `json:"id"`
	Type    string            `json:"type"`
	Attempt int               `json:"attempt"`
	Token   string            `json:"token"`
	Lease   events.Duration   `json:"lease_ms"`
	Timeout events.Duration   `json:"timeout_ms,omitzero"`
	Labels  map[string]string `json:"labels,omitempty"`
	Trace   string            `json:"traceparent,omitempty"`

	Deadline time.Time `json:"deadline,omitzero"`
	Left

	Params json.RawMessage `json:"params"` // last, for readers that are no JSON parsers
}

// WorkerHeartbeat renews the leases of the runs that it names.
type WorkerHeartbeat struct {
	Session  string   `json:"session"`
	InFlight []RunRef `json:"in_flight,omitempty"`
	Health   *Health  `json:"health,omitempty"`
}

// WorkerOrders answers a WorkerHeartbeat. A run that is in neither list continues,
// and its lease is renewed.
type WorkerOrders struct {
	ShouldDrain bool            `json:"should_drain"`
	Heartbeat   events.Duration `json:"heartbeat_ms"`     // how often to send a heartbeat from now on
	Cancel      []RunRef        `json:"cancel,omitempty"` // runs that must stop: the item was cancelled, or has moved on
	Lost        []RunRef        `json:"lost,omitempty"`   // runs that are not the worker's any more, or never were
	Status      WorkerStatus    `json:"status,omitempty"`
	Reason      string          `json:"reason,omitempty"`
}

// ProbeWait waits for the engine to ask a worker whether it is well. It carries the
// answer to the probe before: without failing checks, a good one.
type ProbeWait struct {
	Session string           `json:"session"`
	Nonce   string           `json:"nonce,omitempty"` // of the probe that is answered; empty: none is
	Failing []FailingCheck   `json:"failing,omitempty"`
	Wait    *events.Duration `json:"wait_ms,omitempty"` // nil: the default
}

// ProbeAsked answers a ProbeWait.
type ProbeAsked struct {
	Nonce string `json:"nonce,omitempty"` // of a probe to be answered at once; empty: there was none in time
}

// WorkerLogs are log records that a worker writes, at most 1,000.
type WorkerLogs struct {
	Session string          `json:"session"`
	Records []WorkerLogLine `json:"records"`
}

// WorkerLogLine is a record of an item's log.
type WorkerLogLine struct {
	ID      string    `json:"id"`   // of the item
	Type    string    `json:"type"` // of the item
	At      time.Time `json:"at,omitzero"`
	Level   string    `json:"level,omitempty"` // debug, info (also if it is left out), warn, error
	Attempt int       `json:"attempt,omitempty"`
	Message string    `json:"message"` // what is beyond 8 KiB is cut
}

// WorkerOutput is a chunk of the output of an item that a worker runs.
type WorkerOutput struct {
	Session string `json:"session"`
	OutputWrite
}
