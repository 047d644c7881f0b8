package streamwright_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

type picture struct {
	Path  string
	Width int
}

type thumbnail struct{ Path string }

// resize is imported by those who submit and those who handle.
var resize = streamwright.Define[picture, thumbnail]("resize", func(it *streamwright.Item) { it.MaxAttempts = 5 })

// One definition of a type serves both sides.
func ExampleDefine() {
	ctx := context.Background()
	e, err := embedded.Start(ctx, embedded.Options{Memory: true, NATSListen: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Stop(ctx)
	c, err := streamwright.Connect(ctx, e.URL())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	w, err := streamwright.NewWorker(c, workers.Config{})
	if err != nil {
		log.Fatal(err)
	}
	resize.Handle(w, func(_ context.Context, it *workers.Item[picture]) (thumbnail, error) {
		return thumbnail{fmt.Sprintf("%s.%d.webp", it.Params.Path, it.Params.Width)}, nil
	})
	if err := w.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer w.Stop(ctx)

	sub, err := resize.Submit(ctx, c, picture{"cat.png", 200})
	if err != nil {
		log.Fatal(err)
	}
	small, err := resize.Wait(ctx, c, sub.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(small.Path)
	// Output: cat.png.200.webp
}

func TestDefinitionTakesTheOptionsInOrder(t *testing.T) {
	it := resize.Item(picture{Width: 1}, func(it *streamwright.Item) { it.DedupKey = "cat" }, func(it *streamwright.Item) { it.MaxAttempts = 2 })
	if it.Type != "resize" || it.MaxAttempts != 2 || it.DedupKey != "cat" || it.Params != (picture{Width: 1}) {
		t.Errorf("got %+v", it)
	}
	if again := resize.Item(picture{}); again.MaxAttempts != 5 || again.DedupKey != "" {
		t.Errorf("options of one submission are in the next: %+v", again)
	}
}

func TestDefinitionWaits(t *testing.T) {
	c, ctx := connect(t, start(t)), testContext(t)
	w, err := streamwright.NewWorker(c, workers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 2*events.MaxResultBytes)
	resize.Handle(w, func(_ context.Context, it *workers.Item[picture]) (thumbnail, error) {
		switch it.Params.Path {
		case "bad":
			return thumbnail{}, workers.Permanent(errors.New("no picture"))
		case "large":
			return thumbnail{large}, nil
		}
		return thumbnail{it.Params.Path}, nil
	})
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop(context.WithoutCancel(ctx)) })

	outcome := func(path string) (thumbnail, error) {
		t.Helper()
		sub, err := resize.Submit(ctx, c, picture{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		return resize.Wait(ctx, c, sub.ID)
	}
	if got, err := outcome("cat"); err != nil || got.Path != "cat" {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := outcome("large"); err != nil || got.Path != large {
		t.Errorf("of a result in the object store: got %d bytes, %v", len(got.Path), err)
	}
	var failed *streamwright.OutcomeError
	if _, err := outcome("bad"); !errors.As(err, &failed) || failed.Item.Error.Message != "no picture" {
		t.Errorf("of a dead item: %v", err)
	}

	pub, err := resize.Publish(ctx, c, picture{Path: "dog"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetByIntake(ctx, pub.IntakeSeq); err != nil { // until then there is no item
		t.Fatal(err)
	}
	if got, err := resize.Wait(ctx, c, pub.ID); err != nil || got.Path != "dog" {
		t.Errorf("got %+v, %v", got, err)
	}
	other := streamwright.Define[picture, thumbnail]("crop")
	if _, err := other.Wait(ctx, c, pub.ID); events.CodeOf(err) != events.CodeBadType {
		t.Errorf("of another type's item: %v", err)
	}
}

func TestDefinePanicsForABadName(t *testing.T) {
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "Bad Name") {
			t.Errorf("got %v", r)
		}
	}()
	streamwright.Define[picture, thumbnail]("Bad Name")
}

func TestRefusalsMatchTheirError(t *testing.T) {
	c, ctx := connect(t, start(t)), testContext(t)
	_, err := c.Get(ctx, "01JD3V6YB2M4C9W8ZK5T7QXRNE")
	if !errors.Is(err, streamwright.ErrNotFound) || errors.Is(err, streamwright.ErrQueueFull) {
		t.Errorf("got %v", err)
	}
}

// A typed handler spawns and snoozes by its error; middleware sees neither as a failure.
func TestDefinitionSpawnsAndSnoozes(t *testing.T) {
	c, ctx := connect(t, start(t)), testContext(t)
	w, err := streamwright.NewWorker(c, workers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var failures atomic.Int32
	err = w.Use(func(next workers.Handler) workers.Handler {
		return func(ctx context.Context, it *workers.RawItem) (any, error) {
			result, err := next(ctx, it)
			if err != nil {
				failures.Add(1)
			}
			return result, err
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	crop := streamwright.Define[picture, thumbnail]("crop")
	var snoozed atomic.Bool
	err = errors.Join(
		crop.Handle(w, func(_ context.Context, it *workers.Item[picture]) (thumbnail, error) {
			return thumbnail{it.Params.Path}, nil
		}),
		resize.Handle(w, func(_ context.Context, it *workers.Item[picture]) (thumbnail, error) {
			switch {
			case !snoozed.Swap(true):
				return thumbnail{}, fmt.Errorf("not yet: %w", workers.Snooze(time.Millisecond))
			case it.Params.Path == "unfit":
				return thumbnail{}, workers.Spawn(crop.Child(it.Params, func(it *streamwright.Item) { it.Delay = -1 }))
			case it.Continuation == nil:
				return thumbnail{}, workers.Spawn(crop.Child(it.Params)).Then("")
			}
			got, err := workers.Results[thumbnail](it.Continuation)
			return thumbnail{"of " + got[0].Path}, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop(context.WithoutCancel(ctx)) })
	sub, err := resize.Submit(ctx, c, picture{Path: "cat"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := resize.Wait(ctx, c, sub.ID); err != nil || got.Path != "of cat" {
		t.Errorf("got %+v, %v", got, err)
	}
	sub, err = resize.Submit(ctx, c, picture{Path: "unfit"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resize.Wait(ctx, c, sub.ID); err == nil || !strings.Contains(err.Error(), "must not be negative") {
		t.Errorf("a child with a bad delay: %v", err)
	}
	if n := failures.Load(); n > 0 {
		t.Errorf("middleware saw %d failures", n)
	}
	if err := resize.Handle(w, nil); !errors.Is(err, workers.ErrNotNew) {
		t.Errorf("a handler after Start: %v", err)
	}
}

// A definition's settings are put in force from beside the worker, and no others change.
func TestDefinitionConfigures(t *testing.T) {
	c, ctx := connect(t, start(t)), testContext(t)
	before, err := c.Types().Configure(ctx, "resize", streamwright.Settings{MaxQueued: new(9), Circuit: &streamwright.CircuitSettings{Consecutive: 3, Probes: 2}})
	if err != nil {
		t.Fatal(err)
	}
	limited := resize.WithSettings(streamwright.Settings{
		Capacity: new(7), Timeout: new(90 * time.Second), MaxAttempts: new(4), MaxQueued: new(0),
		Backoff: &streamwright.Backoff{Initial: 10 * time.Millisecond, Factor: 3, Max: 20 * time.Millisecond},
		Circuit: &streamwright.CircuitSettings{Consecutive: 5},
		Rates:   []streamwright.RateLimit{{Per: "tenant", At: "dispatch", N: 20, Interval: time.Second}},

		PerPriority: map[int]streamwright.PriorityOverride{9: {Timeout: new(time.Second), Backoff: &streamwright.Backoff{Initial: 1, Factor: 1, Max: time.Minute}}},
		Codes:       map[string]streamwright.CodePolicy{"busy": {MaxAttempts: 7, TimeoutMax: time.Hour}},
		QueueSteps:  []streamwright.QueueStep{{Over: 5, MinPriority: 3}, {Over: 6, Sources: []string{"shop"}}},
		Retain:      &streamwright.ItemRetention{Dead: time.Hour},
	})
	info, err := limited.Configure(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	want := before.Settings
	want.Capacity, want.Timeout, want.MaxAttempts, want.MaxQueued = 7, events.Millis(90_000), 4, 0
	want.TimeoutSet, want.MaxAttemptsSet = true, true
	want.Backoff = events.Backoff{Initial: events.Millis(10), Factor: 3, Max: events.Millis(20)}
	want.Circuit = events.CircuitSettings{Consecutive: 5}
	want.Rates = []events.RateLimit{{Per: "tenant", At: "dispatch", N: 20, Interval: events.Millis(1000)}}
	want.PerPriority = map[events.Priority]events.PriorityOverride{9: {Timeout: new(events.Millis(1000)), Backoff: &events.Backoff{Initial: events.Millis(1), Factor: 1, Max: events.Millis(60_000)}}}
	want.Codes = map[string]events.CodePolicy{"busy": {MaxAttempts: 7, TimeoutMax: events.Millis(3_600_000)}}
	want.QueueSteps = []events.QueueStep{{Over: 5, MinPriority: 3}, {Over: 6, Sources: []string{"shop"}}}
	want.Retain = events.Retention{Dead: events.Millis(3_600_000)}
	if !reflect.DeepEqual(info.Settings, want) {
		t.Errorf("got  %+v\nwant %+v", info.Settings, want)
	}
	if _, err := resize.Configure(ctx, c); err != nil {
		t.Errorf("of a definition without settings: %v", err)
	}
}

// Settings has each setting of a type, under its name.
func TestSettingsAreWhole(t *testing.T) {
	has, derived := map[string]bool{}, map[string]bool{"timeout_set": true, "max_attempts_set": true}
	for f := range reflect.TypeFor[streamwright.Settings]().Fields() {
		has[f.Tag.Get("json")] = true
	}
	for f := range reflect.TypeFor[events.TypeSettings]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !has[name] && !derived[name] {
			t.Errorf("Settings lacks %s", name)
		}
		delete(has, name)
	}
	for name := range has {
		t.Errorf("types have no setting %q", name)
	}
}

func TestNewRefusesOptionsOfAConnection(t *testing.T) {
	c := connect(t, start(t))
	_, err := streamwright.New(c.Conn(), streamwright.WithPatience(0), streamwright.WithUser("a", "b"), streamwright.WithName("x"))
	if events.CodeOf(err) != events.CodeBadConfig || !strings.Contains(err.Error(), "WithUser, WithName") || strings.Contains(err.Error(), "Patience") {
		t.Errorf("got %v", err)
	}
	if _, err := streamwright.New(c.Conn(), streamwright.WithPatience(0), streamwright.WithDomain("")); err != nil {
		t.Errorf("got %v", err)
	}
}

// The error of an item that has panicked is a line; the item has the stack.
func TestOutcomeErrorIsOneLine(t *testing.T) {
	c, ctx := connect(t, start(t)), testContext(t)
	w, err := streamwright.NewWorker(c, workers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := resize.Handle(w, func(context.Context, *workers.Item[picture]) (thumbnail, error) { panic("oh no") }); err != nil {
		t.Fatal(err)
	}
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop(context.WithoutCancel(ctx)) })
	sub, err := resize.Submit(ctx, c, picture{}, func(it *streamwright.Item) { it.MaxAttempts = 1 })
	if err != nil {
		t.Fatal(err)
	}
	_, err = resize.Wait(ctx, c, sub.ID)
	var failed *streamwright.OutcomeError
	if !errors.As(err, &failed) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "the handler panicked: oh no (panic)") {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(failed.Item.Error.Message, "goroutine") {
		t.Errorf("the item has no stack: %q", failed.Item.Error.Message)
	}
}
