package pagetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// world is an engine with its HTTP server, and a client. It belongs to one test.
type world struct {
	t      testing.TB
	ctx    context.Context
	engine *embedded.Engine
	client *streamwright.Client
	url    string // of the page, with a / at its end
	hold   chan struct{}
	let    func() // lets the handlers that hold go on; once
}

// start starts an engine in memory; change may alter its options.
func start(t testing.TB, change ...func(*embedded.Options)) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	o := embedded.Options{Memory: true, HTTP: "127.0.0.1:0"}
	for _, c := range change {
		c(&o)
	}
	w := &world{t: t, ctx: ctx, hold: make(chan struct{})}
	w.let = sync.OnceFunc(func() { close(w.hold) })
	w.begin(o)
	t.Cleanup(w.stop)
	return w
}

// begin starts the engine and its client.
func (w *world) begin(o embedded.Options) {
	w.t.Helper()
	var err error
	if w.engine, err = embedded.Start(w.ctx, o); err != nil {
		w.t.Fatal(err)
	}
	if w.client, err = w.engine.Client(w.ctx); err != nil {
		w.t.Fatal(err)
	}
	w.url = "http://" + w.engine.HTTP() + "/"
}

// stop stops what begin has started; a second stop does nothing.
func (w *world) stop() {
	w.t.Helper()
	if w.engine == nil {
		return
	}
	w.let()
	w.client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := w.engine.Stop(ctx); err != nil {
		w.t.Errorf("stop the engine: %v", err)
	}
	w.engine = nil
}

// worker starts a worker, and stops it when the test ends, ahead of the engine.
func (w *world) worker(id string, slots int, handlers map[string]workers.Handler) *workers.Worker {
	w.t.Helper()
	nc, err := w.engine.Connect()
	if err != nil {
		w.t.Fatal(err)
	}
	wk, err := workers.New(nc, workers.Config{ID: events.WorkerID(id), Concurrency: slots, Host: "host-a", Version: "1.4.2"})
	if err != nil {
		w.t.Fatal(err)
	}
	for typ, h := range handlers {
		workers.HandleRaw(wk, typ, h)
	}
	if err := wk.Start(w.ctx); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		w.let()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := wk.Stop(ctx); err != nil {
			w.t.Errorf("stop worker %s: %v", id, err)
		}
		nc.Close()
	})
	return wk
}

// submit submits an item and returns its id.
func (w *world) submit(item streamwright.Item) string {
	w.t.Helper()
	sub, err := w.client.Submit(w.ctx, item)
	if err != nil {
		w.t.Fatal(err)
	}
	return sub.ID
}

