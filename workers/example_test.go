package workers_test

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/workers"
	"github.com/streamwright/streamwright/workers/process"
)

type Email struct{ To, Text string }

func send(context.Context, Email) error { return nil }

// A whole worker.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	nc, err := nats.Connect(nats.DefaultURL, nats.MaxReconnects(-1))
	if err != nil {
		log.Fatal(err)
	}
	w, _ := workers.New(nc, workers.Config{Concurrency: 8})
	workers.Handle(w, "email", func(ctx context.Context, it *workers.Item[Email]) (any, error) {
		it.Log(workers.LevelInfo, "to "+it.Params.To)
		return nil, send(ctx, it.Params)
	})
	log.Print(w.Run(ctx))
}

// A worker whose handler is a program in any language.
func ExampleHandleRaw() {
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	w, _ := workers.New(nc, workers.Config{})
	workers.HandleRaw(w, "checksum", process.Handler([]string{"sha256sum"}))
	log.Print(w.Run(context.Background()))
}
