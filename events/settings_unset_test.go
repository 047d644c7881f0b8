package events

import (
	"testing"
	"time"
)

// What UnsetTypeSettings says is what is done where nothing is set.
func TestUnsetTypeSettings(t *testing.T) {
	u, zero := UnsetTypeSettings(), TypeSettings{}
	if err := u.Validate(); err != nil {
		t.Error(err)
	}
	if u.PoisonAfter != zero.poisonAfter() || u.PoolWeight != zero.Weight() || u.GroupKey() != zero.GroupKey() || u.Circuit != zero.Circuit.WithDefaults() {
		t.Errorf("%+v", u)
	}
	for _, state := range []ItemState{StateCompleted, StateDead, StateCancelled, StateMerged} {
		if got, want := u.Retain.For(state), zero.Retain.For(state); got != want || got < time.Hour {
			t.Errorf("%s is kept for %v, not %v", state, got, want)
		}
	}
}
