package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// bodyBytes is the size of the params.
const bodyBytes = 256

const (
	floorStream  = "BENCH_FLOOR"
	floorSubject = "bench.floor"
)

// floorConsumer makes the raw work queue.
func floorConsumer(ctx context.Context, js jetstream.JetStream) (jetstream.Consumer, error) {
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: floorStream, Subjects: []string{floorSubject}, Storage: jetstream.MemoryStorage, Retention: jetstream.WorkQueuePolicy})
	if err != nil {
		return nil, err
	}
	return js.CreateConsumer(ctx, floorStream, jetstream.ConsumerConfig{Durable: "floor", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1000})
}

// measureFloor measures the server without the engine: a memory work queue,
// asynchronous publishes, one pulling consumer with acks.
func (r *rig) measureFloor(ctx context.Context) error {
	nc, err := r.eng.Connect(nats.Name("bench-floor"))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4096))
	if err != nil {
		return err
	}
	for range 3 { // the best of three: the floor must not be an accident
		rate, err := floorOnce(ctx, js, r.o.Items)
		if err != nil {
			return err
		}
		r.floor = max(r.floor, rate)
	}
	r.t.row("(a) floor: raw memory work queue", r.floor, "items/s", 1)
	return nil
}

func floorOnce(ctx context.Context, js jetstream.JetStream, items int) (float64, error) {
	cons, err := floorConsumer(ctx, js)
	if err != nil {
		return 0, err
	}
	defer func() { _ = js.DeleteStream(ctx, floorStream) }()
	var got atomic.Int64
	done := make(chan struct{})
	start := time.Now()
	cc, err := cons.Consume(func(m jetstream.Msg) {
		_ = m.Ack()
		if got.Add(1) == int64(items) {
			close(done)
		}
	})
	if err != nil {
		return 0, err
	}
	defer cc.Stop()
	if err := publishAll(ctx, js, floorSubject, items); err != nil {
		return 0, err
	}
	select {
	case <-done:
		return float64(items) / time.Since(start).Seconds(), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// publishAll publishes items of the usual size without waiting for each ack,
// and returns when all are acknowledged.
func publishAll(ctx context.Context, js jetstream.JetStream, subject string, items int) error {
	body := params(bodyBytes)
	var mu sync.Mutex
	var failed error
	for range items {
		f, err := js.PublishAsync(subject, body, jetstream.WithStallWait(time.Minute))
		if err != nil {
			return err
		}
		select {
		case err := <-f.Err():
			mu.Lock()
			failed = errors.Join(failed, err)
			mu.Unlock()
		default:
		}
	}
	select {
	case <-js.PublishAsyncComplete():
		return failed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// params is a JSON document of n bytes.
func params(n int) []byte {
	const head, tail = `{"pad":"`, `"}`
	b := make([]byte, 0, n)
	b = append(b, head...)
	for len(b) < n-len(tail) {
		b = append(b, 'x')
	}
	return append(b, tail...)
}
