package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

// jetstreamSystem is a work queue stream on a NATS server, without an engine: what
// Streamwright stands on, and so the floor.
type jetstreamSystem struct{ d Durability }

const (
	queueStream  = "BENCH"
	queueSubject = "bench.work"
	// queuePending bounds the unacknowledged publishes of one bulk batch.
	queuePending = 4096
)

func (s jetstreamSystem) About() About {
	name, id := "JetStream, sync always", "jetstream-always"
	sync := "`sync_interval: always`"
	bulk := "bulk by atomic batches of orbit's `jetstreamext`, which share a sync"
	if s.d == Interval {
		name, id = "JetStream, sync interval", "jetstream-interval"
		sync = "`sync_interval: 1s` (default 2 m)"
		bulk = fmt.Sprintf("bulk by `PublishMsgAsync` with at most %d unacknowledged", queuePending)
	}
	return About{
		ID: id, Product: "JetStream", Name: name, Durability: s.d,
		Versions: []string{"nats.go " + version("github.com/nats-io/nats.go")},
		Settings: []string{
			sync,
			"a file stream with work queue retention; one pull consumer with explicit acks, read by `Consume`",
			"submits by `PublishMsg`; " + bulk,
			"an ack is sent when the handler returns, and not confirmed",
			"a message has no history, result, retry policy, priority or status: this is the floor, not a rival",
		},
	}
}

func (t *Tools) buildNATS(ctx context.Context, dir string) error {
	if t.NATS != "" {
		return nil
	}
	t.NATS = filepath.Join(dir, "nats-server")
	// In the folder bench, whose go.mod has it as a tool.
	_, err := output(ctx, filepath.Join(t.Root, "bench"), "go", "build", "-o", t.NATS, "github.com/nats-io/nats-server/v2")
	return err
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
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		_ = conn.Close()
		nc, js, err := openJetStream(addr)
		if err != nil {
			return err
		}
		defer nc.Close()
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name: queueStream, Subjects: []string{queueSubject}, Retention: jetstream.WorkQueuePolicy,
			Storage: jetstream.FileStorage, AllowAtomicPublish: true,
		})
		return err
	})
}

func openJetStream(addr string) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect("nats://" + addr)
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(queuePending))
	return nc, js, err
}

func (s jetstreamSystem) Dial(ctx context.Context, addr string, slots int) (Peer, error) {
	nc, js, err := openJetStream(addr)
	if err != nil {
		return nil, err
	}
	cons, err := js.CreateOrUpdateConsumer(ctx, queueStream, jetstream.ConsumerConfig{
		Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxAckPending: 10_000,
	})
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &jetstreamPeer{d: s.d, nc: nc, js: js, cons: cons, slots: make(chan struct{}, slots)}, nil
}

type jetstreamPeer struct {
	d     Durability
	nc    *nats.Conn
	js    jetstream.JetStream
	cons  jetstream.Consumer
	slots chan struct{}
}

func message(v Payload) (*nats.Msg, error) {
	doc, err := json.Marshal(v)
	return &nats.Msg{Subject: queueSubject, Data: doc, Header: nats.Header{}}, err
}

func (p *jetstreamPeer) Submit(ctx context.Context, v Payload) error {
	m, err := message(v)
	if err != nil {
		return err
	}
	_, err = p.js.PublishMsg(ctx, m)
	return err
}

func (p *jetstreamPeer) SubmitMany(ctx context.Context, vs []Payload) error {
	ms := make([]*nats.Msg, len(vs))
	for i, v := range vs {
		var err error
		if ms[i], err = message(v); err != nil {
			return err
		}
	}
	if p.d == Fsync {
		_, err := jetstreamext.PublishMsgBatch(ctx, p.js, ms)
		return err
	}
	acks := make([]jetstream.PubAckFuture, len(ms))
	for i, m := range ms {
		var err error
		if acks[i], err = p.js.PublishMsgAsync(m); err != nil {
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

func (p *jetstreamPeer) Work(_ context.Context, handle func(Payload)) (func() error, error) {
	run, err := p.cons.Consume(func(m jetstream.Msg) {
		p.slots <- struct{}{}
		go func() {
			defer func() { <-p.slots }()
			var v Payload
			if json.Unmarshal(m.Data(), &v) != nil {
				_ = m.Term() // the tally misses it
				return
			}
			handle(v)
			_ = m.Ack() // fails only without a connection, which Drained tells
		}()
	})
	if err != nil {
		return nil, err
	}
	return func() error {
		run.Stop()
		<-run.Closed()
		return nil
	}, nil
}

func (p *jetstreamPeer) Drained(ctx context.Context, _ int) (bool, error) {
	info, err := p.cons.Info(ctx)
	if err != nil {
		return false, err
	}
	return info.NumPending == 0 && info.NumAckPending == 0, nil
}

func (p *jetstreamPeer) Close() error {
	err := p.nc.Drain()
	if errors.Is(err, nats.ErrConnectionClosed) {
		return nil
	}
	return err
}
