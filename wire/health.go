package wire

import (
	"math"
	"slices"
	"strings"

	"github.com/streamwright/streamwright/events"
)

// WorkerStatus is the engine's view of a worker.
type WorkerStatus string

// The statuses of a worker. A draining one that is also unhealthy is draining.
const (
	WorkerActive    WorkerStatus = "active"
	WorkerDraining  WorkerStatus = "draining"  // takes no new work, for good
	WorkerUnhealthy WorkerStatus = "unhealthy" // takes no new work until it is well again
	WorkerDead      WorkerStatus = "dead"      // silent for too long
)

// WorkerStatuses are all of them.
var WorkerStatuses = []WorkerStatus{WorkerActive, WorkerDraining, WorkerUnhealthy, WorkerDead}

// Bounds of what a worker says of its health. What is beyond them is cut.
const (
	MaxFailingChecks = 16
	MaxCheckName     = 64  // bytes
	MaxCheckError    = 256 // bytes
)

// Health is a worker's report on itself.
type Health struct {
	// Failing are the worker's own checks that fail; with any it is unhealthy.
	Failing []FailingCheck `json:"failing,omitempty"`
	// MemoryBytes is the process's resident memory.
	MemoryBytes uint64 `json:"memory_bytes,omitempty"`
	// CPU is the part of all its processors that the process has used since
	// the last heartbeat, 0 to 1.
	CPU float64 `json:"cpu,omitempty"`
	// Load is the part of its slots that are taken, 0 to 1.
	Load float64 `json:"load,omitempty"`
}

// FailingCheck is a check that does not pass.
type FailingCheck struct {
	Check string `json:"check"`
	Error string `json:"error"`
}

// Reason says in one line what is wrong, empty if nothing is.
func (h *Health) Reason() string {
	if h == nil {
		return ""
	}
	failing := make([]string, len(h.Failing))
	for i, f := range h.Failing {
		failing[i] = f.Check + ": " + f.Error
	}
	return strings.Join(failing, "; ")
}

// Bounded returns h within its bounds: longer texts and lists are cut, and invalid
// numbers left out. It shares no list with h.
func (h *Health) Bounded() *Health {
	if h == nil {
		return nil
	}
	out := &Health{MemoryBytes: h.MemoryBytes, CPU: fraction(h.CPU), Load: fraction(h.Load)}
	out.Failing = slices.Clone(h.Failing[:min(len(h.Failing), MaxFailingChecks)])
	for i, f := range out.Failing {
		// Cloned, for what is cut must not be kept.
		out.Failing[i] = FailingCheck{Check: strings.Clone(events.CutText(f.Check, MaxCheckName)), Error: strings.Clone(events.CutText(f.Error, MaxCheckError))}
	}
	return out
}

func fraction(f float64) float64 {
	if math.IsNaN(f) {
		return 0
	}
	return min(max(f, 0), 1)
}

// Probe is the body of a message on a worker's probe subject: the engine asks
// whether the worker is well.
type Probe struct {
	Nonce string `json:"nonce"` // goes into the answer
}

// Probed answers a probe. One without failing checks is a good answer.
type Probed struct {
	Worker  string         `json:"worker"`
	Session string         `json:"session"`
	Nonce   string         `json:"nonce"` // of the probe
	Failing []FailingCheck `json:"failing,omitempty"`
}
