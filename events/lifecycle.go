package events

import (
	"fmt"
)

// ItemState is the state of an item in its life.
type ItemState uint8

// The item states. An item that does not exist yet has StateNone.
const (
	StateNone ItemState = iota
	StateCreated
	StateQueued
	StateClaimed
	StateRunning
	StateWaiting
	StateFailed
	StateCompleted
	StateDead
	StateCancelled
	StateMerged
	NumStates = iota
)

var stateNames = [NumStates]string{"", "created", "queued", "claimed", "running", "waiting", "failed", "completed", "dead", "cancelled", "merged"}

func (s ItemState) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// ParseItemState reads a state's name.
func ParseItemState(s string) (ItemState, error) {
	for i, n := range stateNames {
		if i > 0 && n == s {
			return ItemState(i), nil
		}
	}
	return 0, fmt.Errorf("%q is no state: use one of created, queued, claimed, running, waiting, failed, completed, dead, cancelled, merged", Clip(s, 64))
}

// MarshalText implements encoding.TextMarshaler.
func (s ItemState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// AppendText implements encoding.TextAppender.
func (s ItemState) AppendText(b []byte) ([]byte, error) { return append(b, s.String()...), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *ItemState) UnmarshalText(b []byte) error {
	v, err := ParseItemState(string(b))
	*s = v
	return err
}

// Terminal reports whether an item in this state is done for good (an
// operator may still replay a dead or cancelled one).
func (s ItemState) Terminal() bool {
	return s == StateCompleted || s == StateDead || s == StateCancelled || s == StateMerged
}

// transitions is the item's life: for each state, the state that each event
// leads to. A cell that is absent is undefined: such an event is never
// decided, and one found in the log is corruption. docs/reference/LIFECYCLE.md is
// rendered from this table.
var transitions = [NumStates][NumKinds]ItemState{
	StateNone: {
		KindCreated: StateCreated,
	},
	StateCreated: {
		KindQueued:  StateQueued,
		KindWaiting: StateWaiting,
		KindMerged:  StateMerged,
		KindSpawned: StateWaiting,
	},
	StateQueued: {
		KindClaimed:     StateClaimed,
		KindWaiting:     StateWaiting,
		KindCancelled:   StateCancelled,
		KindRescheduled: StateQueued,
		KindSignalled:   StateQueued,
	},
	StateClaimed: {
		KindRunning:   StateRunning,
		KindReleased:  StateQueued,
		KindFailed:    StateFailed,
		KindCancelled: StateCancelled,

		KindRescheduled: StateClaimed,
		KindSignalled:   StateClaimed,
	},
	StateRunning: {
		KindCompleted:    StateCompleted,
		KindFailed:       StateFailed,
		KindSpawned:      StateWaiting,
		KindReleased:     StateQueued,
		KindSnoozed:      StateQueued,
		KindParked:       StateWaiting,
		KindCancelled:    StateCancelled,
		KindProgressed:   StateRunning,
		KindCheckpointed: StateRunning,
		KindTokenGiven:   StateRunning,
		KindRescheduled:  StateRunning,
		KindSignalled:    StateRunning,
	},
	StateWaiting: {
		KindWaiting:     StateWaiting,
		KindSpawned:     StateWaiting,
		KindQueued:      StateQueued,
		KindCompleted:   StateCompleted,
		KindDead:        StateDead,
		KindCancelled:   StateCancelled,
		KindRescheduled: StateWaiting,
		KindSignalled:   StateWaiting,
		KindReminded:    StateWaiting,
	},
	StateFailed: {
		KindQueued: StateQueued,
		KindDead:   StateDead,
	},
	StateDead: {
		KindReplayed: StateQueued,
	},
	StateCancelled: {
		KindReplayed: StateQueued,
	},
}

// Next returns the state that an event of kind k leads to from state s, and
// whether the transition is defined.
func Next(s ItemState, k Kind) (ItemState, bool) {
	if int(s) >= NumStates || int(k) >= NumKinds {
		return StateNone, false
	}
	n := transitions[s][k]
	return n, n != StateNone
}
