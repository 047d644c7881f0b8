package command_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

func TestTermsBounds(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	most := events.Millis(math.MaxInt64)
	ms := func(d time.Duration) *events.Duration { return new(events.DurationOf(d)) }
	for name, c := range map[string]struct {
		terms wire.SubmitOptions
		code  events.Code
	}{
		"id":                   {wire.SubmitOptions{After: []string{"x"}}, events.CodeBadID},
		"too many":             {wire.SubmitOptions{After: slices.Repeat([]string{anID}, events.MaxAfter+1)}, events.CodeTooLarge},
		"after policy":         {wire.SubmitOptions{After: []string{anID}, AfterPolicy: "maybe"}, events.CodeBadRequest},
		"policy alone":         {wire.SubmitOptions{AfterPolicy: events.AfterRun}, events.CodeBadRequest},
		"dedup policy":         {wire.SubmitOptions{DedupPolicy: "twice"}, events.CodeBadRequest},
		"window":               {wire.SubmitOptions{DedupWindow: ms(events.MaxDedupWindow + time.Millisecond)}, events.CodeBadTime},
		"negative window":      {wire.SubmitOptions{DedupWindow: ms(-time.Millisecond)}, events.CodeBadTime},
		"overflowing":          {wire.SubmitOptions{DedupWindow: &most}, events.CodeBadTime},
		"policy without a key": {wire.SubmitOptions{DedupPolicy: events.DedupDefer}, events.CodeBadRequest},
		"window without a key": {wire.SubmitOptions{DedupWindow: ms(0)}, events.CodeBadRequest},
		"negative estimate":    {wire.SubmitOptions{EstimatedDuration: events.Millis(-1)}, events.CodeBadTime},
		"estimate too long":    {wire.SubmitOptions{EstimatedDuration: events.Millis(events.MaxTimeout.Milliseconds() + 1)}, events.CodeBadTime},
		"expires too late":     {wire.SubmitOptions{ExpiresAt: now.AddDate(11, 0, 0)}, events.CodeBadTime},
		"fine":                 {wire.SubmitOptions{After: []string{anID}, AfterPolicy: events.AfterDead, DedupPolicy: events.DedupDefer, DedupWindow: ms(0), ExpiresAt: now.Add(time.Hour)}, ""},
	} {
		key := "k"
		if name == "policy without a key" || name == "window without a key" {
			key = ""
		}
		_, err := command.OfSubmit(wire.Submit{Type: "email", DedupKey: key, SubmitOptions: c.terms}, freshID(now), 1000)
		if got := events.CodeOf(err); err != nil && got != c.code || err == nil && c.code != "" {
			t.Errorf("%s: got %v, want %q", name, err, c.code)
		}
	}
}

func flowReport(event string) command.Report {
	return command.Report{Report: &wire.Report{ID: anID, Token: "1z", Worker: "w1", Event: event}}
}

func TestFlowReportsBecomeCommands(t *testing.T) {
	snooze := flowReport(wire.ReportSnooze)
	snooze.Delay, snooze.Reason = events.Millis(1500), "later"
	cmd, err := snooze.Command(0)
	if c, ok := cmd.(core.Snooze); err != nil || !ok || c.Delay != 1500*time.Millisecond || c.Reason != "later" || c.Worker != "w1" {
		t.Errorf("snooze: %+v, %v", cmd, err)
	}
	progress := flowReport(wire.ReportProgress)
	progress.Percent, progress.Message = 40, strings.Repeat("é", events.MaxProgressText)
	cmd, err = progress.Command(0)
	if c, ok := cmd.(core.ReportProgress); err != nil || !ok || c.Percent != 40 || len(c.Message) != events.MaxProgressText {
		t.Errorf("progress: %+v, %v", cmd, err)
	}
	save := flowReport(wire.ReportCheckpoint)
	save.Checkpoint = json.RawMessage(`{"page":7}`)
	cmd, err = save.Command(0)
	if c, ok := cmd.(core.SaveCheckpoint); err != nil || !ok || string(c.Checkpoint) != `{"page":7}` {
		t.Errorf("checkpoint: %+v, %v", cmd, err)
	}
}

