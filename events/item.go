package events

import "time"

// Item is a work item as its events have left it. Params, result and the
// provenances merged into it are kept beside it (see [Base]), so that a
// change of state does not rewrite them.
//
// An Item that has left [State] is immutable.
type Item struct {
	ID             ID
	Type           Type
	State          ItemState
	Priority       Priority
	Attempt        Attempt // runs begun
	MaxAttempts    Attempt
	Timeout        time.Duration
	Worker         WorkerID // of the current or last claim
	Token          Token    // of the current or last claim
	DedupKey       string
	IdempotencyKey string
	Capabilities   []string
	Tenant         string
	Labels         map[string]string
	Provenance     Provenance
	Trace          string
	Digest         string
	MergedInto     ID
	MergedCount    int // items merged into this one
	IntakeSeq      uint64

	CreatedAt   time.Time
	QueuedAt    time.Time // last queued
	OrderAt     time.Time // its place among those of its type and priority
	AvailableAt time.Time // may run at the earliest; zero: at once
	ClaimedAt   time.Time
	StartBy     time.Time
	StartedAt   time.Time
	Deadline    time.Time
	FinishedAt  time.Time

	Error     string // of the last failure
	Code      string
	Retryable bool
	Reason    string // why it is in this state, where that needs saying
	HasResult bool

	Group       string        // what fairness and limits per key go by; see [TypeSettings.GroupBy]
	DedupWindow time.Duration // how long its dedup key stays taken once it has completed
	HoldsKey    bool          // it is the holder of its dedup key
	ExpiresAt   time.Time     // not started by then, it is cancelled; zero: never
	OwnAttempts bool          // the submission said how many attempts, not the type
	LeasesLost  int           // runs that ended with a lost lease
	Probe       bool          // its run is one of those that try a half-open circuit
	// HasCheckpoint says that a run has saved one; see [DocCheckpoint].
	HasCheckpoint bool
	Progress      Progress // of the current or last run
	Cause         string   // of its death: see [CauseOf]; empty unless dead
	Relations     *Relations

	CreatedSeq Seq
	BaseSeq    Seq // of its created, or of the last carried that re-states it
	Seq        Seq // of the last event that touched it
}

// Progress is how far a run says it has come.
type Progress struct {
	Percent int       `json:"percent"` // 0 to 100
	Message string    `json:"message,omitempty"`
	At      time.Time `json:"at,omitzero"` // zero: none was reported
}

// Lane is the consumer lane that serves the item: the shared lane ("") for an
// item without capabilities.
func (it *Item) Lane() string { return LaneOf(it.Capabilities) }

// HoldsDedup reports whether the item keeps its dedup key taken.
func (it *Item) HoldsDedup() bool {
	return it != nil && it.HoldsKey && it.DedupKey != "" && it.State != StateCreated && !it.State.Terminal()
}

// relations returns a copy of the item's relations, the zero value for none.
func (it *Item) relations() Relations {
	if it.Relations == nil {
		return Relations{}
	}
	return *it.Relations
}

// TimerAt is the moment at which something is due for the item, the zero time
// for none: a queued item's AvailableAt, a claimed one's StartBy, a running
// one's Deadline. Once passed, [Due] says what it means.
func (it *Item) TimerAt() time.Time {
	switch it.State {
	case StateQueued:
		return it.AvailableAt
	case StateClaimed:
		return it.StartBy
	case StateRunning:
		return it.Deadline
	}
	return time.Time{}
}

// ExpiryAt is the moment at which an item that has not started expires, the zero
// time for none. It is a timer beside [Item.TimerAt]. An item that has used an
// attempt, or has spawned, has started; one that was handed back has not.
func (it *Item) ExpiryAt() time.Time {
	if r := it.Relations; r != nil && r.Spawns > 0 {
		return time.Time{}
	}
	switch it.State {
	case StateQueued, StateWaiting:
		if it.Attempt == 0 {
			return it.ExpiresAt
		}
	case StateClaimed:
		if it.Attempt == 1 {
			return it.ExpiresAt
		}
	}
	return time.Time{}
}

// HeldKey is a name that leads to an item until some time, or (zero Until) for
// as long as the item holds it.
type HeldKey struct {
	Ref   KeyRef
	ID    ID // zero for kinds that lead to no item
	Until time.Time
	N     int64 // for kinds that count
}

// KeyKind says what a [HeldKey] is for.
type KeyKind uint8

// The kinds of keys.
const (
	KeyDedup       KeyKind = 'd' // held while its item is live, and for its dedup window once that has completed
	KeyIdempotency KeyKind = 'i' // held for IdempotencyWindow
	KeyMsgID       KeyKind = 'm' // held for MsgIDWindow; Type is empty
	KeyRate        KeyKind = 'r' // a rate limit's theoretical arrival time, in Until
	KeyGroup       KeyKind = 'c' // how many of a group run, in N
)

// KeyRef names a key.
type KeyRef struct {
	Kind KeyKind
	Type Type
	Key  string
}

// TypeInfo is what is known of a type.
type TypeInfo struct {
	Type     Type
	Settings TypeSettings
	Source   string                 // of the settings: default, file, api
	Counts   [NumStates]int64       // items by state
	Queued   [MaxPriority + 1]int64 // queued items by priority
	Paused   *Pause                 // nil: it is not
	Circuit  Circuit
}

// Meta is the partition's own record.
type Meta struct {
	Applied   Seq       // last event folded in
	LastAt    time.Time // its time
	Epoch     Epoch
	Owner     string
	IntakeSeq uint64 // last intake message answered
	Rejected  int64  // rejected submissions, counted
	Merges    int64
}

// MergedEntry is one submission that was merged into an item.
type MergedEntry struct {
	Into       ID
	Seq        Seq // of the merged event
	ID         ID
	At         time.Time
	Provenance Provenance
}
