package workers_test

import (
	"slices"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// BenchmarkNoop measures one worker process beside its engine, all on this
// machine: items that wait, sent, run and completed.
func BenchmarkNoop(b *testing.B) {
	r := newRig(b)
	if _, err := r.c.SubmitMany(b.Context(), slices.Repeat([]streamwright.Item{{Type: "noop", Params: 1}}, b.N)); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	w := r.work(workers.Config{Concurrency: 200}, "noop", nothing)
	need.Eventually(b, "all completed", func() bool { return w.Stats().Completed == uint64(b.N) })
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
	b.ReportMetric(float64(len(r.Requests(wire.APIReport))), "requests")
}

// BenchmarkOneAtATime measures the way of a lone item, from its submission to
// its recorded outcome.
func BenchmarkOneAtATime(b *testing.B) {
	r := newRig(b)
	r.work(workers.Config{Concurrency: 4}, "noop", nothing)
	for b.Loop() {
		r.completed(r.submit("noop", `{}`))
	}
}
