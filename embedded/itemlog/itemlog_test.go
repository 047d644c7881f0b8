package itemlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// logged keeps what a logger writes.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// about lists the lines of an item, by message.
func (l *logged) about(t *testing.T, id string) map[string]map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]map[string]any{}
	for line := range strings.Lines(l.buf.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if fields["item"] == id {
			out[fmt.Sprint(fields["msg"])] = fields
		}
	}
	return out
}

func logAt(level slog.Level) (*logged, *slog.Logger) {
	to := &logged{}
	return to, slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: level}))
}

// At debug there is a line for each transition; at warn, none.
func TestTransitionsInTheLog(t *testing.T) {
	for level, want := range map[slog.Level][]string{
		slog.LevelDebug: {"item created", "item queued", "item cancelled"}, slog.LevelInfo: {"item cancelled"}, slog.LevelWarn: nil,
	} {
		out, log := logAt(level)
		l := New(log)
		c := changesOf(events.KindCreated, events.KindQueued, events.KindCancelled)
		l.Projected(c) // of before
		l.Owned(1)
		l.Projected(c)
		got := out.about(t, c.History[0].ID.String())
		if len(got) != len(want) {
			t.Errorf("at %s: %v", level, got)
		}
		for _, msg := range want {
			if got[msg] == nil {
				t.Errorf("at %s there is no %q", level, msg)
			}
		}
	}
}

// A flood leaves no more than so many lines, and how many there would have been;
// what fails is not crowded out by what completes.
func TestLogOfAFlood(t *testing.T) {
	out, log := logAt(slog.LevelInfo)
	l := New(log)
	l.Owned(1)
	const flood = 5000
	for range flood {
		l.Projected(changesOf(events.KindCompleted))
	}
	failed := changesOf(events.KindFailed)
	l.Projected(failed)
	l.Stop()
	if out.about(t, failed.History[0].ID.String())["attempt failed"] == nil {
		t.Error("the failure is not in the log")
	}
	lines, leftOut := 0, 0
	for line := range strings.Lines(out.buf.String()) {
		var fields struct {
			Msg  string
			Left int `json:"left_out"`
		}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		if leftOut += fields.Left; fields.Msg == "item completed" {
			lines++
		}
	}
	if lines+leftOut != flood || lines < maxEndLines || leftOut == 0 {
		t.Errorf("%d lines, and %d are said to be left out, of %d", lines, leftOut, flood)
	}
}

func BenchmarkItemLogOff(b *testing.B) {
	l := New(slog.New(slog.DiscardHandler))
	l.Owned(1)
	c := changesOf(events.KindClaimed, events.KindRunning, events.KindCompleted)
	for b.Loop() {
		l.Projected(c)
	}
}

func BenchmarkItemLogFlood(b *testing.B) {
	_, log := logAt(slog.LevelInfo)
	l := New(log)
	l.Owned(1)
	c := changesOf(events.KindClaimed, events.KindRunning, events.KindCompleted)
	for b.Loop() {
		l.Projected(c)
	}
}

// changesOf is a batch with events of one item.
func changesOf(kinds ...events.Kind) *core.Changes {
	id, err := events.ParseID("01KDYAK43G0000000000000777")
	if err != nil {
		panic(err)
	}
	c := &core.Changes{}
	for _, k := range kinds {
		body := map[events.Kind]events.Body{
			events.KindCreated: &events.Created{}, events.KindQueued: &events.Queued{}, events.KindClaimed: &events.Claimed{}, events.KindRunning: &events.Running{},
			events.KindCompleted: &events.Completed{}, events.KindFailed: &events.Failed{}, events.KindCancelled: &events.Cancelled{},
		}[k]
		c.History = append(c.History, events.Event{Kind: k, ID: id, Type: "email", Attempt: 1, Body: body})
	}
	return c
}
