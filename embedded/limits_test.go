package embedded

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// serve runs a worker with so many slots until stop is called.
func serve(t *testing.T, e *Engine, slots int, handle func(context.Context, *workers.RawItem) (any, error), types ...string) (stop func()) {
	t.Helper()
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, nc, workers.Config{Names: e.names(), Concurrency: slots}, handle, types...)
}

// serveOn runs a worker on a connection, which it closes, until stop is called.
func serveOn(t *testing.T, nc *nats.Conn, cfg workers.Config, handle workers.Handler, types ...string) (stop func()) {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	w, err := workers.New(nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range types {
		workers.HandleRaw(w, typ, handle)
	}
	if err := w.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		if err := w.Stop(testContext(t)); err != nil {
			t.Errorf("stop worker %s: %v", cfg.ID, err)
		}
		nc.Close()
	})
	t.Cleanup(stop)
	return stop
}

// A tenant that floods does not keep another's one item waiting.
func TestOneTenantsFloodIsNotAnothersWait(t *testing.T) {
	slow(t)
	t.Parallel()
	e := mustStart(t, Options{Memory: true})
	c := mustClient(t, e)
	flood := max(fewer(20_000), 5_000)
	items := make([]streamwright.Item, flood)
	for i := range items {
		items[i] = streamwright.Item{Type: "email", Params: i, Tenant: "acme"}
	}
	if _, err := c.SubmitMany(testContext(t), items); err != nil {
		t.Fatal(err)
	}
	var flooded, before atomic.Int64 // items of the flood that have begun; those of them before the one
	serve(t, e, 4, func(ctx context.Context, it *workers.RawItem) (any, error) {
		if string(it.Raw) == `"one"` {
			before.Store(flooded.Load())
			return nil, nil
		}
		flooded.Add(1)
		select { // the work takes a while, so that the flood lasts
		case <-time.After(2 * time.Millisecond):
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}, "email")
	one, err := c.Submit(testContext(t), streamwright.Item{Type: "email", Params: "one", Tenant: "globex"})
	if err != nil {
		t.Fatal(err)
	}
	it, err := c.Wait(testContext(t), one.ID)
	if err != nil || it.State != events.StateCompleted {
		t.Fatalf("%+v %v", it, err)
	}
	if n := before.Load(); n > int64(flood/10) {
		t.Fatalf("%d of the flood went before it", n)
	}
	t.Logf("it started %s after its submission", it.StartedAt.Sub(it.CreatedAt))
}

// What has begun counts against a rate limit across a restart.
func TestRateLimitOverARestart(t *testing.T) {
	slow(t)
	t.Parallel()
	dir := t.TempDir()
	o := quiet(dir)
	const interval = 1500 * time.Millisecond
	o.Config = configOf(t, `
[types.call]
rates = [{ per = "type", at = "dispatch", n = 1, interval = "1500ms" }]
`)
	e := mustStart(t, o)
	done := func(context.Context, *workers.RawItem) (any, error) { return "done", nil }
	stop := serve(t, e, 5, done, "call")
	first := submit(t, e, wire.Submit{Type: "call"})
	var rest []wire.Submitted
	for range 2 {
		rest = append(rest, submit(t, e, wire.Submit{Type: "call"}))
	}
	last := waitFor(t, e, first, events.StateCompleted)
	stop()
	stopEngine(t, e)

	e = mustStart(t, o)
	serve(t, e, 5, done, "call")
	for _, s := range rest {
		it := waitFor(t, e, s, events.StateCompleted)
		if gap := it.ClaimedAt.Sub(last.ClaimedAt); gap < interval {
			t.Fatalf("claimed %s after the one before: at least %s", gap, interval)
		}
		last = it
	}
}

// A pool's slots are never exceeded, whatever the types that share it, and all
// of them are used.
func TestPoolOfTwoTypes(t *testing.T) {
	o := Options{Memory: true}
	o.Config = configOf(t, `
[pools.llm]
slots = 3
[types.ask]
pool = "llm"
pool_weight = 2
[types.tell]
pool = "llm"
`)
	e := mustStart(t, o)
	c := mustClient(t, e)
	var running, most atomic.Int64
	handle := func(ctx context.Context, it *workers.RawItem) (any, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		select {
		case <-time.After(5 * time.Millisecond):
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	serve(t, e, 10, handle, "ask", "tell")
	var items []streamwright.Item
	for range 40 {
		items = append(items, streamwright.Item{Type: "ask"}, streamwright.Item{Type: "tell"})
	}
	subs, err := c.SubmitMany(testContext(t), items)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range subs {
		if it, err := c.Wait(testContext(t), s.ID); err != nil || it.State != events.StateCompleted {
			t.Fatalf("%+v %v", it, err)
		}
	}
	if n := most.Load(); n != 3 {
		t.Fatalf("at most %d ran at once, of 3 slots", n)
	}
}

// The engine's own queue limit: a request is refused with a time to try again,
// a plain publish waits in the intake, and is taken as soon as there is room.
func TestEngineQueueLimit(t *testing.T) {
	o := Options{Memory: true}
	o.Config = configOf(t, "[limits]\nmax_queued = 3\n")
	e := mustStart(t, o)
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var items []wire.Submitted
	for range 3 {
		items = append(items, submit(t, e, wire.Submit{Type: "email"}))
	}
	msg, err := nc.RequestWithContext(testContext(t), e.names().API(wire.APISubmit), []byte(`{"type":"email"}`))
	if err != nil || msg.Header.Get("Nats-Service-Error-Code") == "" {
		t.Fatalf("%s %v", msg.Data, err)
	}
	const id = "01KDYAK43G0000000000000777"
	if err := publish(nc, "work.submit.email", id); err != nil {
		t.Fatal(err)
	}
	stats := request[wire.StatsReply](t, e, wire.APIStats, wire.StatsRequest{MinPosition: items[2].Position})
	if n := stats.Types[0].States["queued"]; n != 3 || stats.Rejected != 0 {
		t.Fatalf("%+v", stats)
	}
	work(t, e, "email")
	for _, s := range append(items, wire.Submitted{ID: id}) {
		waitUntilThere(t, e, s.ID)
		waitFor(t, e, wire.Submitted{ID: s.ID}, events.StateCompleted)
	}
}

// publish submits with a plain publish, as any NATS client may.
func publish(nc *nats.Conn, subject, id string) error {
	m := nats.NewMsg(subject)
	m.Header.Set(wire.HeaderID, id)
	m.Data = []byte("1")
	_, err := nc.RequestMsg(m, testTimeout)
	return err
}

// waitUntilThere asks for an item until it is there.
func waitUntilThere(t *testing.T, e *Engine, id string) {
	t.Helper()
	c, late := mustClient(t, e), testContext(t).Done()
	for {
		_, err := c.Get(testContext(t), id)
		if err == nil {
			return
		}
		if events.CodeOf(err) != events.CodeNotFound {
			t.Fatal(err)
		}
		select {
		case <-late:
			t.Fatalf("item %s did not come", id)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
