package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/wire"
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
	r := engine(t, "", "status", "--server", e.URL()).wants(t, 0, "min_free_bytes is 1024 TiB", "New work is refused and nothing new is begun", "Make room on that disk")
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
