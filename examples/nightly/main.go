// Nightly sets a schedule and handles the items that it makes. The schedule
// lives in the engine: it ticks whether this program runs or not, and setting
// it again changes nothing.
//
//	engine serve &
//	go run ./examples/nightly
//	engine schedules fire nightly-report   # in another terminal: don't wait for the night
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/workers"
)

// Scope selects what a report covers.
type Scope struct {
	Full bool `json:"full"`
}

var report = streamwright.Define[Scope, string]("report")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, err := streamwright.Connect(ctx, cmp.Or(os.Getenv("NATS_URL"), "nats://127.0.0.1:4222"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := schedule(ctx, c); err != nil {
		log.Fatal(err)
	}
	w, err := newWorker(c)
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// schedule makes a report due at three in the morning in Berlin, summer and
// winter. A report that is still running when the next is due takes its place.
func schedule(ctx context.Context, c *streamwright.Client) error {
	set, err := c.Schedules().Set(ctx, streamwright.Schedule{
		Name: "nightly-report", Type: string(report.Type()),
		Cron: "0 3 * * *", Zone: "Europe/Berlin", Overlap: "merge", Params: Scope{Full: true},
	})
	if err == nil {
		fmt.Println("next report:", set.Next)
	}
	return err
}

func newWorker(c *streamwright.Client) (*workers.Worker, error) {
	w, err := streamwright.NewWorker(c, workers.Config{})
	if err != nil {
		return nil, err
	}
	report.Handle(w, func(_ context.Context, it *workers.Item[Scope]) (string, error) {
		return fmt.Sprintf("report %s, full: %v", it.ID, it.Params.Full), nil
	})
	return w, nil
}
