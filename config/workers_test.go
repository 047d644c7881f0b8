package config

import (
	"strings"
	"testing"
	"time"
)

func TestWorkersTable(t *testing.T) {
	if got := mustParse(t, "").Workers; got != (Workers{time.Minute, 5 * time.Second, 2}) {
		t.Errorf("the defaults are %+v", got)
	}
	if got := mustParse(t, "[workers]\nprobe_interval = \"10s\"\nprobe_timeout = \"1s\"\nprobe_failures = 3\n").Workers; got != (Workers{10 * time.Second, time.Second, 3}) {
		t.Errorf("got %+v", got)
	}
	for file, want := range map[string]string{
		`probe_interval = "1ms"`:                           "workers.probe_interval is 1ms: it must be 100ms to 1h0m0s",
		`probe_interval = "2h"`:                            "workers.probe_interval is 2h0m0s",
		`probe_timeout = "1ms"`:                            "workers.probe_timeout is 1ms",
		`probe_timeout = "1m"`:                             "it must be less than probe_interval",
		`probe_failures = 101`:                             "workers.probe_failures is 101: it must be 1 to 100",
		`probe_failures = -1`:                              "workers.probe_failures is -1",
		`probe_interval = "3s"` + "\n" + `probe_retry = 1`: "workers.probe_retry is no setting",
	} {
		if _, err := Parse("e.toml", []byte("[workers]\n"+file+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