func TestSpawnReport(t *testing.T) {
	spawn := flowReport(wire.ReportSpawn)
	err := json.Unmarshal([]byte(`{"children":[{"type":"page","params":1},{"type":"page","after":["`+anID+`"]}],"continuation":{"name":"bind"},"child_policy":"continue"}`), &spawn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := spawn.Command(0); events.CodeOf(err) != events.CodeBadRequest {
		t.Errorf("a spawn that was not prepared: %v", err)
	}
	var made []events.ID
	if err := spawn.Prepare(func() events.ID { made = append(made, freshID(time.Now())); return made[len(made)-1] }, 1000); err != nil {
		t.Fatal(err)
	}
	cmd, err := spawn.Command(0)
	c, ok := cmd.(core.Spawn)
	if err != nil || !ok || len(c.Children) != 2 || !c.Continues || c.Continuation != "bind" || c.Policy != events.ChildContinue {
		t.Fatalf("%+v, %v", cmd, err)
	}
	if c.Children[0].NewID != made[0] || c.Children[1].NewID != made[1] || len(c.Children[1].After) != 1 {
		t.Errorf("children %+v, ids %v", c.Children, made)
	}
}

func TestFlowReportBounds(t *testing.T) {
	child := wire.Submit{Type: "page"}
	large := wire.Submit{Type: "page", Params: json.RawMessage(`"` + strings.Repeat("x", wire.MaxSpawnBytes/20) + `"`)}
	for name, c := range map[string]struct {
		event string
		flow  wire.ReportFlow
		code  events.Code
		says  string
	}{
		"no delay":        {wire.ReportSnooze, wire.ReportFlow{}, events.CodeBadTime, "1 to"},
		"long delay":      {wire.ReportSnooze, wire.ReportFlow{Delay: events.Millis(1<<63 - 1)}, events.CodeBadTime, "delay_ms"},
		"percent":         {wire.ReportProgress, wire.ReportFlow{Percent: 101}, events.CodeBadRequest, "0 to 100"},
		"no checkpoint":   {wire.ReportCheckpoint, wire.ReportFlow{}, events.CodeBadRequest, "no checkpoint"},
		"bad checkpoint":  {wire.ReportCheckpoint, wire.ReportFlow{Checkpoint: json.RawMessage("{x")}, events.CodeBadRequest, "byte 2"},
		"big checkpoint":  {wire.ReportCheckpoint, wire.ReportFlow{Checkpoint: json.RawMessage(`"` + strings.Repeat("x", events.MaxCheckpoint) + `"`)}, events.CodeTooLarge, "65538 bytes"},
		"no children":     {wire.ReportSpawn, wire.ReportFlow{}, events.CodeBadRequest, "no children"},
		"many children":   {wire.ReportSpawn, wire.ReportFlow{Children: slices.Repeat([]wire.Submit{child}, events.MaxChildren+1)}, events.CodeTooLarge, "at most 10000"},
		"large children":  {wire.ReportSpawn, wire.ReportFlow{Children: slices.Repeat([]wire.Submit{large}, 20)}, events.CodeTooLarge, "together"},
		"a bad child":     {wire.ReportSpawn, wire.ReportFlow{Children: []wire.Submit{child, {Type: "A B"}}}, events.CodeBadType, "child 2"},
		"child policy":    {wire.ReportSpawn, wire.ReportFlow{Children: []wire.Submit{child}, ChildPolicy: "ignore"}, events.CodeBadRequest, "child_policy"},
		"continuation":    {wire.ReportSpawn, wire.ReportFlow{Children: []wire.Submit{child}, Continuation: &wire.ContinueWith{Name: strings.Repeat("x", 257)}}, events.CodeTooLarge, "continuation"},
		"unknown report":  {"dance", wire.ReportFlow{}, events.CodeBadRequest, "checkpoint"},
		"nothing amiss":   {wire.ReportSpawn, wire.ReportFlow{Children: []wire.Submit{child}}, "", ""},
		"negative amount": {wire.ReportProgress, wire.ReportFlow{Percent: -1}, events.CodeBadRequest, "0 to 100"},
	} {
		r := flowReport(c.event)
		r.ReportFlow = c.flow
		err := r.Prepare(func() events.ID { return freshID(time.Now()) }, 1<<20)
		if err == nil {
			_, err = r.Command(0)
		}
		if c.code == "" && err == nil {
			continue
		}
		if events.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: got %v, want %s saying %q", name, err, c.code, c.says)
		}
	}
}

// An item's attempts are numbered on over its replays, so a report may name one above the
// ceiling of a single life.
func TestReportOfAHighAttempt(t *testing.T) {
	r := command.Report{Report: &wire.Report{ID: (events.ID{1}).String(), Token: events.NewToken(1, 1).String(), Worker: "w", Event: wire.ReportComplete, Attempt: events.MaxAttemptsCeiling + 1}}
	if _, err := r.Command(0); err != nil {
		t.Error(err)
	}
	r.Attempt = -1
	if _, err := r.Command(0); events.CodeOf(err) != events.CodeBadRequest {
		t.Error(err)
	}
}
