//go:build linux || darwin

package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers/process"
)

func TestChecksAreNamedAfterTheirPrograms(t *testing.T) {
	long := strings.Repeat("x", 70)
	checks, err := shellChecks([]string{"test -d /", "/usr/bin/test -d /tmp", "TOKEN=secret curl x", "[ -e /x ]", "true", long, long, "./sp.sh"}, process.Env())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"check", "check 2", "sp.sh", "test", "test 2", "true", long[:61], long[:61] + " 2"}
	if got := slices.Sorted(maps.Keys(checks)); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if checks, err := shellChecks(nil, process.Env()); checks != nil || err != nil {
		t.Errorf("no commands: %v, %v", checks, err)
	}
}

// A worker whose check fails takes nothing new, tells why, and works again once it passes.
func TestWorkCheck(t *testing.T) {
	e, err := embedded.Start(t.Context(), embedded.Options{Memory: true, NATSListen: "127.0.0.1:0", HTTP: config.Off})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop(context.Background()) })
	t.Setenv("NATS_URL", e.URL())
	spool := filepath.Join(t.TempDir(), "spool")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs bytes.Buffer // read once the worker has ended
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"work", "email", "--id", "w1", "--env", "SPOOL=" + spool, "--check", "true",
			"--check", `test -d "$SPOOL" || { echo noise >&2; echo the spool is not mounted >&2; exit 3; }`, "--", "cat"}, strings.NewReader(""), &out, &errs)
	}()
	shows := func(what string) {
		t.Helper()
		need.Eventually(t, "the worker is shown with "+what, func() bool { return strings.Contains(engine(t, "", "workers", "--json").out, what) })
	}
	shows(`"reason":"test: the spool is not mounted"`)
	engine(t, "", "submit", "email", "{}", "--id", anID).wants(t, 0)
	if got := engine(t, "", "show", anID, "--json").wants(t, 0).out; !strings.Contains(got, `"state":"queued"`) {
		t.Errorf("an unhealthy worker took it: %s", got)
	}
	if err := os.Mkdir(spool, 0o755); err != nil {
		t.Fatal(err)
	}
	shows(`"status":"active"`)
	need.Eventually(t, "the item is done", func() bool {
		return strings.Contains(engine(t, "", "show", anID, "--json").out, `"state":"completed"`)
	})
	cancel()
	select {
	case c := <-code:
		if c != 0 || !strings.Contains(errs.String(), "test: the spool is not mounted") {
			t.Errorf("exit code %d: %s", c, errs.String())
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the worker does not end")
	}
}
