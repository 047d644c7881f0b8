package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/wire"
)

func TestWorkersAreShownWithTheirHealth(t *testing.T) {
	now := time.Now()
	list := []streamwright.WorkerInfo{
		{Worker: "a", Types: []string{"email"}, Slots: 4, InFlight: 2, Status: wire.WorkerUnhealthy, Reason: "db: refused\x1b[2J", RegisteredAt: now, LastSeen: now,
			Health: &wire.Health{CPU: 0.254, MemoryBytes: 21 << 20, Failing: []wire.FailingCheck{{Check: "db", Error: "refused"}}}},
		{Worker: "b", Types: []string{"email"}, Slots: 1, Status: wire.WorkerDead, Reason: "nothing was heard of it for 1m0s", RegisteredAt: now.Add(-time.Hour), LastSeen: now.Add(-2 * time.Minute), DiedAt: now.Add(-time.Minute)},
	}
	var out bytes.Buffer
	a := &app{App: console.App{Out: &out}}
	if err := a.showWorkers(list, nil); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(out.String(), "\n")
	for i, wants := range [][]string{
		{"STATUS", "CPU", "MEMORY", "REASON"},
		{"2 of 4  unhealthy  25%  21 MiB", "db: refused"},
		{"0 of 1  dead       -    -", "2m ago", "nothing was heard of it for 1m0s"},
	} {
		for _, want := range wants {
			if !strings.Contains(rows[i], want) {
				t.Errorf("row %d lacks %q: %q", i, want, rows[i])
			}
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("a worker's text reaches the terminal as it is: %q", out.String())
	}
	out.Reset()
	a.JSON = true
	if err := a.showWorkers(list, nil); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, `"status":"unhealthy","reason":"db: refused`) || !strings.Contains(got, `"died_at":`) || !strings.Contains(got, `"memory_bytes":22020096`) {
		t.Errorf("got %s", got)
	}
}
