package streamwright_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"testing"

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

// definedEngine returns a client of an engine in memory.
func definedEngine(t *testing.T) *streamwright.Client {
	t.Helper()
	ctx := testContext(t)
	e, err := embedded.Start(ctx, embedded.Options{Memory: true, NATSListen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop(context.WithoutCancel(ctx)) })
	c, err := streamwright.Connect(ctx, e.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
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
	c, ctx := definedEngine(t), testContext(t)
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
	c, ctx := definedEngine(t), testContext(t)
	_, err := c.Get(ctx, "01JD3V6YB2M4C9W8ZK5T7QXRNE")
	if !errors.Is(err, streamwright.ErrNotFound) || errors.Is(err, streamwright.ErrQueueFull) {
		t.Errorf("got %v", err)
	}
}
