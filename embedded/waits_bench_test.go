package embedded

import (
	"context"
	"io/fs"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
)

// waiter works on the type "x": it parks each item, and sends the time at which the run
// behind the wait begins.
func waiter(b *testing.B, e *Engine, slots int) <-chan time.Time {
	b.Helper()
	nc, err := e.Connect()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	w, err := workers.New(nc, workers.Config{Concurrency: slots, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	begun := make(chan time.Time, 1)
	workers.HandleRaw(w, "x", func(_ context.Context, it *workers.RawItem) (any, error) {
		if it.Waited == nil && it.Labels["plain"] == "" {
			return nil, workers.Wait("go").For(time.Hour)
		}
		begun <- time.Now()
		return nil, nil
	})
	if err := w.Start(testContext(b)); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = w.Stop(testContext(b)) })
	return begun
}

// BenchmarkSignal measures the time from a signal to the start of the run that is given it,
// beside the time from a submission to its start.
func BenchmarkSignal(b *testing.B) {
	e := mustStart(b, Options{Dir: b.TempDir(), NATSListen: config.Off, HTTP: config.Off})
	c := mustClient(b, e)
	begun := waiter(b, e, 4)
	ctx := context.Background()
	var signals, submits []time.Duration
	for b.Loop() {
		s, err := c.Submit(ctx, streamwright.Item{Type: "x"})
		if err != nil {
			b.Fatal(err)
		}
		need.Eventually(b, "the item waits", func() bool {
			it, err := c.Get(ctx, s.ID)
			return err == nil && it.WaitsFor != nil
		})
		sent := time.Now()
		if _, err := c.Signal(ctx, s.ID, streamwright.Signal{Name: "go"}); err != nil {
			b.Fatal(err)
		}
		signals = append(signals, (<-begun).Sub(sent))
		sent = time.Now()
		if _, err := c.Submit(ctx, streamwright.Item{Type: "x", Labels: map[string]string{"plain": "1"}}); err != nil {
			b.Fatal(err)
		}
		submits = append(submits, (<-begun).Sub(sent))
	}
	for name, list := range map[string][]time.Duration{"signal": signals, "submit": submits} {
		slices.Sort(list)
		b.ReportMetric(float64(list[len(list)/2].Microseconds()), "µs/"+name+"-p50")
		b.ReportMetric(float64(list[len(list)*99/100].Microseconds()), "µs/"+name+"-p99")
	}
}

// BenchmarkHundredThousand measures what 100,000 items take that wait for a signal, beside as
// many that are queued: memory of the heap, and disk.
func BenchmarkHundredThousand(b *testing.B) {
	const n = 100_000
	for _, waiting := range []bool{false, true} {
		name := map[bool]string{false: "queued", true: "waiting"}[waiting]
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			e := mustStart(b, Options{Dir: dir, NATSListen: config.Off, HTTP: config.Off, Durability: config.Interval})
			c := mustClient(b, e)
			if waiting {
				waiter(b, e, 1000)
			}
			ctx := context.Background()
			before := memory()
			for b.Loop() {
				if err := c.SubmitSeq(ctx, some(n), accepted); err != nil {
					b.Fatal(err)
				}
				if waiting {
					need.Eventually(b, "all wait", func() bool {
						p, err := c.List(ctx, streamwright.Filter{State: events.StateQueued.String(), Type: "x", Limit: 1})
						return err == nil && len(p.Items) == 0
					})
				}
			}
			runtime.GC()
			b.ReportMetric((memory()-before)/(1<<20), "MiB-heap")
			b.ReportMetric(float64(size(b, filepath.Join(dir, "store")))/n, "store-B/item")
		})
	}
}

// size returns the bytes of the files under a folder.
func size(b *testing.B, dir string) (n int64) {
	b.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}
