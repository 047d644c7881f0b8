package figures

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// lived is a batch in which an item goes through a life, from the event on that
// stands first.
func lived(seq events.Seq, old *events.Item, now time.Time, evs ...events.Event) *core.Changes {
	c := &core.Changes{Meta: events.Meta{LastAt: now}, Items: []core.ItemChange{{Old: old, New: &events.Item{ID: events.ID{1}, Type: "email"}}}}
	for i, ev := range evs {
		ev.Seq, ev.ID, ev.Type = seq+events.Seq(i), events.ID{1}, "email"
		c.History = append(c.History, ev)
		c.Meta.Applied = ev.Seq
	}
	return c
}

func TestFiguresFollowAnItem(t *testing.T) {
	m := newRig()
	at := func(s int) time.Time { return time.Date(2030, 1, 2, 3, 0, s, 0, time.UTC) }
	ev := func(k events.Kind, sec int, b events.Body) events.Event {
		return events.Event{Kind: k, At: at(sec), Body: b, Attempt: 1}
	}
	first := []events.Event{
		ev(events.KindCreated, 0, &events.Created{Priority: 7}),
		ev(events.KindQueued, 0, &events.Queued{Reason: "submitted", AvailableAt: at(10), OrderAt: at(10)}),
		ev(events.KindClaimed, 14, &events.Claimed{}),
	}
	second := []events.Event{
		ev(events.KindRunning, 15, &events.Running{}),
		ev(events.KindProgressed, 16, &events.Progressed{}),
		ev(events.KindFailed, 20, &events.Failed{Code: "my_own", Duration: events.Millis(5000)}),
		ev(events.KindQueued, 20, &events.Queued{Reason: "retry", AvailableAt: at(30)}),
	}
	third := []events.Event{
		ev(events.KindClaimed, 31, &events.Claimed{}),
		ev(events.KindRunning, 31, &events.Running{}),
		ev(events.KindCompleted, 33, &events.Completed{Duration: events.Millis(2000)}),
	}
	third[0].Attempt = 9
	m.Feed(lived(1, nil, at(14), first...))
	m.Feed(lived(4, &events.Item{ID: events.ID{1}, Type: "email", State: events.StateClaimed, Priority: 7, CreatedAt: at(0), ClaimedAt: at(14)}, at(20), second...))
	m.Feed(lived(8, &events.Item{ID: events.ID{1}, Type: "email", State: events.StateQueued, Priority: 7, CreatedAt: at(0), QueuedAt: at(20), AvailableAt: at(30)}, at(33), third...))
	for from, to := range map[string]string{"none": "created", "created": "queued", "running": "failed", "failed": "queued"} {
		if got := counted(t, m, "transitions_total", from, to); got != 1 {
			t.Errorf("%s to %s: %v", from, to, got)
		}
	}
	if got := counted(t, m, "transitions_total", "claimed", "running"); got != 2 {
		t.Errorf("started %v times", got)
	}
	for name, got := range map[string]float64{
		"failed": counted(t, m, "failures_total", "other"), "retried": counted(t, m, "retries_total", "other"),
		"first attempt": counted(t, m, "attempts_total", "1"), "ninth attempt": counted(t, m, "attempts_total", "more"),
	} {
		if got != 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
	sums := map[string]float64{}
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			if h := s.GetHistogram(); h != nil && slices.Contains([]string{"queued", "claimed", "run", "item"}, trimmed(f.GetName())) {
				sums[trimmed(f.GetName())] += h.GetSampleSum()
			}
		}
	}
	// Queued 10 to 14 and 30 to 31, claimed 14 to 15, ran 15 to 20 and 31 to 33.
	if want := map[string]float64{"queued": 5, "claimed": 1, "run": 7, "item": 33}; !equal(sums, want) {
		t.Errorf("seconds %v, want %v", sums, want)
	}
}

// rig is Figures with the registry of their metrics.
type rig struct {
	*Figures
	registry *prometheus.Registry
}

func newRig() rig {
	r := rig{registry: prometheus.NewRegistry()}
	r.Figures = New(func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		r.registry.MustRegister(v)
		return v
	}, func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		r.registry.MustRegister(v)
		return v
	})
	return r
}

func trimmed(name string) string {
	if i := len(name) - len("_seconds"); i > 0 && name[i:] == "_seconds" {
		return name[:i]
	}
	return ""
}

func equal(a, b map[string]float64) bool {
	for k, v := range b {
		if a[k] != v {
			return false
		}
	}
	return len(a) == len(b)
}

// counted is the value of the counter that has all of some label values.
func counted(t *testing.T, m rig, name string, values ...string) (sum float64) {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			all := f.GetName() == name
			for at, l := range s.GetLabel() { // in order of name: code; attempt; from, to; and type behind them
				all = all && (at >= len(values) || l.GetValue() == values[at])
			}
			if all {
				sum += s.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// What the log says of before this process is not counted.
func TestMetricsCountFromTheirStart(t *testing.T) {
	m := newRig()
	m.CountFrom(2)
	now := time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)
	m.Feed(lived(1, nil, now,
		events.Event{Kind: events.KindCreated, At: now, Body: &events.Created{}},
		events.Event{Kind: events.KindQueued, At: now, Body: &events.Queued{}},
		events.Event{Kind: events.KindClaimed, At: now.Add(time.Second), Body: &events.Claimed{}}))
	if before, last := counted(t, m, "transitions_total", "none", "created")+counted(t, m, "transitions_total", "created", "queued"), counted(t, m, "transitions_total", "queued", "claimed"); before != 0 || last != 1 {
		t.Errorf("%v transitions of before are counted, and %v of now", before, last)
	}
}

func BenchmarkFeed(b *testing.B) {
	m := newRig()
	now := time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)
	c := lived(1, nil, now,
		events.Event{Kind: events.KindCreated, At: now, Body: &events.Created{}}, events.Event{Kind: events.KindQueued, At: now, Body: &events.Queued{}},
		events.Event{Kind: events.KindClaimed, At: now, Body: &events.Claimed{}, Attempt: 1}, events.Event{Kind: events.KindRunning, At: now, Body: &events.Running{}},
		events.Event{Kind: events.KindCompleted, At: now, Body: &events.Completed{Duration: events.Millis(1)}})
	for b.Loop() {
		m.Feed(c)
	}
}
