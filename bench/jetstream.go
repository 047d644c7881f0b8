package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/streamwright/streamwright/internal/measure"
)

// jetstreamSystem is a work queue stream on a NATS server, without an engine: what
// Streamwright stands on, and so the floor.
type jetstreamSystem struct{ d Durability }

const (
	queueStream  = "BENCH"
	queueSubject = "bench.work"
)

func (s jetstreamSystem) About() About {
	name, id := "JetStream, sync always", "jetstream-always"
	sync := "`sync_interval: always`"
	bulk := "bulk by atomic batches of orbit's `jetstreamext`, which share a sync"
	if s.d == Interval {
		name, id = "JetStream, sync interval", "jetstream-interval"
		sync = "`sync_interval: 1s` (default 2 m)"
		bulk = fmt.Sprintf("bulk by `PublishAsync` with at most %d unacknowledged", measure.MaxPending)
	}
	return About{
		ID: id, Product: "JetStream", Name: name, Durability: s.d,
		Versions: []string{"nats.go " + version("github.com/nats-io/nats.go")},
		Settings: []string{
			sync,
			"a file stream with work queue retention; one pull consumer with explicit acks, read by `Consume`",
			"submits by `Publish`; " + bulk,
			"an ack is sent when the handler returns, and not confirmed",
			"a message has no history, result, retry policy, priority or status: this is the floor, not a rival",
		},
	}
}

func (s jetstreamSystem) Start(ctx context.Context, h *Host, addr string) error {
	sync := "always"
	if s.d == Interval {
		sync = `"1s"`
	}
	file := filepath.Join(h.Dir, "nats.conf")
	text := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, sync_interval: %s }\n", addr, filepath.Join(h.Dir, "data"), sync)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	if err := h.Run(nil, h.Tools.NATS, "-c", file); err != nil {
		return err
	}
	return h.Ready(ctx, func(ctx context.Context) error {
		if err := listens(addr); err != nil {
			return err
		}
		q, err := openJetStream(addr, 0)
		if err != nil {
			return err
		}
		defer q.Conn.Close()
		_, err = q.JS.CreateStream(ctx, jetstream.StreamConfig{
			Name: queueStream, Subjects: []string{queueSubject}, Retention: jetstream.WorkQueuePolicy,
			Storage: jetstream.FileStorage, AllowAtomicPublish: true,
		})
		return err
	})
}

func openJetStream(addr string, slots int) (*measure.JetStream, error) {
	nc, err := nats.Connect("nats://" + addr)
	if err != nil {
		return nil, err
	}
	return measure.NewJetStream(nc, queueSubject, slots)
}

func (s jetstreamSystem) Dial(ctx context.Context, addr string, slots int) (measure.Queue, error) {
	q, err := openJetStream(addr, slots)
	if err != nil {
		return nil, err
	}
	q.Consumer, err = q.JS.CreateOrUpdateConsumer(ctx, queueStream, jetstream.ConsumerConfig{
		Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxAckPending: 10_000,
	})
	if err != nil {
		q.Conn.Close()
		return nil, err
	}
	if s.d == Fsync {
		return atomicJetStream{q}, nil
	}
	return q, nil
}

// atomicJetStream submits many items as one batch, which shares a sync.
type atomicJetStream struct{ *measure.JetStream }

// SubmitMany implements [measure.Queue].
func (q atomicJetStream) SubmitMany(ctx context.Context, ps []measure.Payload) error {
	ms := make([]*nats.Msg, len(ps))
	for i, p := range ps {
		ms[i] = &nats.Msg{Subject: queueSubject, Data: p.JSON(), Header: nats.Header{}}
	}
	_, err := jetstreamext.PublishMsgBatch(ctx, q.JS, ms)
	return err
}
