package events

import (
	"slices"
	"strings"
	"time"
)

// Item is a work item as its events have left it. Params, result and the
// provenances merged into it are kept beside it (see [core.Base]), so that a
// change of state does not rewrite them.
//
// An Item that has left [core.State] is immutable.
type Item struct {
	ID             ID                `json:"id"`
	Type           Type              `json:"type"`
	State          ItemState         `json:"state"`
	Priority       Priority          `json:"priority"`
	Attempt        Attempt           `json:"attempt,omitzero"`      // runs begun
	MaxAttempts    Attempt           `json:"max_attempts,omitzero"` // the limit that applied to the last failure, at first the one it was submitted with; it counts AttemptsBefore and Spared in
	Timeout        time.Duration     `json:"timeout_ns,omitzero"`
	Worker         WorkerID          `json:"worker,omitzero"` // of the current or last claim
	Token          Token             `json:"token,omitzero"`  // of the current or last claim
	DedupKey       string            `json:"dedup_key,omitzero"`
	IdempotencyKey string            `json:"idempotency_key,omitzero"`
	Capabilities   []string          `json:"capabilities,omitzero"`
	Tenant         string            `json:"tenant,omitzero"`
	Labels         map[string]string `json:"labels,omitzero"`
	Provenance     Provenance        `json:"provenance,omitzero"`
	SubmittedBy    string            `json:"submitted_by,omitzero"` // as the access layer knew; of a child, who submitted its parent
	Trace          string            `json:"trace,omitzero"`
	Digest         string            `json:"digest,omitzero"`
	MergedInto     ID                `json:"merged_into,omitzero"`
	MergedCount    int               `json:"merged_count,omitzero"` // items merged into this one
	IntakeSeq      uint64            `json:"intake_seq,omitzero"`

	CreatedAt   time.Time `json:"created_at,omitzero"`
	QueuedAt    time.Time `json:"queued_at,omitzero"`    // last queued
	OrderAt     time.Time `json:"order_at,omitzero"`     // its place among the items of its type and priority
	AvailableAt time.Time `json:"available_at,omitzero"` // may run at the earliest; zero: at once
	WaitsFrom   time.Time `json:"waits_from,omitzero"`   // AvailableAt is a wait from then; zero: a moment that somebody named
	ClaimedAt   time.Time `json:"claimed_at,omitzero"`
	StartBy     time.Time `json:"start_by,omitzero"`
	StartedAt   time.Time `json:"started_at,omitzero"`
	Deadline    time.Time `json:"deadline,omitzero"`
	FinishedAt  time.Time `json:"finished_at,omitzero"`

	Error     string `json:"error,omitzero"` // of the last failure
	Code      string `json:"code,omitzero"`
	Retryable bool   `json:"retryable,omitzero"`
	Reason    string `json:"reason,omitzero"` // why it is in this state, where that needs saying
	HasResult bool   `json:"has_result,omitzero"`

	Group          string        `json:"group,omitzero"`            // what fairness and limits per key go by; see [TypeSettings.GroupBy]
	DedupWindow    time.Duration `json:"dedup_window_ns,omitzero"`  // how long its dedup key stays taken once it has completed
	HoldsKey       bool          `json:"holds_key,omitzero"`        // it is the holder of its dedup key
	ExpiresAt      time.Time     `json:"expires_at,omitzero"`       // not started by then, it is cancelled; zero: never, or it has started
	Estimate       time.Duration `json:"estimate_ns,omitzero"`      // how long a run is likely to take, as its submission says; 0: it does not
	OwnAttempts    bool          `json:"own_attempts,omitzero"`     // its submission or replay chose MaxAttempts
	OwnTimeout     bool          `json:"own_timeout,omitzero"`      // its submission chose Timeout
	AttemptsBefore Attempt       `json:"attempts_before,omitempty"` // those made before it was last replayed
	LeasesLost     int           `json:"leases_lost,omitzero"`      // runs that ended with a lost lease
	Spared         Attempt       `json:"spared,omitzero"`           // attempts lost early with their worker since it was last replayed: each raises the limit by one
	Probe          bool          `json:"probe,omitzero"`            // its run is a trial of a half-open circuit
	// HasCheckpoint says that a run has saved one; see [DocCheckpoint].
	HasCheckpoint bool       `json:"has_checkpoint,omitzero"`
	Progress      Progress   `json:"progress,omitzero"` // of the current or last run
	Cause         string     `json:"cause,omitzero"`    // of its death: see [policy.CauseOf]; empty unless dead
	Relations     *Relations `json:"relations,omitzero"`
	Signals       *Signals   `json:"signals,omitzero"` // nil: none has come, and it has not waited for any

	MsgID      string `json:"msg_id,omitzero"` // of the message that it came with
	CreatedSeq Seq    `json:"created_seq,omitzero"`
	BaseSeq    Seq    `json:"base_seq,omitzero"` // of its created, or of the last carried that re-states it
	Seq        Seq    `json:"seq,omitzero"`      // of the last event that touched it
	// PrunedSeq is the position of its pruned, in a store that keeps what is pruned; 0
	// otherwise. No event has it.
	PrunedSeq Seq `json:"-"`
}

