package figures

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// The first death of a type, the first rejection and the first new cause are a
// growth from 0, not a counter's first sample: only so does an alert's rate see
// them.
func TestCountersBeginAtZero(t *testing.T) {
	m := newRig()
	m.Zero("email")
	samples := func(name string) (n int, sum float64) {
		families, err := m.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != name {
				continue
			}
			for _, s := range f.GetMetric() {
				n++
				sum += s.GetCounter().GetValue()
			}
		}
		return n, sum
	}
	for name, want := range map[string]int{"dead_total": len(events.DeadReasons()), "rejections_total": len(rejectionCodes), "causes_noted_total": 2} {
		if n, sum := samples(name); n != want || sum != 0 {
			t.Errorf("%s has %d samples of together %v at first; want %d of 0", name, n, sum, want)
		}
	}
	// Each reason that an item died of is one that the type began with.
	now := time.Unix(1893456000, 0)
	for seq, reason := range events.DeadReasons() {
		m.Feed(lived(events.Seq(seq+1), &events.Item{ID: events.ID{1}, Type: "email", State: events.StateFailed, CreatedAt: now}, now,
			events.Event{Kind: events.KindDead, At: now, Body: &events.Dead{Reason: reason}}))
	}
	if n, sum := samples("dead_total"); n != len(events.DeadReasons()) || int(sum) != n {
		t.Errorf("%v deaths in %d series, want one in each of %d", sum, n, len(events.DeadReasons()))
	}
}
