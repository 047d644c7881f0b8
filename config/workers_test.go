package config

import (
	"strings"
	"testing"
	"time"
)

func TestWorkersTable(t *testing.T) {
	if got := mustParse(t, "").Workers; got != (Workers{20 * time.Second, time.Minute, 5 * time.Second, time.Minute, time.Minute, 5 * time.Second, 2}) {
		t.Errorf("the defaults are %+v", got)
	}
	if got := mustParse(t, "[workers]\nprobe_interval = \"10s\"\nprobe_timeout = \"1s\"\nprobe_failures = 3\n").Workers; got != (Workers{20 * time.Second, time.Minute, 5 * time.Second, time.Minute, 10 * time.Second, time.Second, 3}) {
		t.Errorf("got %+v", got)
	}
	const times = "[workers]\nheartbeat_interval = \"5s\"\ndead_after = \"12s\"\nstart_timeout = \"3s\"\nsweep_interval = \"10s\"\n"
	if got := mustParse(t, times).Workers; got != (Workers{5 * time.Second, 12 * time.Second, 3 * time.Second, 10 * time.Second, time.Minute, 5 * time.Second, 2}) {
		t.Errorf("got %+v", got)
	}
	// One of the two alone gives the other a fitting default.
	for file, want := range map[string][2]time.Duration{
		`dead_after = "30s"`:         {10 * time.Second, 30 * time.Second},
		`dead_after = "10m"`:         {20 * time.Second, 10 * time.Minute},
		`heartbeat_interval = "1m"`:  {time.Minute, 3 * time.Minute},
		`heartbeat_interval = "1s"`:  {time.Second, time.Minute},
		`heartbeat_interval = "20s"`: {20 * time.Second, time.Minute},
	} {
		got := mustParse(t, "[workers]\n"+file+"\n").Workers
		if got.HeartbeatInterval != want[0] || got.DeadAfter != want[1] {
			t.Errorf("%s: a heartbeat each %s, dead after %s", file, got.HeartbeatInterval, got.DeadAfter)
		}
	}
	for file, want := range map[string]string{
		`heartbeat_interval = "1ms"`:                         "e.toml:2: workers.heartbeat_interval is 1ms: it must be 100ms to 10m",
		`heartbeat_interval = "1h"`:                          "workers.heartbeat_interval is 1h: it must be 100ms to 10m",
		`dead_after = "100ms"`:                               "workers.dead_after is 100ms: it must be 300ms to 1h",
		`heartbeat_interval = "0s"`:                          "workers.heartbeat_interval is 0s: it must be 100ms to 10m",
		`dead_after = "0s"`:                                  "workers.dead_after is 0s: it must be 300ms to 1h",
		`dead_after = "2h"`:                                  "workers.dead_after is 2h",
		"heartbeat_interval = \"10s\"\ndead_after = \"19s\"": "e.toml:3: workers.dead_after is 19s: it must be at least 2 times heartbeat_interval, which is 10s",
		`start_timeout = "1ms"`:                              "workers.start_timeout is 1ms: it must be 100ms to 1h",
		`sweep_interval = "2h"`:                              "workers.sweep_interval is 2h: it must be 1s to 1h",
		`probe_interval = "1ms"`:                             "workers.probe_interval is 1ms: it must be 100ms to 1h",
		`probe_interval = "2h"`:                              "workers.probe_interval is 2h",
		`probe_timeout = "1ms"`:                              "workers.probe_timeout is 1ms",
		`probe_timeout = "1m"`:                               "it must be less than probe_interval",
		`probe_failures = 101`:                               "workers.probe_failures is 101: it must be 1 to 100",
		`probe_failures = -1`:                                "workers.probe_failures is -1",
		`probe_interval = "3s"` + "\n" + `probe_retry = 1`:   "workers.probe_retry is no setting",
		`heartbeat_interval = "50m"`:                         "e.toml:2: workers.heartbeat_interval is 50m: it must be 100ms to 10m",
	} {
		if _, err := Parse("e.toml", []byte("[workers]\n"+file+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
