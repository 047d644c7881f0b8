package itemlog

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/need"
)

// logged keeps what a logger writes.
type logged struct{ need.Log }

// about lists the lines of an item, by message.
func (l *logged) about(t *testing.T, id string) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for line := range strings.Lines(l.String()) {
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
		l := New(log, Off)
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

// With transitions there is one line for each, at level info, with what the item is
// beside what has happened; an event that moves nothing has none.
func TestEachTransitionInTheLog(t *testing.T) {
	out, log := logAt(slog.LevelInfo)
	l := New(log, All)
	c := changesOf(events.KindCreated, events.KindQueued, events.KindClaimed, events.KindRunning, events.KindFailed, events.KindDead)
	began := time.Unix(1893456000, 0)
	for i := range c.History {
		c.History[i].At = began.Add(time.Duration(i) * time.Second)
	}
	c.Items = []core.ItemChange{{New: &events.Item{ID: c.History[0].ID, Priority: 7, Tenant: "acme", CreatedAt: began, Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}}
	l.Projected(c) // of before
	l.Owned(1)
	l.Projected(c)
	var got []string
	for line := range strings.Lines(out.String()) {
		var f struct {
			Level, Msg, Item, Type, Event, From, To, Tenant, Trace, Reason string
			Priority                                                       int
			Age                                                            float64 `json:"age_seconds"`
		}
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if f.Level != "INFO" || f.Msg != "item transition" || f.Type != "email" || f.Item == "" || f.Priority != 7 || f.Tenant != "acme" || f.Trace != "4bf92f3577b34da6a3ce929d0e0e4736" {
			t.Errorf("a line lacks something: %s", line)
		}
		got = append(got, fmt.Sprintf("%s: %s to %s at %gs", f.Event, f.From, f.To, f.Age))
	}
	if want := []string{
		"created: none to created at 0s", "queued: created to queued at 1s", "claimed: queued to claimed at 2s",
		"running: claimed to running at 3s", "failed: running to failed at 4s", "dead: failed to dead at 5s",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// All leaves nothing out; Sampled bounds the lines and counts the rest.
func TestTransitionsOfAFlood(t *testing.T) {
	const flood = 5000
	for mode, most := range map[Transitions]int{All: flood, Sampled: 10 * maxMoveLines} { // within ten seconds
		out, log := logAt(slog.LevelInfo)
		l := New(log, mode)
		l.Owned(1)
		for range flood {
			l.Projected(changesOf(events.KindCreated))
		}
		l.Stop()
		lines, left := 0, 0
		for line := range strings.Lines(out.String()) {
			var f struct {
				Msg  string
				Left int `json:"left_out"`
			}
			if err := json.Unmarshal([]byte(line), &f); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if left += f.Left; f.Msg == "item transition" {
				lines++
			}
		}
		if lines > most || lines+left != flood {
			t.Errorf("%s: %d lines and %d left out, of %d", mode, lines, left, flood)
		}
	}
}

// A flood leaves no more than so many lines, and how many there would have been;
// what fails is not crowded out by what completes.
func TestLogOfAFlood(t *testing.T) {
	out, log := logAt(slog.LevelInfo)
	l := New(log, Off)
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
	for line := range strings.Lines(out.String()) {
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
	l := New(slog.New(slog.DiscardHandler), Off)
	l.Owned(1)
	c := changesOf(events.KindClaimed, events.KindRunning, events.KindCompleted)
	for b.Loop() {
		l.Projected(c)
	}
}

// BenchmarkTransitions is the cost of three lines in JSON, and that of leaving them out.
func BenchmarkTransitions(b *testing.B) {
	for _, mode := range []Transitions{Off, Sampled, All} {
		b.Run(string(mode), func(b *testing.B) {
			l := New(slog.New(slog.NewJSONHandler(io.Discard, nil)), mode)
			l.Owned(1)
			c := changesOf(events.KindCreated, events.KindQueued, events.KindClaimed)
			c.Items = []core.ItemChange{{New: &events.Item{ID: c.History[0].ID, Tenant: "acme", Priority: 7}}}
			for b.Loop() {
				l.Projected(c)
			}
		})
	}
}

func BenchmarkItemLogFlood(b *testing.B) {
	_, log := logAt(slog.LevelInfo)
	l := New(log, Off)
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
			events.KindDead: &events.Dead{},
		}[k]
		c.History = append(c.History, events.Event{Kind: k, ID: id, Type: "email", Attempt: 1, Body: body})
	}
	return c
}
