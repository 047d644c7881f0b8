package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/measure"
)

// streamwrightSystem is the engine as its users run it: engine serve with a
// configuration file, the Go client, and the Go worker.
type streamwrightSystem struct{ d Durability }

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
		if err := listens(addr); err != nil {
			return err
		}
		c, err := streamwright.Connect(ctx, "nats://"+addr)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Engine().Stats(ctx)
		return err
	})
}

func (s streamwrightSystem) Dial(ctx context.Context, addr string, slots int) (measure.Queue, error) {
	c, err := streamwright.Connect(ctx, "nats://"+addr)
	if err != nil {
		return nil, err
	}
	dial := func() (*nats.Conn, error) { return nats.Connect("nats://" + addr) }
	return &measure.Streamwright{Client: c, Dial: dial, Type: "bench", Slots: slots}, nil
}