// Progress is a run's last report of how far it has come.
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

// TimerAt is the moment at which something is due for the item, the zero time
// for none: a queued item's AvailableAt, a claimed one's StartBy, a running
// one's Deadline, the end of a wait. Once passed, [core.Due] says what it means.
func (it *Item) TimerAt() time.Time {
	switch it.State {
	case StateQueued:
		return it.AvailableAt
	case StateClaimed:
		return it.StartBy
	case StateRunning:
		return it.Deadline
	case StateWaiting:
		if w := it.Wait(); w != nil {
			return w.timerAt()
		}
	}
	return time.Time{}
}

// ExpiryAt is the moment at which an item that has not started expires, the zero
// time for none. It is a timer beside [Item.TimerAt].
func (it *Item) ExpiryAt() time.Time {
	switch it.State {
	case StateQueued, StateWaiting, StateClaimed:
		return it.ExpiresAt
	}
	return time.Time{}
}

// HeldKey is a name that leads to an item until some time, or (zero Until) for
// as long as the item holds it.
type HeldKey struct {
	Ref   KeyRef    `json:"ref"`
	ID    ID        `json:"id,omitzero"` // zero for kinds that lead to no item
	Until time.Time `json:"until,omitzero"`
	N     int64     `json:"n,omitzero"` // for kinds that count
	// Digest is of the content that ID was submitted with, for idempotency keys.
	Digest string `json:"digest,omitzero"`
}

// KeyKind says what a [HeldKey] is for.
type KeyKind uint8

// The kinds of keys.
const (
	KeyDedup       KeyKind = 'd' // held while its item is live, and for its dedup window once that has completed
	KeyIdempotency KeyKind = 'i' // held for IdempotencyWindow
	KeyMsgID       KeyKind = 'm' // held for MsgIDWindow; see Meta.KeyTime
	KeyRate        KeyKind = 'r' // a rate limit's theoretical arrival time, in Until
	KeyGroup       KeyKind = 'c' // how many of a group run, in N
)

// KeyRef names a key.
type KeyRef struct {
	Kind KeyKind `json:"kind"`
	Type Type    `json:"type,omitzero"`
	Key  string  `json:"key"`
}

// TypeInfo describes a type: its settings, counters, pause and circuit.
type TypeInfo struct {
	Type     Type                   `json:"type"`
	Settings TypeSettings           `json:"settings"`
	Source   string                 `json:"source,omitzero"` // of the settings: default, file, api
	Counts   [NumStates]int64       `json:"counts,omitzero"` // items by state
	Queued   [MaxPriority + 1]int64 `json:"queued,omitzero"` // queued items by priority
	Paused   *Pause                 `json:"paused,omitzero"` // nil: it is not
	Circuit  Circuit                `json:"circuit,omitzero"`
}

