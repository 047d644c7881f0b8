package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
)

// ackRate is the rate, in items a second, at which the latency of ack
// workers is measured.
const ackRate = 300

// measureAck is (h): items of a type with protocol ack, worked off by an
// ordinary JetStream consumer, and beside them the same items sent to a registered
// worker with as many slots, in the same run.
func (r *rig) measureAck(ctx context.Context) error {
	ack, err := r.ackBurnDown(ctx)
	if err != nil {
		return err
	}
	offered, err := r.burnDown(ctx, "(h) burn-down by offers", "ack-offer", nil, nothing)
	if err != nil {
		return err
	}
	r.t.row("(h) ack burn-down, of that by offers", ack/offered, "×", 0)
	return r.ackLatency(ctx)
}

// ackType makes a type's protocol ack, with room for as many runs as the
// worker has slots.
func (r *rig) ackType(ctx context.Context, typ string) error {
	_, err := r.client.Types().Configure(ctx, typ, streamwright.Settings{Protocol: new(events.ProtocolAck), Capacity: new(r.o.Slots)})
	return err
}

// ackConsumer is the type's consumer, as any program would find it.
func ackConsumer(ctx context.Context, nc *nats.Conn, typ string) (jetstream.Consumer, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	for {
		c, err := js.Consumer(ctx, "WORK_DISPATCH", typ)
		if !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return c, err
		}
		if err := sleep.For(ctx, 5*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// ackWorker consumes on a connection of its own, and acks what fn has seen.
func (r *rig) ackWorker(ctx context.Context, typ string, fn func(jetstream.Msg)) (stop func(), err error) {
	nc, err := r.eng.Connect(nats.Name("bench-ack"))
	if err != nil {
		return nil, err
	}
	c, err := ackConsumer(ctx, nc, typ)
	if err != nil {
		nc.Close()
		return nil, err
	}
	cc, err := c.Consume(func(m jetstream.Msg) {
		fn(m)
		_ = m.Ack()
	}, jetstream.PullMaxMessages(r.o.Slots))
	if err != nil {
		nc.Close()
		return nil, err
	}
	return func() { cc.Stop(); <-cc.Closed(); nc.Close() }, nil
}

func (r *rig) ackBurnDown(ctx context.Context) (float64, error) {
	const typ = "ack"
	if err := r.ackType(ctx, typ); err != nil {
		return 0, err
	}
	if err := r.submitAll(ctx, typ, r.o.Items, nil); err != nil {
		return 0, err
	}
	start := time.Now()
	stop, err := r.ackWorker(ctx, typ, func(jetstream.Msg) {})
	if err != nil {
		return 0, err
	}
	defer stop()
	return r.burned(ctx, "(h) burn-down by an ordinary consumer, protocol ack", typ, start)
}

// ackLatency measures the time from a publish to the callback, at a modest
// rate, by either protocol.
func (r *rig) ackLatency(ctx context.Context) error {
	const ack, offer = "ack-latency", "ack-latency-offer"
	if err := r.ackType(ctx, ack); err != nil {
		return err
	}
	p := newProbe(ackRate * int(r.o.LatencyFor/time.Second))
	stop, err := r.ackWorker(ctx, ack, func(m jetstream.Msg) { _ = p.saw(m.Data()) })
	if err != nil {
		return err
	}
	defer stop()
	if err := r.openLoop(ctx, p, "work.submit."+ack, ackRate); err != nil {
		return err
	}
	what := fmt.Sprintf("(h) publish to handler at %d/s, protocol ", ackRate)
	r.t.quantiles(what+"ack", p.got)
	return r.latency(ctx, what+"offer", offer, ackRate)
}
