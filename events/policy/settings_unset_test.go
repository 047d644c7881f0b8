package policy

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// What UnsetTypeSettings says is what is done where nothing is set.
func TestUnsetTypeSettings(t *testing.T) {
	u, zero := events.UnsetTypeSettings(), events.TypeSettings{}
	if err := u.Validate(); err != nil {
		t.Error(err)
	}
	if u.PoisonAfter != PoisonAfter(zero) || u.PoolWeight != zero.Weight() || u.GroupKey() != zero.GroupKey() || u.AssignBy != events.AssignMostFree || u.Circuit != zero.Circuit.WithDefaults() {
		t.Errorf("%+v", u)
	}
	for _, state := range []events.ItemState{events.StateCompleted, events.StateDead, events.StateCancelled, events.StateMerged} {
		if got, want := u.Retain.For(state), zero.Retain.For(state); got != want || got < time.Hour {
			t.Errorf("%s is kept for %v, not %v", state, got, want)
		}
	}
}
