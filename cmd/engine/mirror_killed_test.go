package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/need"
)

// A mirror that is killed while it copies goes on where it was, again and again, and has in
// the end what its hub has.
func TestMirrorKilled(t *testing.T) {
	need.Seconds(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	const token = "lab-0123456789ab"
	leaf, dir := need.Address(t).String(), t.TempDir()
	hub, err := embedded.Start(ctx, embedded.Options{
		Dir: t.TempDir(), NATSListen: config.Off, HTTP: config.Off, Durability: config.Interval,
		Config: config.Config{Leaf: config.Leaf{Listen: leaf, Sites: []config.LeafSite{{Name: "lab", Token: token, Mirror: true}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Stop(context.WithoutCancel(ctx))
	at, err := hub.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	events, end := 0, 0 // of the hub's log, and its last position, at least
	submit := func() {
		items := make([]streamwright.Item, 500)
		for i := range items {
			items[i] = streamwright.Item{Type: "parcel", Params: map[string]int{"n": i}}
		}
		answers, err := at.SubmitMany(ctx, items)
		if err != nil {
			t.Fatal(err)
		}
		events += 2 * len(answers) // created, queued
		last, err := answers[len(answers)-1].Position.Seq()
		if err != nil {
			t.Fatal(err)
		}
		end = int(last)
	}
	for range 20 {
		submit()
	}
	const kills = 4
	for kill := range kills + 1 {
		p, c := startMirror(t, ctx, leaf, tokenFile, dir)
		begun := applied(t, ctx, c)
		if kill < kills {
			for n := begun; n <= begun; n = applied(t, ctx, c) { // it copies
				submit()
			}
			if err := p.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = p.Wait() // it was killed
			c.Close()
			continue
		}
		defer func() { _ = p.Process.Kill(); _ = p.Wait() }()
		defer c.Close()
		need.Eventually(t, "the mirror has all of its hub", func() bool { return applied(t, ctx, c) >= end })
		v, err := c.Engine().Verify(ctx, nil)
		if err != nil || !v.Equal || int(v.Events) < events {
			t.Errorf("verify: %+v, %v; the hub has %d events", v, err, events)
		}
		there, err := at.Engine().Verify(ctx, nil)
		if err != nil || there.Digest != v.Digest {
			t.Errorf("the mirror's store is %s, the hub's %s, %v", v.Digest, there.Digest, err)
		}
	}
}

// startMirror starts a mirror's process, and connects to it.
func startMirror(t *testing.T, ctx context.Context, leaf, tokenFile, dir string) (*exec.Cmd, *streamwright.Client) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := exec.CommandContext(ctx, program, "mirror", "--hub", leaf, "--name", "lab", "--token-file", tokenFile, "--dir", dir, "--nats-listen", "127.0.0.1:0", "--http", "off", "--keep", "5y")
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, url, is := strings.Cut(lines.Text(), "NATS"); is {
			c, err := streamwright.Connect(ctx, strings.TrimSpace(url))
			if err != nil {
				t.Fatal(err)
			}
			return p, c
		}
	}
	t.Fatal("the mirror has not said where it listens")
	return nil, nil
}

// applied returns how much of the log a mirror's store has.
func applied(t *testing.T, ctx context.Context, c *streamwright.Client) int {
	t.Helper()
	r, err := c.Engine().Nodes(ctx)
	if err != nil || len(r.Nodes) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	n, _ := r.Nodes[0].Projected.Seq()
	return int(n)
}
