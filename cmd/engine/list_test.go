package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/fakeengine"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

func fakeEngineURL(t *testing.T) string { return fakeengine.Start(t).URL }

// `engine list` has every filter of docs/guides/LISTING.md.
func TestListFilters(t *testing.T) {
	const patience = time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	e, err := embedded.Start(ctx, embedded.Options{Memory: true, NATSListen: "127.0.0.1:0", HTTP: config.Off})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("NATS_URL", e.URL())
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	w, err := workers.New(nc, workers.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	workers.Handle(w, "failing", func(context.Context, *workers.Item[any]) (any, error) {
		return nil, workers.Permanent(workers.WithCode(errors.New("no such mailbox"), "no_mailbox"))
	})
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer w.Stop(ctx)
	submit := func(args ...string) string {
		out := engine(t, "", append([]string{"submit"}, args...)...).wants(t, 0).out
		return strings.Fields(out)[0]
	}
	cancelled := submit("waiting", "--tenant", "acme")
	queued := submit("waiting", "--label", "region=eu", "--dedup-key", "order-4711")
	dead := submit("failing")
	engine(t, "", "cancel", cancelled, "--reason", "mistake").wants(t, 0)
	c, err := e.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if it, err := c.Wait(ctx, dead); err != nil || it.State != events.StateDead {
		t.Fatalf("got %+v, %v", it, err)
	}
	all := []string{cancelled, queued, dead}
	for line, want := range map[string][]string{
		"--state queued":      {queued},
		"--type failing":      {dead},
		"--tenant acme":       {cancelled},
		"--label region=eu":   {queued},
		"--code no_mailbox":   {dead},
		"--reason mistake":    {cancelled},
		"--error mailbox":     {dead},
		"--q order-4711":      {queued},
		"--worker nobody":     {},
		"--created-after 1h":  all,
		"--created-before 1h": {},
		"--code other":        {},
		"--created-after 2030-01-31T08:00:00Z --type failing": {},
	} {
		got := engine(t, "", append([]string{"list", "--json"}, strings.Fields(line)...)...).wants(t, 0).out
		for _, id := range all {
			is := strings.Contains(got, `"id":"`+id+`"`)
			should := false
			for _, w := range want {
				should = should || w == id
			}
			if is != should {
				t.Errorf("%s: item %s is listed: %v, should be: %v", line, id, is, should)
			}
		}
	}
}

// What is long is cut on a terminal, and whole for programs and files.
func TestNothingIsCutInAFile(t *testing.T) {
	e := fakeengine.Start(t)
	t.Setenv("NATS_URL", e.URL)
	long := strings.Repeat("a long story ", 40) + "and its end"
	e.Set(anID, func(it *wire.Item) {
		it.State, it.Attempt, it.Error = events.StateDead, 3, &wire.ItemError{Message: long, Code: "error"}
	})
	engine(t, "", "list").wants(t, 0, long)
	if got := note(streamwright.WorkItem{Error: &wire.ItemError{Message: long}}, time.Now(), console.TerminalStyle); strings.Contains(got, "its end") || !strings.HasSuffix(got, "…") {
		t.Errorf("on a terminal: %q", got)
	}
}

// An item that never ran, for what it comes after has ended badly, has an error without
// a code.
func TestErrorWithoutCode(t *testing.T) {
	e := fakeengine.Start(t)
	t.Setenv("NATS_URL", e.URL)
	e.Set(anID, func(it *wire.Item) {
		it.State, it.Error = events.StateDead, &wire.ItemError{Message: "what it comes after is dead"}
	})
	if out := engine(t, "", "list").wants(t, 0, "  what it comes after is dead").out; strings.Contains(out, ": what") {
		t.Errorf("list says %s", out)
	}
	engine(t, "", "show", anID).wants(t, 0, "what it comes after is dead (not retryable)\n")
}
