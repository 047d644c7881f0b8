package main

import (
	"bytes"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
)

func TestFlowUsage(t *testing.T) {
	for says, args := range map[string][]string{
		"cancel, dead or run":          {"--after", anID, "--after-policy", "wait"},
		"merge, distinct, supersede":   {"--dedup-policy", "twice"},
		"no duration":                  {"--dedup-window", "an hour"},
		"2030-01-31T08:00:00Z":         {"--expires-at", "tomorrow"},
		"--after: \"x\" is no work id": {"--after", "x"},
		"--dedup-window \"-1s\" is no": {"--dedup-window", "-1s"},
	} {
		engine(t, "", append([]string{"submit", "email"}, args...)...).wants(t, 2, says)
	}
}

func TestTreeIsDrawn(t *testing.T) {
	var out bytes.Buffer
	a := &app{App: console.App{Out: &out}}
	root := streamwright.TreeNode{ID: "R", Type: "t", State: events.StateWaiting, Children: []streamwright.TreeNode{
		{ID: "A", Type: "t", State: events.StateRunning, Progress: &streamwright.Progress{Percent: 40, Message: "on it"}, Children: []streamwright.TreeNode{
			{ID: "C", Type: "t", State: events.StateDead, Attempt: 3, Reason: "exhausted", Code: "timeout"},
		}, Truncated: true},
		{ID: "B", Type: "t", State: events.StateQueued},
	}}
	a.drawBelow(&root, "   ", console.Style{})
	want := `   ├─ A  t  running  40 %  on it
   │  ├─ C  t  dead  #3  exhausted  (timeout)
   │  └─ … and more, not shown: show one of these
   └─ B  t  queued
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}
