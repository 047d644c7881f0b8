package streamwright_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/streamwright/streamwright"
)

// Submit an item and wait for its outcome. It needs an engine, as `engine
// serve` starts one, and a worker for the type.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := streamwright.Connect(ctx, "nats://127.0.0.1:4222")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	sub, err := c.Submit(ctx, streamwright.Item{Type: "email", Params: map[string]string{"to": "ada@example.org"}})
	if err != nil {
		log.Fatal(err)
	}
	item, err := c.Wait(ctx, sub.ID)
	fmt.Println(item.State, string(item.Result), err)
}

// Submit many items at once; each is accepted or refused on its own.
func ExampleClient_SubmitMany() {
	ctx := context.Background()
	c, err := streamwright.Connect(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	items := make([]streamwright.Item, 10_000)
	for i := range items {
		items[i] = streamwright.Item{Type: "thumbnail", Params: i, DedupKey: fmt.Sprint("picture-", i)}
	}
	out, err := c.SubmitMany(ctx, items)
	for i, s := range out {
		if s.Error != nil {
			log.Printf("item %d: %v", i, s.Error)
		}
	}
	if err != nil {
		log.Fatal(err)
	}
}

// Tail the events of dead e-mails, the last hour's first.
func ExampleClient_Tail() {
	ctx := context.Background()
	c, err := streamwright.Connect(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	err = c.Tail(ctx, streamwright.TailOptions{
		Types: []string{"email"}, Kinds: []string{"dead"}, Since: time.Now().Add(-time.Hour),
	}, func(ev streamwright.Event) error {
		fmt.Println(ev.At, ev.ID, string(ev.Data))
		return nil
	})
	log.Fatal(err)
}
