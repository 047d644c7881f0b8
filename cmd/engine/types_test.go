package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
)

func TestLimitsInWords(t *testing.T) {
	s := events.DefaultTypeSettings()
	if got := limitsOf(s); got != "-" {
		t.Fatal(got)
	}
	s.MaxQueued, s.GroupCapacity, s.Pool, s.GroupBy, s.AssignBy = 5000, 2, "llm", "label:team", "tenant"
	s.QueueSteps = []events.QueueStep{{Over: 5, MinPriority: 3}}
	s.Rates = []events.RateLimit{{Per: "tenant", At: "submit", N: 100, Interval: events.Millis(60_000)}}
	want := "assigned by tenant, queue 5,000, queue steps 1, 100 in 1m per tenant at submit, turns by label:team, 2 per label:team, pool llm (weight 1)"
	if got := limitsOf(s); got != want {
		t.Fatalf("%s\nwant %s", got, want)
	}
}

func TestLimitsAreSet(t *testing.T) {
	patch, err := settingsPatch([]string{"max_queued=10", "pool=llm", `rates=[{"per":"type","at":"dispatch","n":1,"interval":"1s"}]`, "group_by=none"})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(patch)
	want := `{"group_by":"none","max_queued":10,"pool":"llm","rates":[{"per":"type","at":"dispatch","n":1,"interval_ms":1000}]}`
	if err != nil || string(data) != want {
		t.Fatalf("%s %v", data, err)
	}
	if _, err := settingsPatch([]string{"rates={}"}); err == nil {
		t.Fatal("rates are a list")
	}
}

// `types set` spells settings as engine.toml and the HTTP API do, and has all.
func TestSettingsAreSpelledAsInTheFile(t *testing.T) {
	file := config.TypeSettings()
	for _, s := range file {
		if _, err := settingsPatch([]string{s.Name + "=?"}); err != nil && strings.Contains(err.Error(), "is no setting") {
			t.Errorf("types set does not know %s of engine.toml", s.Name)
		}
	}
	patch, err := settingsPatch([]string{"lease=30s", "timeout=1500ms", "max_params=1KiB", "retain.dead=48h", "dedup_policy=defer"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(patch)
	if want := `{"dedup_policy":"defer","lease_ms":30000,"max_params_bytes":1024,"retain":{"dead_ms":172800000},"timeout_ms":1500}`; err != nil || string(got) != want {
		t.Errorf("%s %v, want %s", got, err, want)
	}
	for arg, want := range map[string]string{
		"lease_ms=30s": `lease_ms is called lease here: write lease = "30s"`, "backoff.max_ms=1m": "backoff.max_ms is called max here", "priority={}": "did you mean per_priority?",
		"lease=30": `lease is "30": it must be a duration such as "30s"`, "max_params=1024": "it must be a size such as", "capacity=x": `capacity is "x": it must be a whole number`,
		`rates=[{"per":"type","at":"submit","n":1,"interval":1000}]`: "interval is 1000: it must be a duration", "codes=5": "codes is 5: it must be a table",
	} {
		if _, err := settingsPatch([]string{arg}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

// Numbers in a table reach the engine as they were written.
func TestNumbersInTablesAreNotRounded(t *testing.T) {
	v, err := jsonValue(`{"a":9007199254740993,"b":[-9223372036854775808,1.5,4.0,1e3]}`)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(v)
	if want := `{"a":9007199254740993,"b":[-9223372036854775808,1.5,4,1000]}`; err != nil || string(data) != want {
		t.Errorf("%s, %v; want %s", data, err, want)
	}
	if _, err := settingsPatch([]string{`rates=[{"per":"type","at":"dispatch","n":9007199254740993,"interval":"1s"}]`}); err == nil || !strings.Contains(err.Error(), "n is 9007199254740993") {
		t.Error(err)
	}
}
