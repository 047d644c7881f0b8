package streamwrighttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/workers"
)

func TestMain(m *testing.M) { leaks.Check(m) }

type mail struct{ To string }

var welcome = streamwright.Define[mail, string]("welcome", func(it *streamwright.Item) { it.MaxAttempts = 3 })

func submit(t *testing.T, e *Engine, it streamwright.Item) streamwright.Submitted {
	t.Helper()
	sub, err := e.Client().Submit(t.Context(), it)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

func stateOf(t *testing.T, e *Engine, id string) events.ItemState {
	t.Helper()
	it, err := e.Client().Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return it.State
}

// failure records what a test's helper reports in place of failing the test.
type failure struct {
	testing.TB
	text string
}

func (f *failure) Helper() {}
func (f *failure) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	panic(f)
}

// failing returns what fn reports to the test.
func failing(e *Engine, fn func(*Engine)) (text string) {
	f := &failure{TB: e.t}
	other := *e
	other.t = f
	defer func() {
		if p := recover(); p != nil && p != f {
			panic(p)
		}
		text = f.text
	}()
	fn(&other)
	return ""
}

func TestRequireEnqueued(t *testing.T) {
	e := New(t)
	at := e.Now().Add(48 * time.Hour).Truncate(time.Millisecond)
	full := streamwright.Item{
		Type: "email", Params: mail{"ada"}, Priority: streamwright.Lowest, DedupKey: "k", IdempotencyKey: "i", Delay: time.Hour + 1,
		MaxAttempts: 7, Timeout: 90 * time.Second, Capabilities: []string{"b", "a"}, Source: "shop", Trigger: "order", Tenant: "acme",
		Labels: map[string]string{"team": "x", "room": "y"}, ExpiresAt: at, EstimatedDuration: time.Minute,
	}
	sub := submit(t, e, full)
	submit(t, e, streamwright.Item{Type: "email", DedupKey: "k"}) // merged
	other := submit(t, e, streamwright.Item{Type: "email", Params: []int{1}, AvailableAt: at})
	full.Labels = map[string]string{"room": "y"}
	full.ID = sub.ID
	if got := e.RequireEnqueued(full); got.ID != sub.ID {
		t.Errorf("found %s", got.ID)
	}
	if got := e.RequireEnqueued(streamwright.Item{Type: "email", AvailableAt: at}); got.ID != other.ID {
		t.Errorf("found %s", got.ID)
	}
	if got := e.Enqueued("email"); len(got) != 2 || got[0].ID != sub.ID || string(got[1].Params) != "[1]" {
		t.Errorf("enqueued: %+v", got)
	}
	e.RequireNotEnqueued(streamwright.Item{Type: "sms"})
	for want, it := range map[string]streamwright.Item{
		`params {"To":"ada"}, want {"To":"bob"}`: {Params: mail{"bob"}},
		"priority 0, want 6":                     {Priority: 6},
		`tenant "acme", want "other"`:            {Tenant: "other"},
		"delay 1h0m0.001s, want 2h0m0s":          {Delay: 2 * time.Hour},
		"timeout 1m30s, want 1m0s":               {Timeout: time.Minute},
		"max attempts 7, want 8":                 {MaxAttempts: 8},
		`label team "x", want "z"`:               {Labels: map[string]string{"team": "z"}},
		"capabilities [a b], want [gpu]":         {Capabilities: []string{"gpu"}},
		"2 such items of type email":             {},
	} {
		it.Type = "email"
		if text := failing(e, func(e *Engine) { e.RequireEnqueued(it) }); !strings.Contains(text, want) {
			t.Errorf("%+v: %s", it, text)
		}
	}
	if text := failing(e, func(e *Engine) { e.RequireEnqueued(streamwright.Item{Type: "sms"}) }); text != "no such item of type sms was submitted" {
		t.Error(text)
	}
	if text := failing(e, func(e *Engine) { e.RequireNotEnqueued(streamwright.Item{Type: "email", Tenant: "acme"}) }); !strings.Contains(text, sub.ID) {
		t.Error(text)
	}
}

