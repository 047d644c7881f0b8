package dispatcher

import (
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/wire"
)

// benchWorker is the least that a worker does: it pulls, claims and completes,
// in batches of what there is, and acks.
func benchWorker(b *testing.B, h *harness, nc *nats.Conn, done *atomic.Int64) (stop func()) {
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	c, err := js.Consumer(h.ctx(), "WORK_DISPATCH", "email")
	if err != nil {
		b.Fatal(err)
	}
	pulled := make(chan jetstream.Msg, 1000)
	cc, err := c.Consume(func(m jetstream.Msg) { pulled <- m }, jetstream.PullMaxMessages(1000))
	if err != nil {
		b.Fatal(err)
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case m := <-pulled:
				runAll(b, h, takeAll(m, pulled), done)
			case <-quit:
				return
			}
		}
	}()
	return func() { cc.Stop(); <-cc.Closed(); close(quit); <-ended }
}

func takeAll(first jetstream.Msg, more <-chan jetstream.Msg) []jetstream.Msg {
	msgs := []jetstream.Msg{first}
	for len(msgs) < 250 {
		select {
		case m := <-more:
			msgs = append(msgs, m)
		default:
			return msgs
		}
	}
	return msgs
}

// runAll claims and completes; the next batch is claimed while this one is
// completed.
func runAll(b *testing.B, h *harness, msgs []jetstream.Msg, done *atomic.Int64) {
	reports := make([]wire.Report, len(msgs))
	for i, m := range msgs {
		reports[i] = reportOf(m, "w", wire.ReportClaim)
		reports[i].Start = true
	}
	for _, r := range h.report(reports...) {
		if !r.OK {
			b.Errorf("claim: %+v", r.Error)
		}
	}
	for i := range reports {
		reports[i].Event = wire.ReportComplete
	}
	err := h.eng.Report(h.ctx(), reports, func(as []wire.Reported) {
		for i, r := range as {
			if !r.OK {
				b.Errorf("complete: %+v", r.Error)
			}
			_ = msgs[i].Ack()
		}
		done.Add(int64(len(as)))
	})
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkEndToEnd publishes items and has them claimed and completed: five
// durable events each.
func BenchmarkEndToEnd(b *testing.B) {
	h := newHarness(b, nil)
	h.register("w", 500, "email")
	workers, publisher := h.connect(), h.connect()
	defer workers.Close()
	defer publisher.Close()
	var done atomic.Int64
	stop := benchWorker(b, h, workers, &done)
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
