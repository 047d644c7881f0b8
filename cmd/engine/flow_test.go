package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

func TestFlowUsage(t *testing.T) {
	for says, args := range map[string][]string{
		"cancel, dead or run":            {"--after", anID, "--after-policy", "wait"},
		"merge, distinct, supersede":     {"--dedup-policy", "twice"},
		"use a duration":                 {"--dedup-window", "an hour"},
		"2030-01-31T08:00:00Z":           {"--expires-at", "tomorrow"},
		"invalid --after \"x\": use":     {"--after", "x"},
		"invalid --dedup-window \"-1s\"": {"--dedup-window", "-1s"},
	} {
		engine(t, "", append([]string{"submit", "email"}, args...)...).wants(t, 2, says)
	}
}

// A batch that has ended waits for nothing more, whatever it was to have.
func TestBatchText(t *testing.T) {
	for _, tc := range []struct {
		batch wire.BatchCounts
		state events.ItemState
		want  string
	}{
		{wire.BatchCounts{Name: "n", Total: 3, Declared: 4, Sealed: true, Done: 2}, events.StateWaiting, "n: 2 of 4 done (50 %), 1 still to be submitted"},
		{wire.BatchCounts{Total: 3, Done: 2, Dead: 1}, events.StateWaiting, "2 of 3 done (66 %), 1 dead, open: more may come"},
		{wire.BatchCounts{Total: 3, Declared: 4, Sealed: true, Done: 3, Cancelled: 1}, events.StateCancelled, "3 of 4 done (75 %), 1 cancelled"},
		{wire.BatchCounts{Total: 3, Done: 3, Cancelled: 1}, events.StateCancelled, "3 of 3 done (100 %), 1 cancelled"},
	} {
		if got := console.BatchText(&tc.batch, tc.state); got != tc.want {
			t.Errorf("%+v, %s: %q, not %q", tc.batch, tc.state, got, tc.want)
		}
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

func TestWaitForMany(t *testing.T) {
	e := start(t)
	var ids []string
	for range 3 {
		var s wire.Submitted
		if err := json.Unmarshal([]byte(engine(t, "", "submit", "email", "--json").wants(t, 0).out), &s); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, s.ID)
	}
	engine(t, "", "cancel", ids[1]).wants(t, 0)
	all := append([]string{"wait"}, ids...)
	engine(t, "", append(all, "--any")...).wants(t, 1, ids[1]+"  email  cancelled", "not completed: 1 of 1 item")
	engine(t, "", append(all, "--timeout", "500ms")...).wants(t, 1, ids[1], "2 of 3 items have not ended in the time given for them")
	engine(t, "", append(all, "--timeout", "500ms", "--json")...).wants(t, 1, `"pending":[{"id":"`+ids[0]+`","state":"queued"},{"id":"`+ids[2])
	engine(t, "", "wait", anID).wants(t, 1, anID)
	engine(t, "", "wait").wants(t, 2, "ID")
	e.work("w1", "email", returns(nil, nil))
	engine(t, "", "wait", ids[2], ids[0]).wants(t, 0, ids[2]+"  email  completed", ids[0]+"  email  completed")
	engine(t, "", all...).wants(t, 1, "not completed: 1 of 3 items")
}
