package wire

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Register announces a worker.
type Register struct {
	Worker       string   `json:"worker"`
	Types        []string `json:"types"`
	Capabilities []string `json:"capabilities,omitempty"`
	Slots        int      `json:"slots"`
	Host         string   `json:"host,omitempty"`
	Version      string   `json:"version,omitempty"`
	// Session names this life of the worker: letters, digits, - and _, at most MaxSession
	// bytes, new for each life. The worker listens on Names.RunsOf(Session), for items, before
	// it registers. An id that is alive under another session is refused with
	// worker_id_in_use.
	Session string `json:"session"`
	// Probe says that the worker listens on the subject Names.Probe, and answers.
	Probe bool `json:"probe,omitempty"`
	// Most bounds how many items of a type run at once in the worker, below Slots.
	Most map[string]int `json:"most,omitempty"`
	// Offers says that a free slot is no offer: the worker gets no more than it asks for
	// with Offer.
	Offers bool `json:"offers,omitempty"`
}

// MaxSession bounds Register.Session, in bytes.
const MaxSession = 64

// Offer says how many more items a worker takes that registered with Offers. It replaces the
// offer before, and each item that is sent takes one of it. An engine that becomes the owner
// knows of no offer.
type Offer struct {
	Worker  string `json:"worker"`
	Session string `json:"session"`
	Room    int    `json:"room"` // 0 to the worker's slots
}

// Registered answers a Register.
type Registered struct {
	Session   string                     `json:"session"`
	Heartbeat events.Duration            `json:"heartbeat_ms"`
	Lease     map[string]events.Duration `json:"lease_ms"` // by type
}

// Heartbeat keeps a worker registered, and renews the leases of the runs that it names. It
// carries the registration, so that an engine that has lost its registry learns it anew.
type Heartbeat struct {
	Register
	InFlight []RunRef `json:"in_flight,omitempty"`
	Health   *Health  `json:"health,omitempty"`
	// Idle says that the worker has nothing, that nothing is wrong with it, and that it
	// sends the next heartbeat within so many milliseconds unless that changes: at most the
	// Idle of the last reply. 0: it sends one each heartbeat_ms.
	Idle events.Duration `json:"idle_ms,omitzero"`
}

// RunRef names one run.
type RunRef struct {
	ID    string `json:"id"`
	Token string `json:"token"`
}

// HeartbeatReply answers a Heartbeat.
type HeartbeatReply struct {
	ShouldDrain bool     `json:"should_drain"`
	Cancel      []RunRef `json:"cancel,omitempty"` // runs that must stop
	// Status is the engine's view of the worker, and Reason explains it unless the
	// worker is active. An unhealthy worker is sent nothing.
	Status WorkerStatus `json:"status,omitempty"`
	Reason string       `json:"reason,omitempty"`
	// Idle is how long a worker may be silent that has nothing and with which nothing is
	// wrong; see Heartbeat. 0: it sends a heartbeat each heartbeat_ms even so.
	Idle events.Duration `json:"idle_ms,omitzero"`
	// Fence is the least token of this owner of the log. An assigned item that comes after
	// this reply and has a lesser token was sent by an earlier owner and has been taken back:
	// it must not run.
	Fence events.Token `json:"fence,omitzero"`
}

// Unregister takes a worker out.
type Unregister struct {
	Worker  string `json:"worker"`
	Session string `json:"session"`
}

// Drain asks a worker to finish what it runs and take no more.
type Drain struct {
	Worker string `json:"worker"`
	Reason string `json:"reason,omitempty"` // at most 256 bytes
	By     string `json:"by,omitempty"`     // at most 256 bytes
}

// Undrain ends the drain of a worker.
type Undrain struct {
	Worker string `json:"worker"`
	By     string `json:"by,omitempty"` // at most 256 bytes
}

