package measure

import (
	"context"
	"encoding/json"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// MaxPending bounds the unacknowledged publishes of a [JetStream].
const MaxPending = BulkCallers*BulkBatch + BulkBatch

// JetStream is a stream without an engine: what Streamwright stands on, and so its floor.
// A message has no history, result, retry policy, priority or status.
type JetStream struct {
	Conn     *nats.Conn // which Close closes
	JS       jetstream.JetStream
	Subject  string
	Consumer jetstream.Consumer
	Slots    int // handlers at once
}

var _ Queue = (*JetStream)(nil)

// NewJetStream returns the queue of a subject, without a consumer.
func NewJetStream(nc *nats.Conn, subject string, slots int) (*JetStream, error) {
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(MaxPending))
	return &JetStream{Conn: nc, JS: js, Subject: subject, Slots: slots}, err
}

// OpenJetStream makes a stream of one subject, if it is not there, and returns it as a queue.
func OpenJetStream(ctx context.Context, nc *nats.Conn, c jetstream.StreamConfig, slots int) (*JetStream, error) {
	q, err := NewJetStream(nc, c.Subjects[0], slots)
	if err != nil {
		return nil, err
	}
	if _, err := q.JS.CreateOrUpdateStream(ctx, c); err != nil {
		return nil, err
	}
	q.Consumer, err = q.JS.CreateOrUpdateConsumer(ctx, c.Name, jetstream.ConsumerConfig{Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 10_000})
	return q, err
}

// Submit implements [Queue].
func (q *JetStream) Submit(ctx context.Context, p Payload) error {
	_, err := q.JS.Publish(ctx, q.Subject, p.JSON())
	return err
}

// SubmitMany implements [Queue]: it publishes all, and then waits for their acks.
func (q *JetStream) SubmitMany(ctx context.Context, ps []Payload) error {
	acks := make([]jetstream.PubAckFuture, len(ps))
	for i, p := range ps {
		var err error
		if acks[i], err = q.JS.PublishAsync(q.Subject, p.JSON()); err != nil {
			return err
		}
	}
	for _, a := range acks {
		select {
		case <-a.Ok():
		case err := <-a.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Work implements [Queue]. An ack is sent when the handler returns, and not confirmed.
func (q *JetStream) Work(_ context.Context, handle func(Payload)) (stop func() error, err error) {
	slots := make(chan struct{}, q.Slots)
	return q.Consume(func(m jetstream.Msg) {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			var p Payload
			if json.Unmarshal(m.Data(), &p) != nil {
				_ = m.Term() // the tally misses it
				return
			}
			handle(p)
			_ = m.Ack() // fails only without a connection, which Drained tells
		}()
	})
}

// Consume passes messages to fn, one after the other, until stop is called.
func (q *JetStream) Consume(fn func(jetstream.Msg)) (stop func() error, err error) {
	run, err := q.Consumer.Consume(fn)
	if err != nil {
		return nil, err
	}
	return func() error { run.Stop(); <-run.Closed(); return nil }, nil
}

// Drained implements [Queue], if the stream holds nothing else. It does not ask how many messages are
// pending: the server counts one a moment after it has acknowledged it.
func (q *JetStream) Drained(ctx context.Context, n int) (bool, error) {
	info, err := q.Consumer.Info(ctx)
	return err == nil && info.AckFloor.Stream >= uint64(n) && info.NumAckPending == 0, err
}

// Close implements [Queue].
func (q *JetStream) Close() error {
	_ = q.Conn.Drain() // it is closed already
	return nil
}
