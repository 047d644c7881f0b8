package events

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
	// Behind is that one of Waits which it waits for because of its dedup key:
	// however that ends, it goes on.
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
	Cancelled int    `json:"cancelled,omitempty"` // those of Failed that were cancelled
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

// Size is how many children there are: those of the last spawn, or the items of
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

// complete reports whether no more children are to come.
func (r *Relations) Complete() bool { return (r.Sealed || !r.Batch) && r.Made >= r.Declared }
