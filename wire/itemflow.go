package wire

import (
	"time"

	"github.com/streamwright/streamwright/events"
)

// MaxShownWaits bounds the items in ItemFlow.Waits.
const MaxShownWaits = 100

// ItemFlow holds an item's relations to other items, and its progress.
type ItemFlow struct {
	Parent string `json:"parent,omitempty"` // the item that spawned it
	// Waits are the items that it waits for and that have not ended, at most
	// MaxShownWaits of them; WaitsLeft counts them all.
	Waits     []string     `json:"waits,omitempty"`
	WaitsLeft int          `json:"waits_left,omitempty"`
	Awaited   int          `json:"awaited,omitempty"` // items that wait for this one
	Children  *ChildCounts `json:"children,omitempty"`
	Batch     *BatchCounts `json:"batch,omitempty"` // of a batch: how far it has come
	Progress  *Progress    `json:"progress,omitempty"`
	ExpiresAt time.Time    `json:"expires_at,omitzero"`
	// EstimatedDuration is the likely duration of a run, from its submission.
	EstimatedDuration events.Duration `json:"estimated_duration_ms,omitzero"`
	// Continues says that a run for the continuation has come, or comes once
	// the children have ended; Continuation is its name.
	Continues     bool            `json:"continues,omitempty"`
	Continuation  string          `json:"continuation,omitempty"`
	HasCheckpoint bool            `json:"has_checkpoint,omitempty"`
	DedupWindow   events.Duration `json:"dedup_window_ms,omitzero"`
	Group         string          `json:"group,omitempty"`
	// WaitsFor is the wait that the item is in, and UnreadSignals how many signals have
	// come that no run has used up.
	WaitsFor      *WaitShown `json:"waits_for,omitempty"`
	UnreadSignals int        `json:"unread_signals,omitempty"`
	// SubmittedBy is who submitted it, as the access layer knew; of a child, who submitted its
	// parent. Empty: nobody who had logged in.
	SubmittedBy string `json:"submitted_by,omitempty"`
	// By is the item that ended this one: the one that superseded it, that it waited
	// for, or that spawned it.
	By         string `json:"by,omitempty"`
	LeasesLost int    `json:"leases_lost,omitempty"`
	// AttemptsSpared counts the attempts that were lost early with their worker since the
	// item was last replayed: max_attempts is so much higher.
	AttemptsSpared int `json:"attempts_spared,omitempty"`
}

// ChildCounts counts what an item has spawned the last time.
type ChildCounts struct {
	Total  int `json:"total"`
	Live   int `json:"live"`   // have not ended
	Failed int `json:"failed"` // have ended dead or cancelled
	Spawns int `json:"spawns"` // how often it has spawned
	// Declared is the number of children to come, for a spawn made in parts.
	Declared int `json:"declared,omitempty"`
}

// BatchCounts is the progress of a batch.
type BatchCounts struct {
	Name      string `json:"name,omitempty"`
	Total     int    `json:"total"`              // items so far
	Declared  int    `json:"declared,omitempty"` // items that there are to be, once that is settled
	Sealed    bool   `json:"sealed"`             // that is settled: no others come
	Done      int    `json:"done"`               // have ended, in whatever way
	Completed int    `json:"completed"`          // merged ones among them
	Dead      int    `json:"dead"`
	Cancelled int    `json:"cancelled"`
}

func batchOf(r *events.Relations) *BatchCounts {
	return &BatchCounts{
		Name: r.Name, Total: r.Made, Declared: r.Declared, Sealed: r.Sealed, Done: r.Made - r.Live,
		Completed: r.Made - r.Live - r.Failed, Dead: r.Failed - r.Cancelled, Cancelled: r.Cancelled,
	}
}

// Progress is the progress that a run reports.
type Progress struct {
	Percent int       `json:"percent"` // 0 to 100
	Message string    `json:"message,omitempty"`
	At      time.Time `json:"at"`
}

func itemFlow(it *events.Item) ItemFlow {
	f := ItemFlow{
		ExpiresAt: it.ExpiresAt, EstimatedDuration: events.DurationOf(it.Estimate), DedupWindow: events.DurationOf(it.DedupWindow),
		Group: it.Group, LeasesLost: it.LeasesLost, AttemptsSpared: int(it.Spared), HasCheckpoint: it.HasCheckpoint,
		Progress: fromProgress(it.Progress), WaitsFor: shownWait(it.Wait()), SubmittedBy: it.SubmittedBy,
	}
	if it.Signals != nil {
		f.UnreadSignals = it.Signals.Unread
	}
	r := it.Relations
	if r == nil {
		return f
	}
	if !r.Parent.IsZero() {
		f.Parent = r.Parent.String()
	}
	if !r.By.IsZero() {
		f.By = r.By.String()
	}
	f.WaitsLeft, f.Awaited = len(r.Waits), r.Awaited
	for _, id := range r.Waits[:min(len(r.Waits), MaxShownWaits)] {
		f.Waits = append(f.Waits, id.String())
	}
	if r.Spawns > 0 {
		f.Children = &ChildCounts{Total: r.Size(), Live: r.Live, Failed: r.Failed, Spawns: r.Spawns, Declared: r.Declared}
		f.Continues, f.Continuation = r.Continues, r.Continuation
	}
	if r.Batch {
		f.Children, f.Batch = nil, batchOf(r)
	}
	return f
}

func fromProgress(p events.Progress) *Progress {
	if p.At.IsZero() {
		return nil
	}
	return &Progress{Percent: p.Percent, Message: p.Message, At: p.At}
}

// Tree asks for an item with the items that it has spawned, and those above it.
type Tree struct {
	ID          string   `json:"id"`
	Depth       int      `json:"depth,omitempty" strict:"positive"` // levels below the item; default 10, at most 100
	Limit       int      `json:"limit,omitempty" strict:"positive"` // items below it; default 200, at most 10,000
	MinPosition Position `json:"min_position,omitempty"`
}

// TreeReply holds an item with the items below it, and the path of items above it.
type TreeReply struct {
	// Path are the items above: the item that spawned it is the last.
	Path []TreeNode `json:"path,omitempty"`
	Root TreeNode   `json:"root"` // the item
	// Nodes counts the items below the root that are shown.
	Nodes int `json:"nodes"`
}

// TreeNode is an item in a tree.
type TreeNode struct {
	ID       string           `json:"id"`
	Type     string           `json:"type"`
	State    events.ItemState `json:"state"`
	Attempt  int              `json:"attempt,omitempty"`
	Progress *Progress        `json:"progress,omitempty"`
	Reason   string           `json:"reason,omitempty"`
	Code     string           `json:"code,omitempty"` // of its last failure
	Children []TreeNode       `json:"children,omitempty"`
	// Truncated says that it has further children, left out because of the depth
	// or the limit.
	Truncated bool `json:"truncated,omitempty"`
}

// TreeNodeOf is an item as a tree shows it, without its children.
func TreeNodeOf(it *events.Item) TreeNode {
	return TreeNode{
		ID: it.ID.String(), Type: string(it.Type), State: it.State, Attempt: int(it.Attempt),
		Progress: fromProgress(it.Progress), Reason: it.Reason, Code: it.Code,
	}
}
