package wire

import (
	"time"

	"github.com/streamwright/streamwright/events"
)

// PastPosition names the event up to which an item's history is shown.
type PastPosition struct {
	Position Position  `json:"position"`
	At       time.Time `json:"at"`
	Latest   bool      `json:"latest"` // nothing has happened to it since
}

// StateAt asks for the engine's state as of a position, or a time; at least one
// of them. The engine streams progress replies before the last.
type StateAt struct {
	AtPosition Position  `json:"at_position,omitempty"`
	AtTime     time.Time `json:"at_time,omitzero"`
}

// StateReply answers a StateAt. The engine streams progress replies (Done
// false) before the last, which alone has State.
type StateReply struct {
	Done    bool            `json:"done"`
	Events  uint64          `json:"events"` // replayed so far
	Total   uint64          `json:"total"`
	Elapsed events.Duration `json:"elapsed_ms"`
	State   *State          `json:"state,omitempty"`
}

// State is the engine as of a moment.
type State struct {
	Position  Position           `json:"position"`
	At        time.Time          `json:"at"` // of the last event
	Epoch     uint64             `json:"epoch"`
	Owner     string             `json:"owner,omitempty"`
	Types     []TypeState        `json:"types"`
	Schedules []events.Schedule  `json:"schedules"`
	Workers   map[string]Circuit `json:"worker_circuits,omitempty"` // only circuits that are not closed
	Drains    []DrainMark        `json:"drains,omitempty"`          // workers that are to drain
	Causes    int                `json:"causes"`                    // of death, with dead items
	Rejected  int64              `json:"rejected"`

	Namespaces []events.NamespaceInfo `json:"namespaces,omitempty"` // without the default one
}

// TypeState is a type as of a moment.
type TypeState struct {
	Type     string           `json:"type"`
	States   map[string]int64 `json:"states"`                       // items by state, zeros left out
	Queued   map[int]int64    `json:"queued_by_priority,omitempty"` // zeros left out
	Capacity int              `json:"capacity"`
	Paused   *events.Pause    `json:"paused,omitempty"`
	Circuit  *Circuit         `json:"circuit,omitempty"` // nil: closed
}

// FromTypeInfo is a type as of a moment.
func FromTypeInfo(t events.TypeInfo) TypeState {
	s := TypeState{Type: string(t.Type), States: map[string]int64{}, Queued: map[int]int64{}, Capacity: t.Settings.Capacity,
		Paused: t.Paused, Circuit: FromCircuit("", t.Circuit)}
	for state, n := range t.Counts {
		if n != 0 {
			s.States[events.ItemState(state).String()] = n
		}
	}
	for p, n := range t.Queued {
		if n != 0 {
			s.Queued[p] = n
		}
	}
	return s
}
