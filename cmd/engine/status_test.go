package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// What keeps the engine from working is the first that status says.
func TestStatusBeginsWithTheAlarms(t *testing.T) {
	o := embedded.Options{Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: config.Off}
	o.Config.Limits.MinFreeBytes = 1 << 50 // no disk has so much
	e, err := embedded.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Stop(t.Context()) }()
	r := engine(t, "", "status", "--server", e.URL()).wants(t, 0, "min_free is 1024 TiB", "New work is refused and nothing new is begun", "Make room on that disk")
	if !strings.HasPrefix(r.out, "CRITICAL disk_low: ") {
		t.Errorf("status begins with %q", lines(r.out)[0])
	}
	var doc struct{ Stats wire.StatsReply }
	if err := json.Unmarshal([]byte(engine(t, "", "status", "--json", "--server", e.URL()).wants(t, 0).out), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Stats.Alarms) != 1 || doc.Stats.Alarms[0].Code != wire.AlarmDiskLow {
		t.Errorf("--json has the alarms %+v", doc.Stats.Alarms)
	}
}

// Deaths are said first, and of many types without a worker how many there are.
func TestStatusSaysWhatNeedsAttention(t *testing.T) {
	e, err := embedded.Start(t.Context(), embedded.Options{Memory: true, NATSListen: "127.0.0.1:0", HTTP: config.Off})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Stop(t.Context()) }()
	c, err := e.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	w, err := workers.New(nc, workers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	workers.HandleRaw(w, "ship", func(context.Context, *workers.RawItem) (any, error) { return nil, workers.Permanent(errors.New("no")) })
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Stop(t.Context()) }()
	item, err := c.Submit(t.Context(), streamwright.Item{Type: "ship"})
	if err != nil {
		t.Fatal(err)
	}
	if it, err := c.Wait(t.Context(), item.ID); it.State != events.StateDead {
		t.Fatalf("%+v: %v", it, err)
	}
	for i := range 7 {
		for range i + 1 {
			if _, err := c.Submit(t.Context(), streamwright.Item{Type: fmt.Sprintf("t%d", i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	out := engine(t, "", "status", "--server", e.URL()).wants(t, 0).out
	server := " --server " + e.URL()
	want := "items of 1 type died in the last ten minutes, 1 dead now: ship 1\n  `engine dead" + server + "`\nno worker for 7 types, 28 queued: t6 7, t5 6, t4 5, t3 4, t2 3, and 2 more\n  `engine work TYPE" + server + " -- COMMAND`\n"
	if !strings.HasPrefix(out, want) {
		t.Errorf("status begins with\n%s\nwant\n%s", out, want)
	}
}
