package workers_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
)

// tally counts what runs, by namespace.
type tally struct {
	mu   sync.Mutex
	now  map[streamwright.Namespace]int
	most int
	done map[streamwright.Namespace]int
}

func (c *tally) begin(ns streamwright.Namespace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now[ns]++
	sum := 0
	for _, n := range c.now {
		sum += n
	}
	c.most = max(c.most, sum)
}

func (c *tally) end(ns streamwright.Namespace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now[ns]--
	c.done[ns]++
}

func (c *tally) running(ns streamwright.Namespace) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now[ns]
}

// namespaces starts an engine with the namespaces default and acme, and returns a client of
// each.
func namespaces(t *testing.T) (def, acme *streamwright.Client) {
	t.Helper()
	e, err := embedded.Start(t.Context(), embedded.Options{Memory: true, NATSListen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	need.NoReload(t)
	var clients []*streamwright.Client
	for _, ns := range []string{"", "acme"} {
		c, err := streamwright.Connect(t.Context(), e.URL(), streamwright.WithNamespace(ns))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if clients = append(clients, c); ns == "" {
			if _, err := c.Namespaces().Set(t.Context(), "acme", streamwright.NamespaceChange{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := clients[1].Workers().List(t.Context()); err != nil { // it answers once it works
		t.Fatal(err)
	}
	return clients[0], clients[1]
}

func submit(t *testing.T, c *streamwright.Client, n int) (ids []string) {
	t.Helper()
	for range n {
		sub, err := c.Submit(t.Context(), streamwright.Item{Type: "wait"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, sub.ID)
	}
	return ids
}

func await(t *testing.T, c *streamwright.Client, ids []string) {
	t.Helper()
	for _, id := range ids {
		if it, err := c.Wait(t.Context(), id); err != nil || it.State != streamwright.StateCompleted {
			t.Fatalf("%s: %s, %v", id, it.State, err)
		}
	}
}

// One worker serves two namespaces. No more handlers run than it has slots; one namespace
// may have them all, and gives the other its part when that has work.
func TestNamespacesShareTheSlots(t *testing.T) {
	need.Seconds(t)
	def, acme := namespaces(t)
	seen := &tally{now: map[streamwright.Namespace]int{}, done: map[streamwright.Namespace]int{}}
	w, err := streamwright.NewWorker(def, workers.Config{Concurrency: 4, Namespaces: []streamwright.Namespace{"default", "acme"}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	workers.HandleRaw(w, "wait", func(ctx context.Context, it *workers.RawItem) (any, error) {
		seen.begin(it.Namespace)
		defer seen.end(it.Namespace)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return it.Namespace, ctx.Err()
	})
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceValue(func() error { return w.Stop(context.Background()) })
	defer func() { _ = stop() }()
	for _, c := range []*streamwright.Client{def, acme} {
		list, err := c.Workers().List(t.Context())
		if err != nil || len(list) != 1 || list[0].Worker != string(w.ID()) {
			t.Fatalf("%s knows the workers %+v, %v", c.Namespace(), list, err)
		}
	}

	ids := submit(t, def, 40)
	need.Eventually(t, "default has all slots", func() bool { return seen.running("default") == 4 })
	others := submit(t, acme, 40)
	need.Eventually(t, "an item of acme has come, and gone back", func() bool { return w.Stats().Released > 0 })
	if n := seen.running("acme"); n != 0 {
		t.Errorf("%d of acme run beside 4", n)
	}
	for range 4 {
		release <- struct{}{}
	}
	need.Eventually(t, "acme has its part", func() bool { return seen.running("acme") >= 1 })
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 40 + 40 - 4 {
			release <- struct{}{}
			time.Sleep(20 * time.Millisecond)
			if d, a := seen.running("default"), seen.running("acme"); d == 2 && a == 2 {
				close(release) // they have equal parts
				return
			}
		}
		t.Error("the namespaces never had equal parts")
		close(release)
	}()
	<-done
	await(t, def, ids)
	await(t, acme, others)
	if s := w.Stats(); s.Completed != 80 || !s.Registered {
		t.Errorf("%+v", s)
	}
	if seen.most != 4 {
		t.Errorf("%d handlers ran at once", seen.most)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	for _, c := range []*streamwright.Client{def, acme} {
		if list, err := c.Workers().List(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("%s knows the workers %+v, %v", c.Namespace(), list, err)
		}
	}
}

// A worker that is drained in one namespace goes on in the other, and ends when it is
// drained in both.
func TestDrainInEachNamespace(t *testing.T) {
	def, acme := namespaces(t)
	w, err := streamwright.NewWorker(acme, workers.Config{Namespaces: []streamwright.Namespace{"acme", "default"}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	workers.HandleRaw(w, "wait", func(context.Context, *workers.RawItem) (any, error) { return nil, nil })
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.WithoutCancel(t.Context())) }()
	need.Eventually(t, "registered", func() bool { return w.Stats().Registered })
	if err := acme.Workers().Drain(t.Context(), string(w.ID())); err != nil {
		t.Fatal(err)
	}
	await(t, def, submit(t, def, 3))
	select {
	case err := <-ended:
		t.Fatalf("the worker has ended: %v", err)
	default:
	}
	if err := def.Workers().Drain(t.Context(), string(w.ID())); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestBadNamespaces(t *testing.T) {
	def, _ := namespaces(t)
	_, err := streamwright.NewWorker(def, workers.Config{Namespaces: []streamwright.Namespace{"a", "B", "a"}})
	for _, says := range []string{`"B"`, `"a" twice`} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %s", err, says)
		}
	}
	w, err := streamwright.NewWorker(def, workers.Config{Namespaces: []streamwright.Namespace{"default", "acme"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := workers.HandleRaw(w, "A", nil); err == nil {
		t.Error("a bad type is taken")
	}
	if err := w.Start(t.Context()); err == nil {
		t.Error("a worker with a mistake starts")
	}
	if err := w.Stop(t.Context()); err != nil && !errors.Is(err, workers.ErrNotNew) {
		t.Error(err)
	}
}
