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

// nativeRate is the rate, in items a second, at which the latency of native
// workers is measured.
const nativeRate = 300

// measureNative is (h): items of a type with protocol ack, worked off by an
// ordinary JetStream consumer, and beside them the same items by the claim
// protocol with as many slots, in the same run.
func (r *rig) measureNative(ctx context.Context) error {
	native, err := r.nativeBurnDown(ctx)
	if err != nil {
		return err
	}
	claimed, err := r.burnDown(ctx, "(h) burn-down by the claim protocol", "native-claim", nil, nothing)
	if err != nil {
		return err
	}
	r.t.row("(h) native burn-down, of the claim protocol's", native/claimed, "×", 0)
	return r.nativeLatency(ctx)
}

// nativeType makes a type's protocol ack, with room for as many runs as the
// worker has slots.
func (r *rig) nativeType(ctx context.Context, typ string) error {
	_, err := r.client.Types().Configure(ctx, typ, streamwright.Settings{Protocol: new(events.ProtocolAck), Capacity: new(r.o.Slots)})
	return err
}

// nativeConsumer is the type's consumer, as any program would find it.
func nativeConsumer(ctx context.Context, nc *nats.Conn, typ string) (jetstream.Consumer, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	for {
		c, err := js.Consumer(ctx, "WORK_NATIVE", typ)
		if !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return c, err
		}
		if err := sleep.For(ctx, 5*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// nativeWorker consumes on a connection of its own, and acks what fn has seen.
func (r *rig) nativeWorker(ctx context.Context, typ string, fn func(jetstream.Msg)) (stop func(), err error) {
	nc, err := r.eng.Connect(nats.Name("bench-native"))
	if err != nil {
		return nil, err
	}
	c, err := nativeConsumer(ctx, nc, typ)
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

func (r *rig) nativeBurnDown(ctx context.Context) (float64, error) {
	const typ = "native"
	if err := r.nativeType(ctx, typ); err != nil {
		return 0, err
	}
	if err := r.submitAll(ctx, typ, r.o.Items, nil); err != nil {
		return 0, err
	}
	start := time.Now()
	stop, err := r.nativeWorker(ctx, typ, func(jetstream.Msg) {})
	if err != nil {
		return 0, err
	}
	defer stop()
	return r.burned(ctx, "(h) burn-down by an ordinary consumer, protocol ack", typ, start)
}

// nativeLatency measures the time from a publish to the callback, at a modest
// rate, by either protocol.
func (r *rig) nativeLatency(ctx context.Context) error {
	const native, claim = "native-latency", "native-latency-claim"
	if err := r.nativeType(ctx, native); err != nil {
		return err
	}
	p := newProbe(nativeRate * int(r.o.LatencyFor/time.Second))
	stop, err := r.nativeWorker(ctx, native, func(m jetstream.Msg) { _ = p.saw(m.Data()) })
	if err != nil {
		return err
	}
	defer stop()
	if err := r.openLoop(ctx, p, "work.submit."+native, nativeRate); err != nil {
		return err
	}
	what := fmt.Sprintf("(h) publish to handler at %d/s, protocol ", nativeRate)
	r.t.quantiles(what+"ack", p.got)
	return r.latency(ctx, what+"claim", claim, nativeRate)
}
