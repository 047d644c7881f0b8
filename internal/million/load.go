package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// What is loaded: sizes of the ranges that filters ask for.
const (
	customers  = 10_000 // values of one label: about a hundred items each
	tenants    = 300
	causes     = 40 // different errors
	loadSlots  = 500
	reportTime = 10 * time.Second
)

// served are the types that have a worker while loading; idle types have none, so
// their items stay queued.
var (
	served = []string{"email", "charge", "sync", "thumbnail", "index", "report", "export", "notify"}
	idle   = []string{"archive", "reindex", "audit", "cleanup"}
)

// work is the params of a loaded item.
type work struct {
	N    int    `json:"n"`
	To   string `json:"to"`
	Fail int    `json:"fail,omitempty"` // which cause it dies of
}

// item is the i-th item: six in ten complete, one in twenty dies, the others wait.
func item(i int) streamwright.Item {
	h := mix(uint64(i))
	w := work{N: i, To: fmt.Sprintf("customer-%d@example.org", h%customers)}
	it := streamwright.Item{
		Type: served[h>>8%uint64(len(served))], MaxAttempts: 1, Tenant: fmt.Sprintf("tenant-%d", h>>16%tenants),
		Labels: map[string]string{"region": []string{"eu", "us", "ap", "sa", "af"}[h>>24%5], "customer": fmt.Sprintf("c%d", h%customers)},
	}
	switch p := h >> 32 % 100; {
	case p < 5:
		w.Fail = 1 + int(h>>40%causes)
	case p >= 95:
		it.Delay = time.Duration(1+h>>40%240) * time.Hour
	case p >= 65:
		it.Type = idle[h>>40%uint64(len(idle))]
	}
	if i%50 == 0 {
		it.DedupKey = fmt.Sprintf("order-%d", i)
	}
	it.Params = w
	return it
}

// mix spreads the bits of a number (splitmix64's last step).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// fail is the error of a cause, with numbers in it as real ones have.
func fail(w work) error {
	host := fmt.Sprintf("10.0.%d.%d", w.N%7, w.N%250)
	texts := []string{"connection to %s refused", "%s answered 503 service unavailable", "lookup of %s timed out", "certificate of %s has expired", "%s closed the stream in mid-message"}
	return workers.WithCode(workers.Permanent(fmt.Errorf(texts[w.Fail%len(texts)]+" (step %d)", host, w.Fail)), fmt.Sprintf("step_%d", w.Fail))
}

// load submits the items, works on them, and waits until nothing is left to do.
func load(ctx context.Context, o options, out io.Writer) error {
	c, err := streamwright.Connect(ctx, o.server)
	if err != nil {
		return err
	}
	defer c.Close()
	stop, err := startWorker(ctx, o.server, "loader", loadSlots, served, func(_ context.Context, _ *workers.RawItem, w work) (any, error) {
		if w.Fail > 0 {
			return nil, fail(w)
		}
		return nil, nil
	})
	if err != nil {
		return err
	}
	start, last, n := time.Now(), time.Now(), 0
	err = c.SubmitSeq(ctx, items(o.items), func(s streamwright.Submitted) error {
		if n++; time.Since(last) > reportTime {
			last = time.Now()
			fmt.Fprintf(out, "%d submitted in %v\n", n, time.Since(start).Round(time.Second))
		}
		return s.Error.Err()
	})
	if err == nil {
		err = settled(ctx, c)
	}
	fmt.Fprintf(out, "%d items in %v\n", n, time.Since(start).Round(time.Second))
	return errors.Join(err, stop())
}

func items(n int) iter.Seq[streamwright.Item] {
	return func(yield func(streamwright.Item) bool) {
		for i := range n {
			if !yield(item(i)) {
				return
			}
		}
	}
}

// settled waits until no item of a served type is left that could run now. An engine
// that is too busy to say is asked again.
func settled(ctx context.Context, c *streamwright.Client) error {
	for {
		stats, err := c.Engine().Stats(ctx)
		var refused *events.Error
		if err != nil && (ctx.Err() != nil || !errors.As(err, &refused) || refused.Code != events.CodeTimeout) {
			return err
		}
		busy := stats.States["claimed"] + stats.States["running"]
		for _, t := range stats.Types {
			if slices.Contains(served, t.Type) {
				busy += t.States["queued"] - t.Scheduled
			}
		}
		if err == nil && busy == 0 {
			return nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// startWorker starts a worker on a connection of its own.
func startWorker(ctx context.Context, server, id string, slots int, types []string, fn func(context.Context, *workers.RawItem, work) (any, error)) (stop func() error, err error) {
	nc, err := nats.Connect(server, nats.Name("million-"+id))
	if err != nil {
		return nil, err
	}
	w, err := workers.New(nc, workers.Config{ID: events.WorkerID(id), Concurrency: slots, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		nc.Close()
		return nil, err
	}
	for _, t := range types {
		workers.HandleRaw(w, t, func(ctx context.Context, it *workers.RawItem) (any, error) {
			p, err := paramsOf(it)
			if err != nil {
				return nil, workers.Permanent(err)
			}
			return fn(ctx, it, p)
		})
	}
	if err := w.Start(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return func() error {
		defer nc.Close()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		return w.Stop(ctx)
	}, nil
}