// Meta is the partition's own record.
type Meta struct {
	Applied   Seq       `json:"applied"`          // last event folded in
	Events    uint64    `json:"events"`           // in the log up to it, those that were cut off included
	LastAt    time.Time `json:"last_at,omitzero"` // its time
	Epoch     Epoch     `json:"epoch,omitzero"`
	Owner     string    `json:"owner,omitzero"`
	IntakeSeq uint64    `json:"intake_seq,omitzero"` // last intake message answered
	Rejected  int64     `json:"rejected,omitzero"`   // rejected submissions, counted
	Merges    int64     `json:"merges,omitzero"`
	// MsgIDAt is the publish time of the last answered message with an id:
	// message ids expire by it.
	MsgIDAt time.Time `json:"msg_id_at,omitzero"`
	Pruned  int64     `json:"pruned,omitzero"`
	// Sites holds, for each site, the last message of its stream that was answered. It is
	// sorted by name, and never changed in place.
	Sites []SitePosition `json:"sites,omitzero"`

	// Ahead is the latest time of any event, if the clock was set back since and
	// has not come there again: items may have times up to it.
	Ahead time.Time `json:"ahead,omitzero"`
	// SetBackAt is the event that last set the clock back, and SetBackTo its time.
	SetBackAt Seq       `json:"set_back_at,omitzero"`
	SetBackTo time.Time `json:"set_back_to,omitzero"`
	// SetBackBy is how far it was set back then.
	SetBackBy time.Duration `json:"set_back_by_ns,omitzero"`

	// The log's own life: see [Snapshot].
	Round       uint64    `json:"round,omitzero"`        // the last that has begun
	RoundAt     Seq       `json:"round_at,omitzero"`     // where the one under way began; 0: none is
	RoundBefore uint64    `json:"round_before,omitzero"` // the events in the log before that
	CutAt       Seq       `json:"cut_at,omitzero"`       // where the last complete one began: the log may be cut below
	CutBefore   uint64    `json:"cut_before,omitzero"`   // the events in the log before that
	CutEnd      Seq       `json:"cut_end,omitzero"`      // and where it ended
	CutTime     time.Time `json:"cut_time,omitzero"`
	// Stale holds the sequences of the frames from CutAt on that are passed over: see
	// PassesOver. It is in order, and never changed in place.
	Stale []uint64 `json:"stale,omitzero"`
	// Level is the log's format level, 0 for 1, and LevelBy the version of the
	// program that raised it.
	Level   int    `json:"level,omitzero"`
	LevelBy string `json:"level_by,omitzero"`
	// Partial is set while a log that has been cut is read up to the end of the
	// round at its head: not everything that exists is known yet.
	Partial bool `json:"partial,omitzero"`
}

// PassesOver reports whether readers pass a frame over: its owner, of the epoch by, had been
// succeeded when it was stored, which only a fault of the log lets in.
func (m *Meta) PassesOver(frame uint64, by Epoch) bool {
	if frame > m.Applied.Frame() {
		return by < m.Epoch
	}
	_, stale := slices.BinarySearch(m.Stale, frame)
	return stale
}

// SitePosition is how far a site's stream has been answered.
type SitePosition struct {
	Site string `json:"site"`
	Seq  uint64 `json:"seq"`
}

// SiteSeq returns the last message of a site's stream that was answered.
func (m Meta) SiteSeq(site string) uint64 {
	if i, found := m.site(site); found {
		return m.Sites[i].Seq
	}
	return 0
}

func (m Meta) site(name string) (int, bool) {
	return slices.BinarySearchFunc(m.Sites, name, func(s SitePosition, name string) int { return strings.Compare(s.Site, name) })
}

// Answer moves the positions on past a message that an event answers.
func (m *Meta) Answer(in Intake) {
	m.IntakeSeq = max(m.IntakeSeq, in.Seq)
	if in.Site == "" || in.SiteSeq <= m.SiteSeq(in.Site) {
		return
	}
	m.Sites = slices.Clone(m.Sites)
	i, found := m.site(in.Site)
	if !found {
		m.Sites = slices.Insert(m.Sites, i, SitePosition{Site: in.Site})
	}
	m.Sites[i].Seq = in.SiteSeq
}

