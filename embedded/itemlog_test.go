package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
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

// Each item that ends and each attempt that fails is a line, with what it takes
// to find it elsewhere.
func TestItemsInTheLog(t *testing.T) {
	out, log := logAt(slog.LevelInfo)
	e := mustStart(t, Options{Memory: true, Logger: log, Config: configOf(t, "[defaults]\nbackoff = { initial = \"1ms\", max = \"1ms\" }\n")})
	ofWorker, workerLog := logAt(slog.LevelInfo)
	w, err := workers.New(mustClient(t, e).Conn(), workers.Config{ID: "w1", Logger: workerLog})
	if err != nil {
		t.Fatal(err)
	}
	workers.HandleRaw(w, "email", func(_ context.Context, it *workers.RawItem) (any, error) {
		if string(it.Raw) == "1" {
			return nil, nil
		}
		return nil, workers.WithCode(errors.New("no route\nto host"), "network")
	})
	if err := w.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(testContext(t)); err != nil {
			t.Error(err)
		}
	})
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	good := submit(t, e, wire.Submit{Type: "email", Params: []byte("1"), Trace: "00-" + trace + "-00f067aa0ba902b7-01"})
	bad := submit(t, e, wire.Submit{Type: "email", Params: []byte("2"), MaxAttempts: 2})
	waitFor(t, e, good, events.StateCompleted)
	waitFor(t, e, bad, events.StateDead)
	await(t, "the lines are written", func() bool {
		return out.about(t, good.ID)["item completed"] != nil && out.about(t, bad.ID)["item dead"] != nil
	})
	want := func(id, msg string, fields map[string]any) {
		t.Helper()
		lines := out.about(t, id)
		for k, v := range fields {
			if got := lines[msg][k]; fmt.Sprint(got) != fmt.Sprint(v) {
				t.Errorf("%s: %s is %v, want %v", msg, k, got, v)
			}
		}
		for msg := range lines {
			if strings.HasPrefix(msg, "item claimed") || strings.HasPrefix(msg, "item queued") {
				t.Errorf("at info there is a line %q", msg)
			}
		}
	}
	want(good.ID, "item completed", map[string]any{"level": "INFO", "type": "email", "attempt": 1, "worker": "w1", "trace": trace})
	want(bad.ID, "attempt failed", map[string]any{"level": "INFO", "attempt": 1, "worker": "w1", "code": "network", "error": "no route\nto host"})
	want(bad.ID, "item dead", map[string]any{"attempt": 2, "reason": "exhausted", "code": "network", "error": "no route\nto host"})
	// And the worker has said so itself, before it reported it.
	said := ofWorker.about(t, bad.ID)["a handler has failed"]
	if said == nil || said["level"] != "WARN" || said["err"] != "no route\nto host" || said["code"] != "network" || said["worker"] != "w1" || said["type"] != "email" {
		t.Errorf("the worker logged %v", said)
	}
	if n := len(ofWorker.about(t, good.ID)); n != 0 {
		t.Errorf("the worker logged %d lines of an item that it completed", n)
	}
}

// log_transitions of a configuration reaches the log of items.
func TestTransitionsInTheLog(t *testing.T) {
	for setting, want := range map[string]bool{"off": false, "all": true} {
		out, log := logAt(slog.LevelInfo)
		e := mustStart(t, Options{Memory: true, Logger: log, Config: configOf(t, "[server]\nlog_transitions = \""+setting+"\"\n")})
		it := submit(t, e, wire.Submit{Type: "email"})
		if _, _, err := mustClient(t, e).Cancel(testContext(t), it.ID, ""); err != nil {
			t.Fatal(err)
		}
		await(t, "the item is in the log", func() bool { return len(out.about(t, it.ID)) > 0 })
		if lines := out.about(t, it.ID); (lines["item transition"] != nil) != want {
			t.Errorf("log_transitions = %q: %v", setting, lines)
		}
	}
}
