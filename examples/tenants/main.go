// Tenants gives every tenant its fair share: at most two requests to a slow
// service at once, and no more than 20 begun in a second. A tenant with a
// thousand items delays no other.
//
//	engine serve &
//	go run ./examples/tenants
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/workers"
)

// Request is one request to the service.
type Request struct {
	N int `json:"n"`
}

// The limits are the engine's: they hold however many workers there are.
var request = streamwright.Define[Request, string]("slow_request").WithSettings(streamwright.Settings{
	GroupBy:       new("tenant"),
	GroupCapacity: new(2),
	Rates:         []streamwright.RateLimit{{Per: "tenant", At: "dispatch", N: 20, Interval: time.Second}},
})

func main() {
	ctx := context.Background()
	c, err := streamwright.Connect(ctx, cmp.Or(os.Getenv("NATS_URL"), "nats://127.0.0.1:4222"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := run(ctx, c, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, c *streamwright.Client, out io.Writer) error {
	if _, err := request.Configure(ctx, c); err != nil {
		return err
	}
	w, err := streamwright.NewWorker(c, workers.Config{Concurrency: 8})
	if err != nil {
		return err
	}
	request.Handle(w, func(_ context.Context, it *workers.Item[Request]) (string, error) {
		time.Sleep(10 * time.Millisecond)
		return "done", nil
	})

	// The large tenant comes first, with ten times as much.
	var items []streamwright.Item
	for _, tenant := range []struct {
		name  string
		items int
	}{{"large", 100}, {"small", 10}} {
		for n := range tenant.items {
			items = append(items, request.Item(Request{n}, func(it *streamwright.Item) { it.Tenant = tenant.name }))
		}
	}
	subs, err := c.SubmitMany(ctx, items)
	if err != nil {
		return err
	}
	if err := w.Start(ctx); err != nil {
		return err
	}
	defer w.Stop(ctx)
	if _, err := request.Wait(ctx, c, subs[len(subs)-1].ID); err != nil {
		return err
	}
	left := 0
	for item, err := range c.All(ctx, streamwright.Filter{Type: string(request.Type()), State: "queued"}) {
		if err != nil {
			return err
		}
		if item.Tenant != "large" {
			return fmt.Errorf("an item of tenant %s still waits", item.Tenant)
		}
		left++
	}
	fmt.Fprintf(out, "the small tenant is done; of the large one's 100 items, more than half wait: %v\n", left > 50)
	return nil
}
