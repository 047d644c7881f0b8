package workers

import (
	"context"
	"runtime"
	"testing"

	"github.com/streamwright/streamwright/events"
)

// BenchmarkNoop measures one worker process against the fake engine, all on
// this machine: items that wait, sent, run and completed.
func BenchmarkNoop(b *testing.B) {
	r := newRig(b)
	r.quiet, r.putsBack = true, true
	w := r.worker(Config{Concurrency: 200})
	HandleRaw(w, "noop", func(context.Context, *RawItem) (any, error) { return nil, nil })
	for range b.N {
		r.submit("noop", `{"n":1}`)
	}
	runtime.GC()
	b.ResetTimer()
	r.start(w)
	r.until("all completed", func() bool { return r.completed == b.N })
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
	b.ReportMetric(float64(r.requests), "requests")
	b.ReportMetric(float64(r.largest), "largest")
}

// BenchmarkOneAtATime measures the way of a lone item, from its submission to
// its recorded outcome.
func BenchmarkOneAtATime(b *testing.B) {
	r := newRig(b)
	w := r.worker(Config{Concurrency: 4})
	HandleRaw(w, "noop", func(context.Context, *RawItem) (any, error) { return nil, nil })
	r.start(w)
	for b.Loop() {
		id := r.submit("noop", `{}`)
		r.until("completed", func() bool { return r.items[id].state == events.StateCompleted })
	}
}
