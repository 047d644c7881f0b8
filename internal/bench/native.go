package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// nativeRate is how many items a second the latency of native workers is
// measured at.
const nativeRate = 300

// measureNative is (h): items of a type with protocol ack, worked off by an
// ordinary JetStream consumer, and beside them the same items by the claim
// protocol with as many slots, in the same run.
func (r *rig) measureNative(ctx context.Context) error {
	native, err := r.nativeBurnDown(ctx)
	if err != nil {
		return err
	}
	claimed, err := r.claimBurnDown(ctx)
	if err != nil {
		return err
	}
	r.t.row("(h) native burn-down, of the claim protocol's", native/claimed, "×", 0)
	return r.nativeLatency(ctx)
}

// nativeType makes a type's protocol ack, with room for as many runs as the
// worker has slots.
func (r *rig) nativeType(ctx context.Context, typ string) error {
	_, err := r.client.Types().Configure(ctx, typ, map[string]any{"protocol": events.ProtocolAck, "capacity": r.o.Slots})
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
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
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
	return r.burned(ctx, typ, "(h) burn-down by an ordinary consumer, protocol ack", start)
}

func (r *rig) claimBurnDown(ctx context.Context) (float64, error) {
	const typ = "native-claim"
	if err := r.submitAll(ctx, typ, r.o.Items, nil); err != nil {
		return 0, err
	}
	start := time.Now()
	stop, err := r.worker(ctx, r.o.Slots, typ, nothing)
	if err != nil {
		return 0, err
	}
	rate, err := r.burned(ctx, typ, "(h) burn-down by the claim protocol", start)
	return rate, errors.Join(err, stop())
}

// burned waits for the end of a backlog.
func (r *rig) burned(ctx context.Context, typ, what string, start time.Time) (float64, error) {
	end, err := r.completed(ctx, typ, r.o.Items)
	if err != nil {
		return 0, err
	}
	r.rate(what, r.o.Items, end.Sub(start))
	return float64(r.o.Items) / end.Sub(start).Seconds(), nil
}

// nativeLatency is the time from a publish to the callback, at a modest rate.
func (r *rig) nativeLatency(ctx context.Context) error {
	const native, claim = "native-latency", "native-latency-claim"
	if err := r.nativeType(ctx, native); err != nil {
		return err
	}
	n := nativeRate * int(r.o.LatencyFor/time.Second)
	for _, way := range []struct {
		typ, what string
		start     func(saw func(params []byte)) (func() error, error)
	}{
		{native, "protocol ack", func(saw func([]byte)) (func() error, error) {
			stop, err := r.nativeWorker(ctx, native, func(m jetstream.Msg) { saw(m.Data()) })
			return func() error { stop(); return nil }, err
		}},
		{claim, "protocol claim", func(saw func([]byte)) (func() error, error) {
			return r.worker(ctx, 64, claim, func(_ context.Context, it *workers.RawItem) (any, error) { saw(it.Raw); return nil, nil })
		}},
	} {
		p, base := newProbe(n), time.Now()
		stop, err := way.start(func(params []byte) {
			if sent, err := sentAt(base, params); err == nil {
				p.saw(sent)
			}
		})
		if err != nil {
			return err
		}
		if err := openLoop(ctx, r.client.Conn(), "work.submit."+way.typ, base, nativeRate, n); err != nil {
			return err
		}
		select {
		case <-p.all:
		case <-time.After(30 * time.Second):
			return fmt.Errorf("%d of %d items reached a handler", len(p.got), n)
		case <-ctx.Done():
			return ctx.Err()
		}
		r.t.quantiles(fmt.Sprintf("(h) publish to handler at %d/s, %s", nativeRate, way.what), p.got)
		if err := stop(); err != nil {
			return err
		}
	}
	return nil
}
