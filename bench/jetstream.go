package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/streamwright/streamwright/internal/measure"
)

var queueStream = jetstream.StreamConfig{
	Name: "BENCH", Subjects: []string{"bench.work"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage, AllowAtomicPublish: true,
}

// jetstreamSystem is a work queue stream on a NATS server, without an engine: what
// Streamwright stands on, and so the floor.
func jetstreamSystem(d Durability) System {
	return System{
		ID: d.of("jetstream-always", "jetstream-interval"), Product: "JetStream", Name: d.of("JetStream, sync always", "JetStream, sync interval"), Durability: d,
		Versions: []string{version("nats.go", "github.com/nats-io/nats.go")},
		Settings: []string{
			d.of("`sync_interval: always`", "`sync_interval: 1s` (default 2 m)"),
			"a file stream with work queue retention; one pull consumer with explicit acks, read by `Consume`",
			"submits by `Publish`; bulk by " + d.of("atomic batches of orbit's `jetstreamext`, which share a sync", fmt.Sprintf("`PublishAsync` with at most %d unacknowledged", measure.MaxPending)),
			"an ack is sent when the handler returns, and not confirmed",
			"a message has no history, result, retry policy, priority or status: this is the floor, not a rival",
		},
		prepare: func(ctx context.Context, t *Tools) (string, error) {
			return t.build(ctx, filepath.Join(t.Root, "bench"), "github.com/nats-io/nats-server/v2") // a tool of that module
		},
		start: func(_ context.Context, h *Host, addr string) error {
			file := filepath.Join(h.Dir, "nats.conf")
			text := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, sync_interval: %q }\n", addr, filepath.Join(h.Dir, "data"), d.of("always", "1s"))
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				return err
			}
			return h.Run(nil, h.Servers["JetStream"], "-c", file)
		},
		ready: func(ctx context.Context, addr string) error {
			q, err := openJetStream(ctx, addr, 0)
			if err != nil {
				return err
			}
			q.Conn.Close()
			return nil
		},
		dial: func(ctx context.Context, addr string, slots int) (measure.Queue, error) {
			q, err := openJetStream(ctx, addr, slots)
			if err != nil {
				return nil, err
			}
			if d == Fsync {
				return atomicJetStream{q}, nil
			}
			return q, nil
		},
	}
}

func openJetStream(ctx context.Context, addr string, slots int) (*measure.JetStream, error) {
	nc, err := nats.Connect("nats://" + addr)
	if err != nil {
		return nil, err
	}
	q, err := measure.OpenJetStream(ctx, nc, queueStream, slots)
	if err != nil {
		nc.Close()
	}
	return q, err
}

// atomicJetStream submits many items as one batch, which shares a sync.
type atomicJetStream struct{ *measure.JetStream }

// SubmitMany implements [measure.Queue].
func (q atomicJetStream) SubmitMany(ctx context.Context, ps []measure.Payload) error {
	ms := make([]*nats.Msg, len(ps))
	for i, p := range ps {
		ms[i] = &nats.Msg{Subject: q.Subject, Data: p.JSON(), Header: nats.Header{}}
	}
	_, err := jetstreamext.PublishMsgBatch(ctx, q.JS, ms)
	return err
}