func TestDrain(t *testing.T) {
	var sent []string
	e := New(t, func(w *workers.Worker) {
		welcome.Handle(w, func(_ context.Context, it *workers.Item[mail]) (string, error) {
			sent = append(sent, it.Params.To)
			return "sent", nil
		})
		workers.HandleRaw(w, "parent", func(_ context.Context, it *workers.RawItem) (any, error) {
			if it.Continuation != nil {
				return len(it.Continuation.Children), nil
			}
			return workers.Spawn(welcome.Child(mail{"child 1"}), welcome.Child(mail{"child 2"})).Then(""), nil
		})
	})
	if n := e.Drain(); n != 0 {
		t.Errorf("%d runs of nothing", n)
	}
	first := submit(t, e, welcome.Item(mail{"ada"}))
	parent := submit(t, e, streamwright.Item{Type: "parent"})
	after := submit(t, e, welcome.Item(mail{"after"}, func(it *streamwright.Item) { it.After = []string{parent.ID} }))
	later := submit(t, e, welcome.Item(mail{"later"}, func(it *streamwright.Item) { it.Delay = time.Hour }))
	submit(t, e, streamwright.Item{Type: "other"})
	if n := e.Drain(); n != 6 || len(sent) != 4 {
		t.Errorf("%d runs, sent to %v", n, sent)
	}
	for _, id := range []string{first.ID, parent.ID, after.ID} {
		if s := stateOf(t, e, id); s != events.StateCompleted {
			t.Errorf("item %s is %s", id, s)
		}
	}
	if s := stateOf(t, e, later.ID); s != events.StateQueued {
		t.Errorf("the delayed item is %s", s)
	}
	e.Advance(time.Hour)
	if n := e.Drain(); n != 1 || sent[len(sent)-1] != "later" {
		t.Errorf("%d runs, sent to %v", n, sent)
	}
}

func TestAdvance(t *testing.T) {
	attempts := 0
	e := New(t, func(w *workers.Worker) {
		welcome.Handle(w, func(context.Context, *workers.Item[mail]) (string, error) {
			attempts++
			return "", errors.New("no route")
		})
		workers.HandleRaw(w, "report", func(context.Context, *workers.RawItem) (any, error) { return nil, nil })
	})
	began := e.Now()
	sub := submit(t, e, welcome.Item(mail{"ada"}))
	for want := 1; want <= 3; want++ {
		if n := e.Drain(); n != 1 || attempts != want {
			t.Fatalf("%d runs, %d attempts: want 1 and %d", n, attempts, want)
		}
		e.Advance(24 * time.Hour)
	}
	if s := stateOf(t, e, sub.ID); s != events.StateDead {
		t.Errorf("the item is %s", s)
	}
	if d := e.Now().Sub(began); d < 72*time.Hour || d > 73*time.Hour {
		t.Errorf("the time has gone on by %s", d)
	}
	if _, err := e.Client().Schedules().Set(t.Context(), streamwright.Schedule{Name: "nightly", Type: "report", Cron: "0 3 * * *"}); err != nil {
		t.Fatal(err)
	}
	e.Drain()
	if n := len(e.Enqueued("report")); n != 0 {
		t.Fatalf("%d reports before the first tick", n)
	}
	e.Advance(24 * time.Hour)
	if n := e.Drain(); n != 1 {
		t.Errorf("%d runs on the next day", n)
	}
	expiring := submit(t, e, streamwright.Item{Type: "other", ExpiresAt: e.Now().Add(200 * time.Millisecond)})
	e.Advance(300 * time.Millisecond)
	if it, err := e.Client().Wait(t.Context(), expiring.ID); err != nil || it.State != events.StateCancelled {
		t.Errorf("got %+v, %v", it, err)
	}
	if text := failing(e, func(e *Engine) { e.Advance(-1) }); !strings.Contains(text, "must not be negative") {
		t.Error(text)
	}
}
