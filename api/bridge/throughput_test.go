package bridge_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// benchWorkers and benchSlots are of both ways: four workers that run 50 items
// each at once, and do nothing with them.
const (
	benchWorkers = 4
	benchSlots   = 50
)

// BenchmarkWorkers drains a backlog of b.N items, by workers over HTTP whose
// reports are one request for each poll, and by Go workers
// over NATS.
func BenchmarkWorkers(b *testing.B) {
	b.Run("http", func(b *testing.B) {
		benchmarkWorkers(b, func(b *testing.B, e *engine) func() { return drainOverHTTP(b, e) })
	})
	b.Run("nats", func(b *testing.B) {
		benchmarkWorkers(b, func(b *testing.B, e *engine) func() { return drainOverNATS(b, e) })
	})
}

func benchmarkWorkers(b *testing.B, drain func(*testing.B, *engine) func()) {
	e := startEngine(b, embedded.Options{})
	for left := b.N; left > 0; left -= 1000 {
		list := make([]wire.Submit, min(left, 1000))
		for i := range list {
			list[i] = wire.Submit{Type: "step", Params: []byte(`{"n":1}`)}
		}
		var got []wire.Submitted
		e.request(b, wire.APISubmit, list, &got)
	}
	b.ResetTimer()
	stop := drain(b, e)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
	stop()
}

func drainOverHTTP(b *testing.B, e *engine) func() {
	e.http.Transport = &http.Transport{MaxIdleConnsPerHost: benchWorkers}
	var done, polls atomic.Int64
	defer func() { b.ReportMetric(float64(b.N)/float64(max(polls.Load(), 1)), "items/poll") }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	for range benchWorkers {
		w := e.worker(b, wire.WorkerRegistration{Types: []string{"step"}, Slots: benchSlots})
		wg.Go(func() {
			for ctx.Err() == nil {
				var got wire.Polled
				if _, _, err := e.ask(ctx, http.MethodPost, w.path("poll"), wire.Poll{Session: w.session}, &got); err != nil {
					return // the others have done all there is
				}
				polls.Add(1)
				list := make([]wire.Report, len(got.Items))
				for i, it := range got.Items {
					list[i] = complete(it, `{"ok":true}`)
				}
				if len(list) > 0 {
					w.ok(list...)
				}
				if done.Add(int64(len(list))) >= int64(b.N) {
					cancel()
				}
			}
		})
	}
	wg.Wait()
	return func() {}
}

func drainOverNATS(b *testing.B, e *engine) func() {
	var done atomic.Int64
	all := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range benchWorkers {
		nc, err := e.Connect()
		if err != nil {
			b.Fatal(err)
		}
		w, err := workers.New(nc, workers.Config{Concurrency: benchSlots})
		if err != nil {
			b.Fatal(err)
		}
		workers.Handle(w, "step", func(context.Context, *workers.Item[any]) (any, error) {
			if done.Add(1) == int64(b.N) {
				close(all)
			}
			return map[string]bool{"ok": true}, nil
		})
		wg.Go(func() {
			defer nc.Close()
			if err := w.Run(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	<-all
	return func() { cancel(); wg.Wait() }
}
