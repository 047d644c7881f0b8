package workers_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/workers"
	"github.com/streamwright/streamwright/workers/process"
)

type person struct{ Name string }

// runGreeter is the README's worker: it greets until ctx ends, and then lets
// what runs finish.
func runGreeter(ctx context.Context, url string) error {
	c, err := streamwright.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close()
	w, err := streamwright.NewWorker(c, workers.Config{Concurrency: 8})
	if err != nil {
		return err
	}
	workers.Handle(w, "greet", func(ctx context.Context, it *workers.Item[person]) (string, error) {
		return "hello " + it.Params.Name, nil
	})
	return w.Run(ctx)
}

// outcomeOf starts an engine in memory and the worker, submits one item and
// returns how it ended.
func outcomeOf(work func(context.Context, string) error, item streamwright.Item) string {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	e, err := embedded.Start(ctx, embedded.Options{Memory: true, NATSListen: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	worked := make(chan error, 1)
	go func() { worked <- work(ctx, e.URL()) }()
	c, err := e.Client(ctx)
	if err != nil {
		log.Fatal(err)
	}
	sub, err := c.Submit(ctx, item)
	if err != nil {
		log.Fatal(err)
	}
	done, err := c.Wait(ctx, sub.ID)
	if err != nil {
		log.Fatal(err)
	}
	c.Close()
	cancel()
	if err := errors.Join(<-worked, e.Stop(context.Background())); err != nil {
		log.Fatal(err)
	}
	return fmt.Sprint(done.State, " ", string(done.Result))
}

// A whole worker.
func Example() {
	fmt.Println(outcomeOf(runGreeter, streamwright.Item{Type: "greet", Params: person{"Ada"}}))
	// Output: completed "hello Ada"
}

// A worker whose handler is a program in any language.
func ExampleHandleRaw() {
	echo := func(ctx context.Context, url string) error {
		nc, err := nats.Connect(url)
		if err != nil {
			return err
		}
		defer nc.Close()
		w, err := workers.New(nc, workers.Config{})
		if err != nil {
			return err
		}
		workers.HandleRaw(w, "echo", process.Handler([]string{"cat"}))
		return w.Run(ctx)
	}
	fmt.Println(outcomeOf(echo, streamwright.Item{Type: "echo", Params: []int{1, 2, 3}}))
	// Output: completed [1,2,3]
}
