package embedded

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
)

// fewer returns n, or a twentieth of it under the race detector, which finds in so many
// what it would find in all.
func fewer(n int) int {
	if need.Race {
		return n / 20
	}
	return n
}

// family counts the runs of a spawn's children, by their number.
type family struct {
	size int
	pad  string // of each child's params

	mu    sync.Mutex
	runs  map[int]int // guarded by mu
	joins atomic.Int64
}

type member struct {
	N   int    `json:"n"`
	Pad string `json:"pad,omitempty"`
}

// handle serves the family's types.
func (f *family) handle(w *workers.Worker) {
	workers.Handle(w, "parent", func(_ context.Context, it *workers.Item[int]) (any, error) {
		if it.Continuation == nil {
			var children []workers.Child
			for n := range f.size {
				children = append(children, workers.Child{Type: "child", Params: member{n, f.pad}})
			}
			return workers.Spawn(children...).Then("join"), nil
		}
		f.joins.Add(1)
		for i, child := range it.Continuation.Children {
			var n int
			if err := child.Decode(&n); err != nil {
				return nil, err
			}
			if n != i {
				return nil, fmt.Errorf("child %d is %d", i, n)
			}
		}
		return len(it.Continuation.Children), nil
	})
	workers.Handle(w, "child", func(_ context.Context, it *workers.Item[member]) (any, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.runs == nil {
			f.runs = map[int]int{}
		}
		f.runs[it.Params.N]++
		return it.Params.N, nil
	})
}

// A spawn of ten thousand: each child runs once, and the parent goes on once,
// with the results of all, in order.
func TestSpawnOfTenThousand(t *testing.T) {
	slow(t)
	t.Parallel()
	for name, pad := range map[string]string{"small": "", "large": strings.Repeat("x", 700)} {
		t.Run(name, func(t *testing.T) {
			e := mustStart(t, Options{Memory: true, NATSListen: config.Off, HTTP: config.Off})
			c, ctx := mustClient(t, e), testContext(t)
			f := &family{size: fewer(events.MaxChildren), pad: pad}
			sub, err := c.Submit(ctx, streamwright.Item{Type: "parent", Params: 1})
			if err != nil {
				t.Fatal(err)
			}
			startSlots(t, e, 200, f.handle)
			it, err := c.Wait(ctx, sub.ID)
			if err != nil {
				t.Fatal(err)
			}
			if string(it.Result) != fmt.Sprint(f.size) || f.joins.Load() != 1 || len(f.runs) != f.size {
				t.Errorf("result %s, %d joins, %d children have run", it.Result, f.joins.Load(), len(f.runs))
			}
			for n, runs := range f.runs {
				if runs != 1 {
					t.Errorf("child %d has run %d times", n, runs)
				}
			}
			if it.Children.Total != f.size || it.Children.Live != 0 {
				t.Errorf("children %+v", it.Children)
			}
		})
	}
}

// A spawn whose children find little room in the queue is made as room comes.
func TestSpawnInPartsWaitsForRoom(t *testing.T) {
	slow(t)
	t.Parallel()
	e := mustStart(t, Options{Memory: true, NATSListen: config.Off, HTTP: config.Off})
	c, ctx := mustClient(t, e), testContext(t)
	if _, err := c.Types().Configure(ctx, "child", streamwright.Settings{MaxQueued: new(7)}); err != nil {
		t.Fatal(err)
	}
	f := &family{size: events.MaxWholeSpawn + 20}
	sub, err := c.Submit(ctx, streamwright.Item{Type: "parent", Params: 1})
	if err != nil {
		t.Fatal(err)
	}
	startSlots(t, e, 200, f.handle)
	it, err := c.Wait(ctx, sub.ID)
	if err != nil {
		t.Fatal(err)
	}
	if string(it.Result) != fmt.Sprint(f.size) || f.joins.Load() != 1 || len(f.runs) != f.size {
		t.Errorf("result %s, %d joins, %d children have run", it.Result, f.joins.Load(), len(f.runs))
	}
}

// A batch of ten thousand: progress, a callback once, a full count.
func TestBatchOfTenThousand(t *testing.T) {
	slow(t)
	t.Parallel()
	e := mustStart(t, Options{Memory: true, NATSListen: config.Off, HTTP: config.Off})
	c, ctx := mustClient(t, e), testContext(t)
	f := &family{}
	var called atomic.Int64
	items := make([]streamwright.Item, fewer(10_000))
	for i := range items {
		items[i] = streamwright.Item{Type: "child", Params: member{N: i}}
	}
	b, err := c.Batches().Submit(ctx, items, &streamwright.Item{Type: "callback"})
	if err != nil {
		t.Fatal(err)
	}
	it, err := c.Get(ctx, b.ID)
	if err != nil {
		t.Fatal(err)
	}
	if b := it.Batch; b == nil || b.Total != len(items) || !b.Sealed || b.Declared != len(items) || b.Done != 0 {
		t.Fatalf("before anything has run: %+v", b)
	}
	startSlots(t, e, 200, func(w *workers.Worker) {
		f.handle(w)
		workers.Handle(w, "callback", func(context.Context, *workers.Item[any]) (any, error) { called.Add(1); return nil, nil })
	})
	if _, err := c.Wait(ctx, b.Callback.ID); err != nil {
		t.Fatal(err)
	}
	it, err = c.Wait(ctx, b.ID)
	if err != nil {
		t.Fatal(err)
	}
	if b := it.Batch; b.Done != len(items) || b.Completed != len(items) || called.Load() != 1 || len(f.runs) != len(items) {
		t.Errorf("%+v; the callback ran %d times, %d items", b, called.Load(), len(f.runs))
	}
	if want := fmt.Sprintf(`{"total":%[1]d,"completed":%[1]d,"dead":0,"cancelled":0}`, len(items)); string(it.Result) != want {
		t.Errorf("result %s", it.Result)
	}
}

// startSlots starts a worker of so many slots, which is stopped with the test.
func startSlots(t *testing.T, e *Engine, slots int, handle func(*workers.Worker)) *workers.Worker {
	t.Helper()
	c := mustClient(t, e)
	w, err := workers.New(c.Conn(), workers.Config{Concurrency: slots, Names: c.Names(), Logger: e.log})
	if err != nil {
		t.Fatal(err)
	}
	handle(w)
	if err := w.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		if err := w.Stop(ctx); err != nil {
			t.Errorf("stop the worker: %v", err)
		}
	})
	return w
}
