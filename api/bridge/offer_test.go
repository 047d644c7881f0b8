package bridge_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/api/bridge"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// A poll is given at most as many items as it asks for, though there are more slots free: no
// others are claimed for it.
func TestAPollGetsAtMostWhatItAsksFor(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 5})
	var ids []string
	for range 5 {
		ids = append(ids, e.submit(t, "step", `{}`))
	}
	got := w.poll(wire.Poll{Max: 2}).Items
	if len(got) < 1 || len(got) > 2 {
		t.Fatalf("a poll for 2 items returned %d", len(got))
	}
	claimed := 0
	for _, id := range ids {
		if e.item(t, id).State == events.StateClaimed {
			claimed++
		}
	}
	if claimed > 2 {
		t.Errorf("%d items are claimed for a poll of 2", claimed)
	}
	for len(got) < 5 {
		more := w.poll(wire.Poll{Max: 2}).Items
		if len(more) < 1 || len(more) > 2 {
			t.Fatalf("a poll for 2 items returned %d", len(more))
		}
		got = append(got, more...)
	}
	for _, it := range got {
		ids = slices.DeleteFunc(ids, func(id string) bool { return id == it.ID })
		w.ok(complete(it, `1`))
	}
	if len(got) != 5 || len(ids) != 0 {
		t.Errorf("%d items were returned, and %d never", len(got), len(ids))
	}
}

// A worker that reports nothing but the end of a run, long after it could have been taken
// back as not started, has run it once; and of one that ends at once the start is reported
// with the end.
func TestAStartNeedsNoReport(t *testing.T) {
	slow(t)
	var c config.Config
	c.Workers.StartTimeout = events.MinStartTimeout
	e := startEngine(t, embedded.Options{Config: c})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	id := e.submit(t, "step", `{}`)
	it := w.one()
	need.Eventually(t, "the run has started", func() bool { return e.item(t, id).State == events.StateRunning })
	time.Sleep(2 * events.MinStartTimeout) // past the timeout, which is real time
	w.ok(complete(it, `1`))
	if kinds := strings.Join(e.kinds(t, id), " "); kinds != "created queued claimed running completed" {
		t.Errorf("history: %s", kinds)
	}
	id = e.submit(t, "step", `{}`)
	w.ok(complete(w.one(), `1`))
	if kinds := strings.Join(e.kinds(t, id), " "); kinds != "created queued claimed running completed" {
		t.Errorf("history of a short run: %s", kinds)
	}
}

// An offer ends with its poll: an item that is submitted then stays queued until the next one.
func TestTheOfferEndsWithThePoll(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 3})
	if got := w.poll(wire.Poll{Wait: ms(0)}); len(got.Items) != 0 {
		t.Fatalf("polled %+v", got)
	}
	need.Eventually(t, "nothing is offered", func() bool { return e.waiting(t, "step") == 0 })
	id := e.submit(t, "step", `{}`)
	if it := e.item(t, id); it.State != events.StateQueued {
		t.Errorf("with no poll open the item is %s", it.State)
	}
	if it := w.one(); it.ID != id || it.Attempt != 1 {
		t.Errorf("polled %+v", it)
	}
	if got := e.kinds(t, id); !slices.Equal(got, []string{"created", "queued", "claimed"}) {
		t.Errorf("the item's history is %v", got)
	}
}

// lateEnds is an engine that hears late of the ends of offers.
type lateEnds struct {
	engine bridge.Caller
	hear   chan struct{} // closed once it hears of them
}

func (f *lateEnds) Call(ctx context.Context, endpoint string, body []byte) ([]byte, error) {
	var o wire.Offer
	if endpoint == wire.APIOffer && json.Unmarshal(body, &o) == nil && o.Room == 0 {
		select {
		case <-f.hear:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return f.engine.Call(ctx, endpoint, body)
}

// An item that crosses the end of a poll is returned by the next one, or goes back after a
// while: it is neither lost nor run twice, and no attempt is used.
func TestAnItemCrossesTheEndOfAPoll(t *testing.T) {
	for name, soon := range map[string]bool{"polled again soon": true, "polled again late": false} {
		t.Run(name, func(t *testing.T) {
			late := &lateEnds{hear: make(chan struct{})}
			b, e := bareWith(t, func(c *bridge.Config) { late.engine, c.Engine = c.Engine, late })
			ctx := testContext(t)
			reg, err := b.Register(ctx, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := b.Poll(ctx, reg.Worker, wire.Poll{Session: reg.Session, Wait: ms(0)}); err != nil || len(got.Items) != 0 {
				t.Fatalf("polled %+v %v", got, err)
			}
			id := e.submit(t, "step", `{}`)
			need.Eventually(t, "it is claimed for a poll that has ended", func() bool { return slices.Contains(e.kinds(t, id), "claimed") })
			if !soon {
				need.Eventually(t, "it is back in the queue", func() bool { return e.item(t, id).State == events.StateQueued })
			}
			close(late.hear)
			got, err := b.Poll(ctx, reg.Worker, wire.Poll{Session: reg.Session})
			if err != nil || len(got.Items) != 1 || got.Items[0].ID != id || got.Items[0].Attempt != 1 {
				t.Fatalf("polled %+v %v", got, err)
			}
			replies, err := b.Report(ctx, reg.Worker, reg.Session, []wire.Report{complete(got.Items[0], `1`)})
			if err != nil || !replies[0].OK {
				t.Fatalf("%+v %v", replies, err)
			}
			if again, err := b.Poll(ctx, reg.Worker, wire.Poll{Session: reg.Session, Wait: ms(0)}); err != nil || len(again.Items) != 0 {
				t.Errorf("polled again %+v %v", again, err)
			}
			e.client.ObservePosition(replies[0].Position)
			if it := e.item(t, id); it.State != events.StateCompleted || it.Attempt != 1 {
				t.Errorf("the item is %+v", it)
			}
		})
	}
}
