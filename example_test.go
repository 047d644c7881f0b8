package streamwright_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/workers"
)

// submitGreeting is the README's client. The URL is that of `engine serve`:
// nats://127.0.0.1:4222.
func submitGreeting(ctx context.Context, url string) error {
	c, err := streamwright.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close()
	sub, err := c.Submit(ctx, streamwright.Item{Type: "greet", Params: map[string]string{"name": "Ada"}})
	if err != nil {
		return err
	}
	item, err := c.Wait(ctx, sub.ID)
	fmt.Println(item.State, string(item.Result))
	return err
}

// engineWithWorker is an engine in memory that other connections reach, with a
// worker that greets.
func engineWithWorker(ctx context.Context) (url string, stop func()) {
	e, err := embedded.Start(ctx, embedded.Options{Memory: true, NATSListen: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	nc, err := e.Connect()
	if err != nil {
		log.Fatal(err)
	}
	w, err := workers.New(nc, workers.Config{})
	if err != nil {
		log.Fatal(err)
	}
	type person struct{ Name string }
	workers.Handle(w, "greet", func(_ context.Context, it *workers.Item[person]) (string, error) {
		return "hello " + it.Params.Name, nil
	})
	if err := w.Start(ctx); err != nil {
		log.Fatal(err)
	}
	return e.URL(), func() {
		err := w.Stop(ctx)
		nc.Close()
		if err := errors.Join(err, e.Stop(ctx)); err != nil {
			log.Fatal(err)
		}
	}
}

// Submit an item and wait for its outcome.
func Example() {
	ctx := context.Background()
	url, stop := engineWithWorker(ctx)
	defer stop()
	if err := submitGreeting(ctx, url); err != nil {
		log.Fatal(err)
	}
	// Output: completed "hello Ada"
}

// Submit many items at once; each is accepted or refused on its own.
func ExampleClient_SubmitMany() {
	ctx := context.Background()
	url, stop := engineWithWorker(ctx)
	defer stop()
	c, err := streamwright.Connect(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	items := make([]streamwright.Item, 2_000)
	for i := range items {
		items[i] = streamwright.Item{Type: "thumbnail", Params: i, DedupKey: fmt.Sprint("picture-", i)}
	}
	items[7].Type = "Thumb Nail"
	out, err := c.SubmitMany(ctx, items)
	if err != nil {
		log.Fatal(err)
	}
	accepted := 0
	for i, s := range out {
		if s.Error != nil {
			fmt.Println("item", i, "is refused:", s.Error.Code)
			continue
		}
		accepted++
	}
	fmt.Println(accepted, "accepted")
	// Output:
	// item 7 is refused: bad_type
	// 1999 accepted
}

// Follow the events of a type from the beginning of the log.
func ExampleClient_Tail() {
	ctx := context.Background()
	url, stop := engineWithWorker(ctx)
	defer stop()
	c, err := streamwright.Connect(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Submit(ctx, streamwright.Item{Type: "greet", Params: map[string]string{"name": "Ada"}}); err != nil {
		log.Fatal(err)
	}
	done := errors.New("seen enough")
	err = c.Tail(ctx, streamwright.TailOptions{Types: []string{"greet"}, FromSeq: 1}, func(ev streamwright.Event) error {
		fmt.Println(ev.Kind)
		if ev.Kind == streamwright.KindCompleted {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		log.Fatal(err)
	}
	// Output:
	// type_configured
	// created
	// queued
	// claimed
	// running
	// completed
}

// Ask who holds a dedup key before a costly submission. The engine decides all
// the same: somebody else may submit in between.
func ExampleDedupKeys_Holder() {
	ctx := context.Background()
	url, stop := engineWithWorker(ctx)
	defer stop()
	c, err := streamwright.Connect(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		held, err := c.DedupKeys().Holder(ctx, "check", "project-17")
		if err == nil {
			fmt.Println("it is there already, and is", held.State)
			continue
		}
		if streamwright.CodeOf(err) != streamwright.CodeNotFound {
			log.Fatal(err)
		}
		sub, err := c.Submit(ctx, streamwright.Item{Type: "check", DedupKey: "project-17"})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("submitted:", sub.State)
	}
	// Output:
	// submitted: queued
	// it is there already, and is queued
}