// DrainMark records that a worker is to drain.
type DrainMark struct {
	Worker string    `json:"worker"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
}

// FromDrains lists marks in the order of the workers' ids.
func FromDrains(marks map[events.WorkerID]events.Drain) []DrainMark {
	out := make([]DrainMark, 0, len(marks))
	for _, w := range slices.Sorted(maps.Keys(marks)) {
		d := marks[w]
		out = append(out, DrainMark{Worker: string(w), At: d.At, Reason: d.Reason, By: d.By})
	}
	return out
}

// OK answers a request whose reply carries no data.
type OK struct {
	OK bool `json:"ok"`
}

// Control is the body of a message on a worker's control subject.
type Control struct {
	Cancel []RunRef `json:"cancel,omitempty"`
	Drain  bool     `json:"drain,omitempty"`
	// Register asks the worker to register again: the engine does not know it.
	Register bool `json:"register,omitempty"`
	// Status tells of a change that the worker's own heartbeats did not bring
	// about; see HeartbeatReply.
	Status WorkerStatus `json:"status,omitempty"`
	Reason string       `json:"reason,omitempty"`
	// Polls names the engine process at which a worker over HTTP polls from now on, for
	// the others: it is of no concern to workers.
	Polls string `json:"polls,omitempty"`
}

// The events of a Report.
const (
	ReportStart    = "start"
	ReportComplete = "complete"
	ReportFail     = "fail"
	ReportRelease  = "release"

	ReportSnooze     = "snooze"
	ReportSpawn      = "spawn"
	ReportProgress   = "progress"
	ReportCheckpoint = "checkpoint"
	ReportToken      = "token"
	ReportWait       = "wait"
)

// Report tells the engine about one run. Requests carry an array of reports,
// at most 1,000; they are decided in order, each on its own.
type Report struct {
	ID         string          `json:"id"`
	Token      string          `json:"token"`
	Worker     string          `json:"worker"`
	Session    string          `json:"session,omitempty"`
	Event      string          `json:"event"`
	Attempt    int             `json:"attempt,omitempty"` // 0: not said
	Start      bool            `json:"start,omitempty"`   // of an end, wait, snooze, spawn, progress, checkpoint or token: the run has started, which no report has said
	Result     json.RawMessage `json:"result,omitempty"`
	Strict     bool            `json:"strict,omitempty"` // of complete: refused while signals have come that the run was not given
	Error      string          `json:"error,omitempty"`
	Code       string          `json:"code,omitempty"`
	Retryable  *bool           `json:"retryable,omitempty"` // default true
	RetryAfter events.Duration `json:"retry_after_ms,omitzero"`
	Reason     string          `json:"reason,omitempty"`
	ReportFlow
}

// Reported answers a Report.
type Reported struct {
	OK       bool      `json:"ok"`
	Attempt  int       `json:"attempt,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"`
	// Timeout bounds the attempt, from its start.
	Timeout events.Duration `json:"timeout_ms,omitzero"`
	// State is that of the item. A refusal has it only where the run was cancelled.
	State    events.ItemState `json:"state,omitempty"`
	Position Position         `json:"position,omitempty"`
	Error    *Error           `json:"error,omitempty"`
}

// Left is what earlier runs of an item have left for this one: the data that one of them has
// saved; if the item has spawned, how its children ended; and if it has waited, how that ended.
type Left struct {
	Checkpoint   json.RawMessage `json:"checkpoint,omitempty"`
	Continuation *Continuation   `json:"continuation,omitempty"`
	Waited       *EndedWait      `json:"waited,omitempty"`
}

// Size is about what it takes in a message, in bytes.
func (l *Left) Size() int {
	n := len(l.Checkpoint)
	if l.Continuation != nil {
		n += len(l.Continuation.Children)
	}
	if l.Waited != nil {
		n += len(l.Waited.Signals)
	}
	return n
}

// Continuation tells a run how the children of an earlier run ended.
type Continuation struct {
	Name     string          `json:"name,omitempty"` // as the spawn said
	Children json.RawMessage `json:"children"`       // how they ended, in order: an array of [events.Outcome]
}

// WorkersReply lists the registered workers and the ones that died recently.
type WorkersReply struct {
	Workers []WorkerInfo `json:"workers"`
	Drains  []DrainMark  `json:"drains,omitempty"` // including those of workers that are not registered
}

// WorkerInfo is a registered worker; also the value in the work_workers bucket.
type WorkerInfo struct {
	Worker       string         `json:"worker"`
	Session      string         `json:"session"`
	Types        []string       `json:"types"`
	Capabilities []string       `json:"capabilities,omitempty"`
	Slots        int            `json:"slots"`
	InFlight     int            `json:"in_flight"` // items that it has claimed or runs
	Status       WorkerStatus   `json:"status"`
	Reason       string         `json:"reason,omitempty"`  // why it is unhealthy
	Health       *Health        `json:"health,omitempty"`  // as it last said itself
	Probe        bool           `json:"probe,omitempty"`   // whether it answers probes
	Offers       bool           `json:"offers,omitempty"`  // see Register
	Offered      int            `json:"offered,omitempty"` // by its last Offer; what was sent since has used some of it
	Most         map[string]int `json:"most,omitempty"`    // see Register
	ProbedAt     time.Time      `json:"probed_at,omitzero"`
	Version      string         `json:"version,omitempty"`
	Host         string         `json:"host,omitempty"`
	RegisteredAt time.Time      `json:"registered_at"`
	LastSeen     time.Time      `json:"last_seen"`
	DiedAt       time.Time      `json:"died_at,omitzero"`  // when it had been silent for too long
	Circuit      *Circuit       `json:"circuit,omitempty"` // nil: it is closed; in replies only
}