// item is an item as the engine has it.
func (w *world) item(id string) streamwright.WorkItem {
	w.t.Helper()
	it, err := w.client.Get(w.ctx, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return it
}

// await waits until an item is in a state, by the events of the engine.
func (w *world) await(id string, state events.ItemState) streamwright.WorkItem {
	w.t.Helper()
	return w.awaitThat(id, state.String(), func(it streamwright.WorkItem) bool { return it.State == state })
}

// awaitThat waits until an item fulfils a condition.
func (w *world) awaitThat(id, what string, ok func(streamwright.WorkItem) bool) streamwright.WorkItem {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	done := errors.New("it is so")
	began := time.Now()
	err := w.client.Tail(ctx, streamwright.TailOptions{ID: id, FromSeq: 1}, func(ev streamwright.Event) error {
		w.client.ObservePosition(wire.PositionOf(ev.Seq)) // what is read next has it
		if ok(w.item(id)) {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		w.t.Fatalf("item %s never became %s: %v; it is %+v", id, what, err, w.item(id))
	}
	if took := time.Since(began); took > slow {
		history, _ := w.client.History(w.ctx, id)
		w.t.Logf("item %s took %v to become %s: %+v", id, took, what, history)
	}
	return w.item(id)
}

// slow is after what time it is told what an item has done meanwhile.
const slow = 15 * time.Second

// seeded are the items of seed, by what they are for.
type seeded struct {
	completed, retried, dead, running, backingOff, paused, parent, child, waiting, cancelled, merged, unserved, scheduled string
}

// handlers do the work of seed.
func (w *world) handlers() map[string]workers.Handler {
	return map[string]workers.Handler{
		"email": func(_ context.Context, it *workers.RawItem) (any, error) {
			it.Log("info", "connected to smtp.example.org")
			if strings.Contains(string(it.Raw), "flaky") && it.Attempt == 1 {
				it.Log("warn", "the greeting took too long")
				return nil, workers.RetryAfter(workers.WithCode(errors.New("smtp.example.org closed the connection in mid-greeting"), "smtp_timeout"), time.Millisecond)
			}
			return map[string]any{"message_id": "<" + it.ID.String() + "@example.org>", "accepted": true, "bytes": 18_412}, nil
		},
		"charge": func(context.Context, *workers.RawItem) (any, error) {
			return nil, workers.WithCode(workers.Permanent(errors.New("card 4000-0000-0000-0002 was declined by the bank: insufficient funds")), "card_declined")
		},
		"transcode": func(ctx context.Context, it *workers.RawItem) (any, error) {
			it.Log("info", "reading 1920x1080 h264, 12,400 frames")
			workers.Progress(ctx, 42, "frame 5,208 of 12,400")
			it.Log("info", "two-pass, pass 1")
			select {
			case <-w.hold:
				return map[string]int{"frames": 12400}, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		},
		"sync": func(context.Context, *workers.RawItem) (any, error) {
			return nil, workers.RetryAfter(workers.WithCode(errors.New("inventory.example.org answered 503"), "upstream_down"), time.Hour)
		},
		"report": func(_ context.Context, it *workers.RawItem) (any, error) {
			if it.Continuation != nil {
				return "bound", nil
			}
			email, film := workers.Child{Type: "email", Params: map[string]int{"page": 1}}, workers.Child{Type: "transcode", Params: map[string]int{"page": 2}}
			return workers.Spawn(email, film).Then("bind"), nil
		},
	}
}

// seed fills the engine with work in each of its states.
func (w *world) seed() seeded {
	w.t.Helper()
	w.worker("mailer-1", 4, pick(w.handlers(), "email", "charge", "sync", "report"))
	w.worker("media-1", 3, pick(w.handlers(), "transcode"))
	var s seeded
	s.completed = w.submit(streamwright.Item{Type: "email", Params: json.RawMessage(`{"to":"ada@example.org","subject":"Welcome","order":12345678901234567890,"amount":1.50}`), Tenant: "acme", Labels: map[string]string{"env": "prod", "team": "billing"}, Source: "checkout", Trigger: "order.paid"})
	s.retried = w.submit(streamwright.Item{Type: "email", Params: map[string]any{"to": "grace@example.org", "mode": "flaky"}, Tenant: "acme"})
	s.dead = w.submit(streamwright.Item{Type: "charge", Params: map[string]any{"order": 7, "amount_cents": 4200, "currency": "EUR"}, Labels: map[string]string{"env": "prod"}})
	s.running = w.submit(streamwright.Item{Type: "transcode", Params: map[string]any{"file": "talk.mov", "to": "av1"}, Priority: 8})
	s.backingOff = w.submit(streamwright.Item{Type: "sync", Params: map[string]any{"warehouse": "north"}})
	w.await(s.completed, events.StateCompleted)
	w.await(s.retried, events.StateCompleted)
	w.await(s.dead, events.StateDead)
	w.awaitThat(s.running, "running with progress", func(it streamwright.WorkItem) bool { return it.Progress != nil })
	w.awaitThat(s.backingOff, "backing off", func(it streamwright.WorkItem) bool { return it.State == events.StateQueued && it.Attempt == 1 })
	s.parent = w.submit(streamwright.Item{Type: "report", Params: map[string]any{"month": "2030-01"}})
	s.child = w.awaitThat(s.parent, "waiting for its children", func(it streamwright.WorkItem) bool { return it.State == events.StateWaiting && it.Children != nil }).ID
	if tree, err := w.client.Tree(w.ctx, s.parent); err != nil || len(tree.Root.Children) != 2 {
		w.t.Fatalf("the tree of %s: %v, %+v", s.parent, err, tree)
	} else {
		s.child = tree.Root.Children[1].ID
		w.await(tree.Root.Children[0].ID, events.StateCompleted)
	}
	w.awaitThat(s.child, "running with progress", func(it streamwright.WorkItem) bool { return it.Progress != nil }) // from here on nothing changes by itself
	s.waiting = w.submit(streamwright.Item{Type: "email", Params: map[string]any{"to": "boss@example.org"}, After: []string{s.parent}})
	s.scheduled = w.submit(streamwright.Item{Type: "email", Params: map[string]any{"to": "later@example.org"}, Delay: 6 * time.Hour, DedupKey: "digest"})
	s.merged = w.submit(streamwright.Item{Type: "email", Params: map[string]any{"to": "later@example.org"}, DedupKey: "digest"})
	s.cancelled = w.submit(streamwright.Item{Type: "email", Params: map[string]any{"to": "never@example.org"}, Delay: time.Hour})
	if _, _, err := w.client.Cancel(w.ctx, s.cancelled, "ordered twice"); err != nil {
		w.t.Fatal(err)
	}
	for i := range 7 {
		s.paused = w.submit(streamwright.Item{Type: "invoice", Params: map[string]int{"number": 100 + i}})
	}
	if _, err := w.client.Types().Pause(w.ctx, "invoice", streamwright.PauseOptions{Reason: "new tax rates at noon", By: "ops"}); err != nil {
		w.t.Fatal(err)
	}
	for i := range 3 {
		s.unserved = w.submit(streamwright.Item{Type: "archive", Params: map[string]string{"path": fmt.Sprintf("/var/log/%d.log", i)}})
	}
	return s
}

func pick(all map[string]workers.Handler, names ...string) map[string]workers.Handler {
	out := map[string]workers.Handler{}
	for _, n := range names {
		out[n] = all[n]
	}
	return out
}

// itemOf is an item of a type, with nothing else said.
func itemOf(typ string) streamwright.Item { return streamwright.Item{Type: typ} }
