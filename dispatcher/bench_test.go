package dispatcher

import (
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// benchWorker is the least that a worker does: it reports the start and end of what it
// receives, in batches of what there is.
func benchWorker(b *testing.B, h *harness, done *atomic.Int64) (stop func()) {
	items := h.received("email")
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case m := <-items:
				reportAll(b, h, takeAll(m, items), done)
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-ended }
}

func takeAll(first received, more <-chan received) []received {
	all := []received{first}
	for len(all) < 250 {
		select {
		case m := <-more:
			all = append(all, m)
		default:
			return all
		}
	}
	return all
}

func reportAll(b *testing.B, h *harness, all []received, done *atomic.Int64) {
	reports := make([]wire.Report, len(all))
	for i, m := range all {
		reports[i] = reportOf(m, wire.ReportComplete)
		reports[i].Start = true
	}
	err := h.eng.Report(h.ctx(), command.Reports(reports), func(as []wire.Reported) {
		for _, r := range as {
			if !r.OK {
				b.Errorf("complete: %+v", r.Error)
			}
		}
		done.Add(int64(len(as)))
	})
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkEndToEnd publishes items and has them run: five durable events each.
func BenchmarkEndToEnd(b *testing.B) {
	h := newHarness(b, nil)
	h.register("w", 500, "email")
	publisher := h.connect()
	defer publisher.Close()
	var done atomic.Int64
	stop := benchWorker(b, h, &done)
	defer stop()
	js, err := jetstream.New(publisher, jetstream.WithPublishAsyncMaxPending(4000))
	if err != nil {
		b.Fatal(err)
	}
	body := make([]byte, 256)
	for i := range body {
		body[i] = 'x'
	}
	body[0], body[len(body)-1] = '"', '"'
	b.ResetTimer()
	for range b.N {
		if _, err := js.PublishAsync("work.submit.email", body, jetstream.WithStallWait(patience)); err != nil {
			b.Fatal(err)
		}
	}
	h.until("all are completed", func() bool { return done.Load() == int64(b.N) })
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
}
