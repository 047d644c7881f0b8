package core

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Acts bear the name of who asked for them; what the engine does by itself does not, nor what
// somebody asks for who is not known.
func TestActsSayWhoAskedForThem(t *testing.T) {
	for name, tc := range map[string]struct {
		by   string
		want map[events.Kind]string
	}{
		"known":   {"ann", map[events.Kind]string{events.KindCreated: "ann", events.KindQueued: "", events.KindTypeConfigured: ""}},
		"unknown": {"", map[events.Kind]string{events.KindCreated: "", events.KindQueued: "", events.KindTypeConfigured: ""}},
	} {
		s, err := NewState(Empty{})
		if err != nil {
			t.Fatal(err)
		}
		dec, err := Decide(s, Submit{Type: "email", NewID: events.ID{1}, By: tc.by}, time.Unix(1e9, 0))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range dec.Events {
			if want, ok := tc.want[e.Kind]; ok && e.By != want {
				t.Errorf("%s: %s is by %q, want %q", name, e.Kind, e.By, want)
			}
		}
	}
	s, err := NewState(Empty{})
	if err != nil {
		t.Fatal(err)
	}
	dec, err := Decide(s, By{"ann", PauseType{Type: "email", Reason: "test", By: "a claim"}}, time.Unix(1e9, 0))
	if err != nil || len(dec.Events) == 0 {
		t.Fatal(dec, err)
	}
	for _, e := range dec.Events {
		if want := map[bool]string{true: "ann"}[e.Kind == events.KindPaused]; e.By != want {
			t.Errorf("%s is by %q, want %q", e.Kind, e.By, want)
		}
	}
	if n, m := MaxEvents(By{"ann", FollowUp{}}), MaxEvents(FollowUp{}); n != m {
		t.Errorf("%d events at most, not %d", n, m)
	}
}
