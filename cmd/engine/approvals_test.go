package main

import (
	"encoding/json"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
)

// A line of the history says what was asked and answered.
func TestQuestionsInALine(t *testing.T) {
	for data, want := range map[string]string{
		`{"names":["ok"],"ask":{"number":1,"title":"Pay?","choices":["approve"]}}`:                      `asks="Pay?"`,
		`{"number":1,"name":"ok","answer":1,"payload":{"choice":"edit","by":"bob","value":{"sum":40}}}`: `name=ok answer={"by":"bob","choice":"edit","value":{"sum":40}}`,
		`{"number":1,"name":"ok","payload":{"choice":"edit"}}`:                                          `name=ok`,
	} {
		if got := console.Summary(streamwright.Event{Data: json.RawMessage(data)}, console.Style{}); got != want {
			t.Errorf("%s: %s, want %s", data, got, want)
		}
	}
}
