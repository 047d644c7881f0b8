package main

import (
	"encoding/json"
	"testing"

	"github.com/streamwright/streamwright/events"
)

func TestLimitsInWords(t *testing.T) {
	s := events.DefaultTypeSettings()
	if got := limitsOf(s); got != "-" {
		t.Fatal(got)
	}
	s.MaxQueued, s.GroupCapacity, s.Pool, s.GroupBy = 5000, 2, "llm", "label:team"
	s.QueueSteps = []events.QueueStep{{Over: 5, MinPriority: 3}}
	s.Rates = []events.RateLimit{{Per: "tenant", At: "submit", N: 100, IntervalMS: 60_000}}
	want := "queue 5,000, queue steps 1, 100 in 1m per tenant at submit, turns by label:team, 2 per label:team, pool llm (weight 1)"
	if got := limitsOf(s); got != want {
		t.Fatalf("%s\nwant %s", got, want)
	}
}

func TestLimitsAreSet(t *testing.T) {
	patch, err := settingsPatch([]string{"max_queued=10", "pool=llm", `rates=[{"per":"type","at":"dispatch","n":1,"interval_ms":1000}]`, "group_by=none"})
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
