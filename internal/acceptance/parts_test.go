package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// offspring counts the runs of a spawn's children.
type offspring struct {
	mu   sync.Mutex
	runs map[int]int // guarded by mu
}

func (o *offspring) ran(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.runs == nil {
		o.runs = map[int]int{}
	}
	o.runs[n]++
}

// parent spawns so many children, then counts them.
func parent(size int) workers.Handler {
	return func(_ context.Context, it *workers.RawItem) (any, error) {
		if it.Continuation != nil {
			for i, child := range it.Continuation.Children {
				var n int
				if err := child.Decode(&n); err != nil || n != i {
					return nil, errors.Join(err, fmt.Errorf("child %d is %d", i, n))
				}
			}
			return len(it.Continuation.Children), nil
		}
		var children []workers.Child
		for n := range size {
			children = append(children, workers.Child{Type: "child", Params: n})
		}
		return workers.Spawn(children...).Then("join"), nil
	}
}

// hand starts a worker that outlives the engine.
func (s *served) hand(cfg workers.Config, typ string, h workers.Handler) {
	s.t.Helper()
	nc := must(nats.Connect(s.url(), append(login(s.t, s.url(), access.Work.String()), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))...))(s.t)
	cfg.Logger = logTo(s.log)
	w := must(workers.New(nc, cfg))(s.t)
	workers.HandleRaw(w, typ, h)
	if err := w.Start(s.ctx); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = w.Stop(ctx)
		nc.Close()
	})
}

// killAt kills the engine once the item with this id has so many children, and
// starts it again.
func (s *served) killAt(id string, children int) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("%d children are made", children), func() bool {
		it := s.get(id)
		return it.Children != nil && it.Children.Total >= children
	})
	s.again()
}

// An engine that is killed again and again while it makes the children of a
// spawn makes each of them once, and the parent goes on once, with all.
func TestKilledWhileItSpawnsTenThousand(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	var o offspring
	id := s.submit(streamwright.Item{Type: "parent", Params: 0})
	s.hand(workers.Config{}, "parent", parent(events.MaxChildren))
	for _, children := range []int{0, 1, 2500, 6000} {
		s.killAt(id, children)
	}
	if it := s.get(id); it.State != events.StateWaiting {
		t.Fatalf("the parent is %s, with %+v", it.State, it.Children)
	}
	s.hand(workers.Config{Concurrency: 200}, "child", func(_ context.Context, it *workers.RawItem) (any, error) {
		var n int
		err := json.Unmarshal(it.Raw, &n)
		o.ran(n)
		return n, err
	})
	it := s.wait(id, events.StateCompleted)
	if string(it.Result) != fmt.Sprint(events.MaxChildren) || it.Children.Total != events.MaxChildren || len(o.runs) != events.MaxChildren {
		t.Errorf("result %s, children %+v, %d have run", it.Result, it.Children, len(o.runs))
	}
	for n, runs := range o.runs {
		if runs != 1 {
			t.Errorf("child %d has run %d times", n, runs)
		}
	}
	if n := strings.Count(strings.Join(s.kinds(id), " "), "completed"); n != 1 {
		t.Errorf("the parent has completed %d times: %v", n, s.kinds(id))
	}
	s.verify()
}

// A cancelled batch: nothing of it runs any more, whenever the engine is killed.
func TestCancelledBatchOverAKill(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	items := make([]streamwright.Item, 3000)
	for i := range items {
		items[i] = streamwright.Item{Type: "part", Params: i}
	}
	callback := streamwright.Item{Type: "finish"}
	b := must(s.c.Batches().Submit(s.ctx, items, &callback))(t)
	if state, _, err := s.c.Cancel(s.ctx, b.ID, ""); err != nil || state != events.StateCancelled {
		t.Fatalf("%s %v", state, err)
	}
	s.again()
	eventually(t, "all of the batch is cancelled", func() bool {
		n := s.get(b.ID).Batch
		return n.Cancelled == len(items) && n.Done == len(items)
	})
	s.wait(b.Callback.ID, events.StateCancelled)
	n := 0
	for it, err := range s.c.All(s.ctx, streamwright.Filter{Batch: b.ID}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; it.State != events.StateCancelled || it.Reason != "parent_cancelled" {
			t.Fatalf("%+v", it)
		}
	}
	if n != len(items) {
		t.Errorf("%d items are listed", n)
	}
	s.verify()
}

func TestBatchOnTheCommandLine(t *testing.T) {
	s := serve(t, "")
	id := strings.TrimSpace(cli(t, s.url(), "batches", "open", "--name", "nightly", "--callback", `finish {"a":1}`).out)
	cli(t, s.url(), "submit", "part", "1", "--batch", id).wants(t, 0)
	cli(t, s.url(), "submit", "part", "2", "--batch", id).wants(t, 0)
	cli(t, s.url(), "batches", "show", id).wants(t, 0, "nightly: 0 of 2 done (0 %), open: more may come")
	cli(t, s.url(), "batches", "seal", id).wants(t, 0, "0 of 2 done")
	cli(t, s.url(), "submit", "part", "3", "--batch", id).wants(t, 1, "is sealed, with 2 items", "wrong_state")
	cli(t, s.url(), "list", "--batch", id).wants(t, 0, "part")
	cli(t, s.url(), "why", id).wants(t, 0, "it waits for 2 of its 2 items")
	s.hand(workers.Config{}, "part", done)
	s.hand(workers.Config{}, "finish", done)
	cli(t, s.url(), "batches", "show", id, "--wait").wants(t, 0, "completed", "2 of 2 done (100 %)")
	cli(t, s.url(), "batches", "seal", "01JD3V6YB2M4C9W8ZK5T7QXRNE").wants(t, 1, "not_found")
}
