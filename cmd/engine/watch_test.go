package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/cli"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
)

// watch runs engine watch until it ends, or ctx.
func watch(ctx context.Context, id string) <-chan ran {
	watched := make(chan ran, 1)
	go func() {
		var out, errs strings.Builder
		code := run(ctx, []string{"watch", id}, strings.NewReader(""), &out, &errs)
		watched <- ran{code, out.String(), errs.String()}
	}()
	return watched
}

// What happens before, and what happens meanwhile: the same lines as engine history has.
func TestWatch(t *testing.T) {
	e := start(t)
	id := strings.Fields(engine(t, "", "submit", "email").wants(t, 0).out)[0]
	watched := watch(t.Context(), id)
	e.Await("events", 1) // it has shown what there was
	told := make(chan struct{})
	e.work("w1", "email", func(ctx context.Context, _ *workers.RawItem) (any, error) {
		workers.Progress(ctx, 42, "half\x1b[31m way")
		select {
		case <-told:
		case <-ctx.Done():
		}
		time.Sleep(2 * time.Millisecond) // its last event says how long it ran, in whole milliseconds
		return nil, ctx.Err()
	})
	need.Eventually(t, "the progress is known", func() bool {
		return strings.Contains(engine(t, "", "history", id).out, "percent=42")
	})
	close(told)
	r := (<-watched).wants(t, 0, "SEQ", "created", "queued", "claimed", "w1", "percent=42", `half\x1b[31m way`, "completed", "in all: queued ")
	if again := engine(t, "", "watch", id).wants(t, 0); strings.Join(strings.Fields(again.out), " ") != strings.Join(strings.Fields(r.out), " ") {
		t.Errorf("live:\n%s\nafter the end:\n%s", r.out, again.out)
	}
	events := lines(engine(t, "", "watch", id, "--json").wants(t, 0).out)
	var first, last streamwright.Event
	if err := json.Unmarshal([]byte(events[0]), &first); err != nil || first.Kind != streamwright.KindCreated {
		t.Errorf("%v: %s", err, events[0])
	}
	if err := json.Unmarshal([]byte(events[len(events)-2]), &last); err != nil || last.Kind != streamwright.KindCompleted || last.StateDurations == nil {
		t.Errorf("%v: %s", err, events[len(events)-2])
	}
}

func TestWatchFails(t *testing.T) {
	e := start(t)
	e.work("", "failing", fails("no_mailbox", "no such mailbox"))
	dead := strings.Fields(engine(t, "", "submit", "failing").wants(t, 0).out)[0]
	engine(t, "", "watch", dead).wants(t, 1, "no_mailbox", "dead", "not completed: 1 of 1 item")
	if r := engine(t, "", "watch", dead, "--json").wants(t, 1); r.errs != "" {
		t.Errorf("it says %q", r.errs)
	}
	engine(t, "", "watch", anID).wants(t, 1, "not_found")
	engine(t, "", "watch", "nonsense").wants(t, cli.ExitUsage, "bad_id")

	queued := strings.Fields(engine(t, "", "submit", "email").wants(t, 0).out)[0]
	ctx, interrupt := context.WithCancel(t.Context())
	asked := len(e.Requests("events"))
	watched := watch(ctx, queued)
	e.Await("events", asked+1)
	interrupt()
	(<-watched).wants(t, 1, "stopped watching item "+queued+": it goes on")
}

// An item that is merged into another is followed there.
func TestWatchMerged(t *testing.T) {
	start(t)
	first := strings.Fields(engine(t, "", "submit", "email", "--dedup-key", "k", "--dedup-policy", "merge").wants(t, 0).out)[0]
	merged := engine(t, "", "submit", "email", "--dedup-key", "k", "--dedup-policy", "merge", "--json").wants(t, 0).out
	var s streamwright.Submitted
	if err := json.Unmarshal([]byte(merged), &s); err != nil {
		t.Fatal(err)
	}
	engine(t, "", "cancel", first).wants(t, 0)
	engine(t, "", "watch", s.ID).wants(t, 1, "cancelled")
}
