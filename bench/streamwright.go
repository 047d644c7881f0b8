package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/workers"
)

// streamwrightSystem is the engine as its users run it: engine serve with a
// configuration file, the Go client, and the Go worker.
type streamwrightSystem struct{ d Durability }

const itemType = "bench"

// sync is the engine's name of the durability.
func (s streamwrightSystem) sync() string {
	if s.d == Fsync {
		return "always"
	}
	return "interval"
}

func (s streamwrightSystem) About() About {
	return About{
		ID: "streamwright-" + s.sync(), Product: "Streamwright", Name: "Streamwright, " + s.sync(), Durability: s.d,
		Versions: []string{"Streamwright at this commit"},
		Settings: []string{
			fmt.Sprintf("`engine serve` with `durability = %q`", s.sync()),
			"`[defaults] max_queued = 2_000_000`: the default refuses an item beyond 1,000,000",
			"submits by `Client.Submit`, bulk by `Client.SubmitMany`; a `workers.Worker` with the slots as its `Concurrency`",
			"five durable events an item; a claim is durable before its handler starts; ended items are kept for 24 h, as by default",
		},
	}
}

func (t *Tools) buildEngine(ctx context.Context, dir string) error {
	if t.Engine != "" {
		return nil
	}
	engine := filepath.Join(dir, "engine")
	_, err := output(ctx, t.Root, "go", "build", "-o", engine, "./cmd/engine")
	t.Engine = engine
	return err
}

func (s streamwrightSystem) Start(ctx context.Context, h *Host, addr string) error {
	file := filepath.Join(h.Dir, "engine.toml")
	text := fmt.Sprintf("[server]\ndir = %q\nnats_listen = %q\nhttp = \"off\"\ndurability = %q\nlog_level = \"warn\"\n\n[defaults]\nmax_queued = 2_000_000\n",
		filepath.Join(h.Dir, "data"), addr, s.sync())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	if err := h.Run(nil, h.Tools.Engine, "serve", "--config", file); err != nil {
		return err
	}
	return h.Ready(ctx, func(ctx context.Context) error {
		conn, err := net.Dial("tcp", addr) // Connect waits long for a server that is not there yet
		if err != nil {
			return err
		}
		_ = conn.Close()
		c, err := streamwright.Connect(ctx, "nats://"+addr)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Engine().Stats(ctx)
		return err
	})
}

func (s streamwrightSystem) Dial(ctx context.Context, addr string, slots int) (Peer, error) {
	c, err := streamwright.Connect(ctx, "nats://"+addr)
	if err != nil {
		return nil, err
	}
	return &streamwrightPeer{c: c, url: "nats://" + addr, slots: slots}, nil
}

type streamwrightPeer struct {
	c     *streamwright.Client
	url   string
	slots int
}

func (p *streamwrightPeer) Submit(ctx context.Context, v Payload) error {
	_, err := p.c.Submit(ctx, streamwright.Item{Type: itemType, Params: v})
	return err
}

func (p *streamwrightPeer) SubmitMany(ctx context.Context, vs []Payload) error {
	items := make([]streamwright.Item, len(vs))
	for i, v := range vs {
		items[i] = streamwright.Item{Type: itemType, Params: v}
	}
	out, err := p.c.SubmitMany(ctx, items)
	if err != nil {
		return err
	}
	for _, s := range out {
		if s.Error != nil {
			return s.Error.Err()
		}
	}
	return nil
}

// Work has a connection of its own, as a worker's process would.
func (p *streamwrightPeer) Work(ctx context.Context, handle func(Payload)) (func() error, error) {
	nc, err := nats.Connect(p.url)
	if err != nil {
		return nil, err
	}
	w, err := workers.New(nc, workers.Config{Concurrency: p.slots, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		nc.Close()
		return nil, err
	}
	workers.Handle(w, itemType, func(_ context.Context, it *workers.Item[Payload]) (any, error) {
		handle(it.Params)
		return nil, nil
	})
	stop := func() error {
		defer nc.Close()
		return w.Stop(context.WithoutCancel(ctx))
	}
	if err := w.Start(ctx); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

func (p *streamwrightPeer) Drained(ctx context.Context, n int) (bool, error) {
	s, err := p.c.Engine().Stats(ctx)
	if err != nil {
		return false, err
	}
	for _, t := range s.Types {
		if t.Type == itemType {
			return t.States["completed"] >= int64(n), nil
		}
	}
	return n == 0, nil
}

func (p *streamwrightPeer) Close() error {
	p.c.Close()
	return nil
}
