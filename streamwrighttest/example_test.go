package streamwrighttest_test

import (
	"context"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/streamwrighttest"
	"github.com/streamwright/streamwright/workers"
)

// What the program under test has: a type of work, a function that submits it,
// and one that registers its handler.

type Trial struct {
	User string `json:"user"`
}

var remind = streamwright.Define[Trial, string]("remind")

func signUp(ctx context.Context, c *streamwright.Client, user string) error {
	_, err := remind.Submit(ctx, c, Trial{User: user}, func(it *streamwright.Item) {
		it.Delay = 13 * 24 * time.Hour
		it.DedupKey = user
	})
	return err
}

func register(w *workers.Worker) {
	remind.Handle(w, func(_ context.Context, it *workers.Item[Trial]) (string, error) {
		return "reminded " + it.Params.User, nil
	})
}

// TestSignUp is the guide's test: docs/guides/TESTING.md.
func TestSignUp(t *testing.T) {
	e := streamwrighttest.New(t, register)
	if err := signUp(t.Context(), e.Client(), "ada"); err != nil {
		t.Fatal(err)
	}
	item := e.RequireEnqueued(streamwright.Item{
		Type: "remind", Params: Trial{User: "ada"}, DedupKey: "ada", Delay: 13 * 24 * time.Hour,
	})
	if n := e.Drain(); n != 0 {
		t.Errorf("%d runs on the first day", n)
	}
	e.Advance(13 * 24 * time.Hour)
	e.Drain()
	result, err := remind.Wait(t.Context(), e.Client(), item.ID)
	if err != nil || result != "reminded ada" {
		t.Errorf("got %q, %v", result, err)
	}
}

// TestNightlyReport makes a schedule tick without waiting for the night.
func TestNightlyReport(t *testing.T) {
	runs := 0
	e := streamwrighttest.New(t, func(w *workers.Worker) {
		workers.HandleRaw(w, "report", func(context.Context, *workers.RawItem) (any, error) {
			runs++
			return nil, nil
		})
	})
	_, err := e.Client().Schedules().Set(t.Context(), streamwright.Schedule{Name: "nightly", Type: "report", Cron: "0 3 * * *"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		e.Advance(24 * time.Hour)
		e.Drain()
	}
	if runs != 3 {
		t.Errorf("%d reports in three days", runs)
	}
}
