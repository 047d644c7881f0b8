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
func streamwrightSystem(d Durability) System {
	sync := d.of("always", "interval")
	return System{
		ID: "streamwright-" + sync, Product: "Streamwright", Name: "Streamwright, " + sync, Durability: d,
		Versions: []string{"Streamwright at this commit"},
		Settings: []string{
			fmt.Sprintf("`engine serve` with `durability = %q`", sync),
			"`[defaults] max_queued = 2_000_000`: the default refuses an item beyond 1,000,000",
			"submits by `Client.Submit`, bulk by `Client.SubmitMany`; a `workers.Worker` with the slots as its `Concurrency`",
			"five durable events an item; a claim is durable before its handler starts; ended items are kept for 24 h, as by default",
		},
		prepare: func(ctx context.Context, t *Tools) (string, error) { return t.build(ctx, t.Root, "./cmd/engine") },
		start: func(_ context.Context, h *Host, addr string) error {
			file := filepath.Join(h.Dir, "engine.toml")
			text := fmt.Sprintf("[server]\ndir = %q\nnats_listen = %q\nhttp = \"off\"\ndurability = %q\nlog_level = \"warn\"\n\n[defaults]\nmax_queued = 2_000_000\n",
				filepath.Join(h.Dir, "data"), addr, sync)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				return err
			}
			return h.Run(nil, h.Servers["Streamwright"], "serve", "--config", file)
		},
		ready: func(ctx context.Context, addr string) error {
			c, err := streamwright.Connect(ctx, "nats://"+addr)
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Engine().Stats(ctx)
			return err
		},
		dial: func(ctx context.Context, addr string, slots int) (measure.Queue, error) {
			c, err := streamwright.Connect(ctx, "nats://"+addr)
			if err != nil {
				return nil, err
			}
			dial := func() (*nats.Conn, error) { return nats.Connect("nats://" + addr) }
			return &measure.Streamwright{Client: c, Dial: dial, Type: "bench", Slots: slots}, nil
		},
	}
}
