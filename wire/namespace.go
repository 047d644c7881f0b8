package wire

import (
	"time"

	"github.com/streamwright/streamwright/events"
)

// NamespaceSet adds a namespace, a log of its own in the same engine, or changes one. What
// it leaves out stays as it is, or is the default of a new one.
type NamespaceSet struct {
	Name string `json:"name"` // a-z and 0-9 with single - between them, at most 32 bytes
	events.NamespaceChange
}

// NamespaceChange changes a namespace that is there. What it leaves out stays as it is.
type NamespaceChange struct {
	Name string `json:"name"` // the namespace's name
	events.NamespaceChange
}

// NamespaceGet asks for one namespace, answered with a NamespaceInfo.
type NamespaceGet struct {
	Name        string   `json:"name"` // the namespace's name
	MinPosition Position `json:"min_position,omitempty"`
}

// NamespaceRemove removes a namespace with all that it holds. It is refused while items of
// it are live, and while what it holds is not known, unless Force is set. DryRun removes
// nothing, and answers what would be destroyed, live or not.
type NamespaceRemove struct {
	Name   string `json:"name"`              // the namespace's name
	Force  bool   `json:"force,omitempty"`   // destroy live items, and what is not known
	DryRun bool   `json:"dry_run,omitempty"` // remove nothing, and answer what would be destroyed
	By     string `json:"by,omitempty"`      // who asks, at most 256 bytes
}

// NamespaceInfo is a namespace, and how it is.
type NamespaceInfo struct {
	events.NamespaceInfo
	State *NamespaceState `json:"state,omitempty"` // left out: the engine that answers holds none but the default one
}

// Unused returns a CodeWrongState if the namespace has items that have not ended, or may have
// some: then only force removes it.
func (n *NamespaceInfo) Unused() error {
	switch {
	case n.State == nil:
		return events.Refuse(events.CodeWrongState, "what namespace %s holds is not known to this engine: use force to remove it all the same", n.Name)
	case n.State.Live() > 0:
		return events.Refuse(events.CodeWrongState, "namespace %s has %s not ended: cancel them or wait, or use force to destroy them", n.Name, events.Count(n.State.Live(), "item"))
	case n.State.Undecided > 0:
		return events.Refuse(events.CodeWrongState, "namespace %s has %s not decided yet: wait, or use force to destroy them", n.Name, events.Count(n.State.Undecided, "submission"))
	case n.State.State != NamespaceRunning:
		return events.Refuse(events.CodeWrongState, "namespace %s is %s, so what it holds is not known: wait, or use force to remove it all the same", n.Name, n.State.State)
	}
	return nil
}

// The values of [NamespaceState].State.
const (
	NamespaceStarting = "starting"
	NamespaceRunning  = "running"
	NamespaceFailed   = "failed"
	NamespaceRemoving = "removing"
	NamespaceUnknown  = "unknown" // it could not be asked
)

// NamespaceState says how a namespace is, as the node that answers knows it.
type NamespaceState struct {
	State     string           `json:"state"`               // running, starting, failed, removing, unknown
	Error     string           `json:"error,omitempty"`     // why it is failed or unknown
	Owner     string           `json:"owner,omitempty"`     // the node that owns its log
	Because   TakeoverCause    `json:"because,omitempty"`   // how the owner before it went, if there was one that the node knows of
	States    map[string]int64 `json:"states,omitempty"`    // its items by state, zeros left out
	Undecided int64            `json:"undecided,omitempty"` // messages on its subjects for submissions that are stored and not decided
	LogBytes  int64            `json:"log_bytes,omitzero"`  // of its event stream
	LastAt    time.Time        `json:"last_at,omitzero"`    // of its last event
}

// Items returns the number of the namespace's items.
func (s *NamespaceState) Items() (n int64) {
	for _, of := range s.States {
		n += of
	}
	return n
}

// Live returns the number of the namespace's items that have not ended.
func (s *NamespaceState) Live() (n int64) {
	for name, of := range s.States {
		if state, err := events.ParseItemState(name); err != nil || !state.Terminal() {
			n += of
		}
	}
	return n
}

// NamespaceReply answers a change of a namespace, which is left out if it has been removed
// since.
type NamespaceReply struct {
	Namespace *NamespaceInfo `json:"namespace,omitempty"`
	Repeat    bool           `json:"repeat,omitempty"` // it was so already
	Position  Position       `json:"position,omitempty"`
}

// NamespaceRemoval answers a removal with the namespace as it was.
type NamespaceRemoval struct {
	Namespace NamespaceInfo `json:"namespace"`
	Removed   bool          `json:"removed,omitempty"` // left out of the answer to a dry run
	Position  Position      `json:"position,omitempty"`
}

// NamespacesReply lists the namespaces, by name, without the default one.
type NamespacesReply struct {
	Namespaces []NamespaceInfo `json:"namespaces"`
	Position   Position        `json:"position,omitempty"`
	Stale      string          `json:"stale,omitempty"` // as in [Listed]
}
