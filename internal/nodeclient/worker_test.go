package nodeclient

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
)

// plainWorker is a program that needs nothing but a NATS client, and docs/reference/PROTOCOL.md.
const plainWorker = "../../examples/node/worker.mjs"

// A worker is written in less than a hundred lines: it runs items and fails them, resumes
// from what an earlier run has left, stops what is cancelled, outlives the engine, and drains.
func TestPlainWorker(t *testing.T) {
	need.Seconds(t)
	node := built(t)
	text, err := os.ReadFile(plainWorker)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n >= 100 {
		t.Errorf("%s has %d lines", plainWorker, n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	o := embedded.Options{Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: config.Off}
	start := func() *embedded.Engine {
		e, err := embedded.Start(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := start()
	t.Cleanup(func() { _ = e.Stop(context.Background()) })
	o.NATSListen = strings.TrimPrefix(e.URL(), "nats://") // of the engine that follows
	c, err := streamwright.Connect(ctx, e.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	submit := func(params string) string {
		t.Helper()
		out, err := c.Submit(ctx, streamwright.Item{Type: "email", Params: json.RawMessage(params)})
		if err != nil {
			t.Fatal(err)
		}
		return out.ID
	}
	ended := func(id string, state events.ItemState, result string) {
		t.Helper()
		item, err := c.Wait(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if item.State != state || string(item.Result) != result {
			t.Errorf("item %s is %s with %s, want %s with %s", id, item.State, item.Result, state, result)
		}
	}

	resumed := submit(`{"to": "ann"}`)
	leaveCheckpoint(t, ctx, e.URL())

	cmd := exec.CommandContext(ctx, node, "--input-type=module", "-")
	cmd.Dir, cmd.Stdin = folder, bytes.NewReader(text)
	cmd.Env = append(os.Environ(), "NATS_URL="+e.URL())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)

	ended(resumed, events.StateCompleted, `{"sent":"ann","resumed":{"page":1}}`)
	ended(submit(`{"to": "bob"}`), events.StateCompleted, `{"sent":"bob"}`)
	ended(submit(`{"to": "bob", "takes_ms": 50}`), events.StateCompleted, `{"sent":"bob"}`)

	long := submit(`{"to": "eve", "takes_ms": 600000}`)
	running(t, ctx, c, long)
	if _, _, err := c.Cancel(ctx, long, "no more"); err != nil {
		t.Fatal(err)
	}
	for said.Scan() && !strings.HasPrefix(said.Text(), long) {
	}
	if !strings.Contains(said.Text(), "release") {
		t.Errorf("the worker says %q of what was cancelled", said.Text())
	}

	kept := submit(`{"to": "dan", "takes_ms": 2000}`)
	running(t, ctx, c, kept)
	if err := e.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	e = start()
	ended(kept, events.StateCompleted, `{"sent":"dan"}`)
	item, err := c.Get(ctx, kept)
	if err != nil || item.Attempt != 1 {
		t.Errorf("attempt %d, %v: want the first", item.Attempt, err)
	}
	ended(submit(`{"to": "bob"}`), events.StateCompleted, `{"sent":"bob"}`)

	last := submit(`{"to": "fay", "takes_ms": 500}`)
	running(t, ctx, c, last)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for said.Scan() {
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	ended(last, events.StateCompleted, `{"sent":"fay"}`)
	if left, err := c.Workers().List(ctx); err != nil || len(left) > 0 {
		t.Errorf("workers are left: %v, %v", left, err)
	}
}

// leaveCheckpoint has a first attempt of an email fail that has saved a checkpoint.
func leaveCheckpoint(t *testing.T, ctx context.Context, url string) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	w, err := workers.New(nc, workers.Config{Concurrency: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan struct{})
	err = workers.HandleRaw(w, "email", func(ctx context.Context, _ *workers.RawItem) (any, error) {
		defer close(failed)
		return nil, errors.Join(errors.New("in the midst"), workers.Checkpoint(ctx, map[string]int{"page": 1}))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	<-failed
	if err := w.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}

// running waits for the start of an item's run.
func running(t *testing.T, ctx context.Context, c *streamwright.Client, id string) {
	t.Helper()
	began := errors.New("it runs")
	err := c.Tail(ctx, streamwright.TailOptions{ID: id, Kinds: []streamwright.Kind{streamwright.KindRunning}, FromSeq: 1}, func(streamwright.Event) error { return began })
	if !errors.Is(err, began) {
		t.Fatal(err)
	}
}