// KeyTime returns the time by which keys of a kind expire: the time of the last event;
// for message ids, the publish time of the last message with one. So however long
// messages lie in the intake stream before they are read, one that repeats another
// within the window finds its id.
func (m Meta) KeyTime(k KeyKind) time.Time {
	if k == KeyMsgID {
		return m.MsgIDAt
	}
	return m.LastAt
}

// MergedEntry is one submission that was merged into an item.
type MergedEntry struct {
	Into       ID         `json:"into,omitzero"`
	Seq        Seq        `json:"seq"` // of the merged event
	ID         ID         `json:"id"`
	At         time.Time  `json:"at,omitzero"`
	Provenance Provenance `json:"provenance,omitzero"`
}

// Unowned reports whether a key's kind follows from no item: what holds is
// restated by the end of a round, and by nothing else.
func (k KeyKind) Unowned() bool { return k != KeyDedup && k != KeyIdempotency && k != KeyMsgID }

// Waiting returns the number of the type's items that are queued or waiting.
func (t TypeInfo) Waiting() int64 { return t.Counts[StateQueued] + t.Counts[StateWaiting] }

// Runs returns the number of the type's items that are claimed or running.
func (t TypeInfo) Runs() int64 { return t.Counts[StateClaimed] + t.Counts[StateRunning] }

// LaneOf names the consumer lane for a set of capabilities: sorted, joined
// with "_"; the empty set's is "" (the shared lane).
func LaneOf(capabilities []string) string {
	if len(capabilities) == 0 {
		return ""
	}
	c := slices.Clone(capabilities)
	slices.Sort(c)
	return strings.Join(slices.Compact(c), "_")
}

// Relations are an item's ties to others. Values are copied on write; the
// slices in them are never written.
type Relations struct {
	// Parent spawned the item, in its spawn number Spawn.
	Parent ID  `json:"parent,omitzero"`
	Spawn  int `json:"spawn,omitempty"`

	// Waits are the items that a waiting one waits for and that have not ended
	// yet. Policy says what a bad end of one does.
	Waits  []ID        `json:"waits,omitempty"`
	Policy AfterPolicy `json:"after_policy,omitempty"`
	// Behind is the one of Waits that it waits for because of its dedup key:
	// it is queued however that one ends.
	Behind ID `json:"behind,omitzero"`
	// Awaited counts the items that wait for this one.
	Awaited int `json:"awaited,omitempty"`

	// Spawns counts how often the item has spawned; Children are those of the
	// last time, Live and Failed how many of them have not ended, and have ended
	// dead or cancelled. Spawned says that the item waits for them.
	Spawns       int         `json:"spawns,omitempty"`
	Children     []ID        `json:"children,omitempty"`
	Live         int         `json:"live,omitempty"`
	Failed       int         `json:"failed,omitempty"`
	Spawned      bool        `json:"spawned,omitempty"` // Waits are then the items that children were merged into
	ChildPolicy  ChildPolicy `json:"child_policy,omitempty"`
	Continues    bool        `json:"continues,omitempty"`    // there is a continuation, or its run has come
	Continuation string      `json:"continuation,omitempty"` // its name
	HasChildren  bool        `json:"has_outcomes,omitempty"` // [DocOutcomes] holds how they ended

	// Of a spawn that is made in parts, and of a batch: Declared is how many
	// children there are to be (of a batch 0 while nobody has said), Made how many
	// there are so far. [DocChildren] lists those of a spawn, in place of Children;
	// those of a batch are known by their Parent alone.
	Declared  int    `json:"declared,omitempty"`
	Made      int    `json:"made,omitempty"`
	Part      int    `json:"part,omitempty"`      // parts of the spawn made so far
	Pending   string `json:"pending,omitempty"`   // reference of the document with the children to make, as JSON
	Cancelled int    `json:"cancelled,omitempty"` // how many of Failed were cancelled
	// Batch says that the item is a batch: it runs nothing, and ends with the
	// last of its items. Sealed says that the number of them is settled.
	Batch  bool   `json:"batch,omitempty"`
	Sealed bool   `json:"sealed,omitempty"`
	Name   string `json:"name,omitempty"` // of the batch

	// By is the item because of which it has ended: the one that superseded it,
	// that it waited for, or that it was a child of.
	By ID `json:"by,omitzero"`
}

