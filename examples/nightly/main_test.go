package main

import (
	"context"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/examples/internal/engine"
)

func TestNightly(t *testing.T) {
	ctx := engine.Context(t)
	c := engine.Client(t, ctx)
	for range 2 { // as at each start of the program
		if err := schedule(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	w, err := newWorker(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop(context.Background()) })
	sub, err := c.Schedules().Fire(ctx, "nightly-report")
	if err != nil {
		t.Fatal(err)
	}
	got, err := report.Wait(ctx, c, sub.ID)
	if err != nil || !strings.HasSuffix(got, "full: true") {
		t.Errorf("got %q, %v", got, err)
	}
}
