package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// The worker prints what the engine answers, not what the handler returned.
func TestWorkPrintsTheEnginesAnswer(t *testing.T) {
	for want, s := range map[string]workers.Settled{
		"completed": {Event: wire.ReportComplete},
		"not recorded      0s  the item is another run's":               {Event: wire.ReportComplete, Err: events.Refuse(events.CodeStaleToken, "the item is another run's")},
		"not recorded      0s  " + workers.ErrLeaseLost.Error():         {Event: wire.ReportComplete, Err: workers.ErrLeaseLost},
		"failed         0s  too_large: the result has 9 bytes too many": {Event: wire.ReportFail, Error: "too_large: the result has 9 bytes too many"},
	} {
		var out bytes.Buffer
		p := runPrinter{a: &app{App: console.App{Out: &out}}, ended: map[runKey]ranItem{}}
		item := &workers.RawItem{ID: events.ID{1}, Attempt: 2}
		h := p.middleware(func(context.Context, *workers.RawItem) (any, error) { return "ok", nil })
		if _, err := h(t.Context(), item); err != nil || out.Len() > 0 {
			t.Errorf("before the engine has answered: %v, %s", err, &out)
		}
		s.ID, s.Attempt = item.ID, item.Attempt
		p.settled(s)
		if !strings.Contains(out.String(), want) || s.Err != nil && strings.Contains(out.String(), "completed") || len(p.ended) > 0 {
			t.Errorf("got %s, want %s", &out, want)
		}
	}
}

// Ctrl-C while a run goes on: the worker says that it waits for it, and ends when it has ended.
func TestWorkInterrupted(t *testing.T) {
	e, err := embedded.Start(t.Context(), embedded.Options{Memory: true, NATSListen: "127.0.0.1:0", HTTP: config.Off})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Stop(context.Background()) }()
	began, end := filepath.Join(t.TempDir(), "began"), filepath.Join(t.TempDir(), "end")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var out bytes.Buffer
	said := &need.Log{}
	code := make(chan int, 1)
	go func() {
		script := `: > "$0"; until [ -e "$1" ]; do sleep 0.01; done; echo 7`
		code <- run(ctx, []string{"work", "email", "--server", e.URL(), "--", "sh", "-c", script, began, end}, nil, &out, said)
	}()
	engine(t, "", "submit", "email", "--server", e.URL()).wants(t, 0)
	need.Eventually(t, "the run begins", func() bool { _, err := os.Stat(began); return err == nil })
	interrupt()
	need.Eventually(t, "the worker says what it waits for", func() bool {
		return strings.Contains(said.String(), "stopping: waiting for 1 run to finish, until ")
	})
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if c := <-code; c != 0 || !strings.Contains(out.String(), "completed") {
		t.Errorf("exit code %d, out:\n%s\nerr:\n%s", c, &out, said.String())
	}
}
