package query_test

import (
	"context"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/projector/query"
)

func TestDedupHeldListsTheTakenKeys(t *testing.T) {
	s, err := projector.Open("", projector.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	state, err := core.NewState(s)
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range []string{"a", "b\x00c"} {
		dec, err := core.Decide(state, core.Submit{Type: "email", NewID: events.ID{15: byte(i + 1)}, DedupKey: key}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range dec.Events {
			ev.Seq = state.Meta().Applied + 1
			if err := state.Apply(ev); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Commit(state.TakeChanges()); err != nil {
		t.Fatal(err)
	}
	got := map[string]events.ItemState{}
	at, err := query.Of(s).DedupHeld(context.Background(), func(_ events.Type, key string, _ events.ID, st events.ItemState) error {
		got[key] = st
		return nil
	})
	if err != nil || at != s.Applied() || len(got) != 2 || got["b\x00c"] != events.StateQueued {
		t.Fatalf("%v at %d: %v", got, at, err)
	}
}