// AfterPolicy says what becomes of an item that waits for one which ends dead
// or cancelled.
type AfterPolicy string

// The policies for what an item waits for; the empty one means AfterCancel.
const (
	AfterCancel AfterPolicy = "cancel" // it is cancelled
	AfterDead   AfterPolicy = "dead"   // it is dead
	AfterRun    AfterPolicy = "run"    // it runs all the same
)

// ChildPolicy says what a dead or cancelled child does to its parent.
type ChildPolicy string

// The policies for children; the empty one means ChildFail.
const (
	ChildFail     ChildPolicy = "fail"     // the parent is dead at once, its other children are cancelled
	ChildContinue ChildPolicy = "continue" // the continuation hears of it
)

// NeedsFollowUp reports whether something is still to be decided that follows
// from what has become of the item: [core.FollowUp] decides it. It is a function of
// the item alone, so that a restart finds again what a crash left undone.
func (it *Item) NeedsFollowUp() bool {
	r := it.Relations
	switch {
	case r == nil:
		return false
	case it.State == StateWaiting && r.Spawned:
		return r.Unmade() || r.Complete() && r.Live == 0 && len(r.Waits) == 0 || r.Failed > 0 && r.ChildPolicy != ChildContinue
	case it.State.Terminal():
		return r.Awaited > 0 || r.Live > 0
	}
	return false
}

// InParts reports whether the children are counted rather than listed.
func (r *Relations) InParts() bool { return r.Batch || r.Declared > 0 }

// Size returns the number of children: of the last spawn, or the items of
// the batch.
func (r *Relations) Size() int {
	if r.InParts() {
		return r.Made
	}
	return len(r.Children)
}

// Unmade reports whether children of a spawn are still to be made: by
// [core.SpawnPart], from the document that Pending refers to.
func (r *Relations) Unmade() bool { return r.Spawned && !r.Batch && r.Made < r.Declared }

// Complete reports whether no more children are to come.
func (r *Relations) Complete() bool { return (r.Sealed || !r.Batch) && r.Made >= r.Declared }

// BlockReason is one reason why an item is not running now, in words and as a
// stable code.
type BlockReason struct {
	Code    string    `json:"code"`
	Message string    `json:"message"`
	Until   time.Time `json:"until,omitzero"`  // when it passes by itself, where that is known
	Items   []ID      `json:"items,omitempty"` // the others that it is about, at most ten
	Ahead   int       `json:"ahead,omitempty"` // items in front of it, for WhyBehind
}

// The codes of block reasons. Those that no item is to blame for (capacity,
// workers, position) are the dispatcher's to find.
const (
	WhyEnded       = "ended"        // it is terminal
	WhyRunning     = "running"      // it is claimed or running
	WhyNotDue      = "not_due"      // delayed, or rescheduled
	WhyBackingOff  = "backing_off"  // after a failed attempt
	WhySnoozed     = "snoozed"      // its handler has put it off
	WhyWaiting     = "waiting_for"  // items that must end first
	WhyChildren    = "children"     // what it has spawned
	WhySignal      = "signal"       // a signal that has not come
	WhyPaused      = "paused"       // its type
	WhyCircuit     = "circuit_open" // of its type
	WhyRateLimited = "rate_limited"
	WhyGroupFull   = "group_at_capacity"
	WhyPoolFull    = "pool_at_capacity"
	WhyTypeFull    = "type_at_capacity"
	WhyEngineFull  = "engine_at_capacity"
	WhyNoWorker    = "no_worker"
	WhyNoCapable   = "no_capable_worker"
	WhyLanesFull   = "lanes_at_capacity"  // too many sets of capabilities at once
	WhyUnfit       = "workers_not_taking" // draining, unhealthy, or their circuit is open
	WhyBusy        = "workers_busy"
	WhyOnItsWay    = "dispatched" // on its way to a worker
	WhyBehind      = "behind"     // others go first
	WhyHeld        = "dispatch_held"
	WhyNoRoom      = "no_room" // on the engine's disk
	WhyReady       = "ready"   // nothing stands in its way: it is about to go
)
