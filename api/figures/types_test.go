package figures

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// The first types that are used have histograms of their own, as many as there may be;
// a type that is gone leaves its place to another.
func TestTypeHistograms(t *testing.T) {
	m := newRig()
	m.TypeHistograms(2)
	now := time.Unix(1893456000, 0)
	seq := events.Seq(0)
	completes := func(typ events.Type) {
		seq++
		c := lived(seq, &events.Item{ID: events.ID{1}, Type: typ, State: events.StateRunning, CreatedAt: now, StartedAt: now}, now,
			events.Event{Kind: events.KindCompleted, At: now, Body: &events.Completed{}})
		for i := range c.History {
			c.History[i].Type = typ
		}
		m.Feed(c)
	}
	for _, typ := range []events.Type{"a", "b", "c", "d", "a", "c"} {
		completes(typ)
	}
	m.Feed(&core.Changes{Forgotten: []events.Type{"a"}})
	completes("d")
	completes("e")
	got := map[string]uint64{}
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "item_seconds" {
			continue
		}
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				if l.GetName() == "type" {
					got[l.GetValue()] = s.GetHistogram().GetSampleCount()
				}
			}
		}
	}
	if len(got) != 3 || got["b"] != 1 || got["e"] != 1 || got[TypesTogether] != 4 {
		t.Errorf("histograms of %v", got)
	}
}

// Nothing is left of a type that is gone.
func TestForgottenType(t *testing.T) {
	m := newRig()
	m.Zero("a")
	m.Dispatched("a")
	m.LeaseExpired("a")
	m.Repaired("a", "lease_expired", time.Unix(1893456000, 0))
	m.Feed(&core.Changes{Forgotten: []events.Type{"a"}})
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				if l.GetName() == "type" {
					t.Errorf("%s of %s is left", f.GetName(), l.GetValue())
				}
			}
		}
	}
}
