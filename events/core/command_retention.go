package core

import (
	"github.com/streamwright/streamwright/events"
)

// Prune forgets a terminal item if it has been kept for as long as it is to be
// and nothing refers to it any more; see [State.Prunable].
type Prune struct{ ID events.ID }

// BeginCut begins a round of [events.Snapshot]; one under way is given up.
type BeginCut struct{}

// Carry re-states an item in the round under way. History and Merged are what
// the projection holds of it, complete: see [State.Settled]. An item that needs
// it not is a Repeat.
type Carry struct {
	ID      events.ID
	History []events.StoredEvent
	Merged  []events.MergedEntry
}

// EndCut ends the round under way. Every item must have been carried: the
// caller sees to it. Keys are those that the projection holds of kinds that
// follow from no item; see [events.KeyKind.Loose].
type EndCut struct {
	Keys []events.HeldKey
	// Kept is where what the projection keeps of rejected submissions begins, all
	// of which from before the round has been carried; nil: none is to be kept.
	Kept *events.RejectedKept
}
