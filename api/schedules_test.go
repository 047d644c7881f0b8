package api

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

func TestSchedules(t *testing.T) {
	r := newRig(t, nil)
	if got := ask[wire.SchedulesReply](r, wire.APISchedules, struct{}{}); got.Schedules == nil || len(got.Schedules) != 0 {
		t.Fatalf("%+v", got)
	}
	prio := wire.Priority(7)
	req := wire.Schedule{Name: "report", Type: "report", Cron: "0 9 * * *", Zone: "Europe/Berlin", Priority: &prio, Params: json.RawMessage(`{"full":true}`), Overlap: "merge"}
	set := ask[wire.ScheduleReply](r, wire.APIScheduleSet, req)
	s := set.Schedule
	if s == nil || s.Next.IsZero() || s.Source != "api" || s.Missed != "one" || s.Overlap != "merge" || *s.Priority != 7 || string(s.Params) != `{"full":true}` || set.Position == "" || set.Repeat {
		t.Fatalf("%+v %+v", set, s)
	}
	if again := ask[wire.ScheduleReply](r, wire.APIScheduleSet, req); !again.Repeat || !again.Schedule.Next.Equal(s.Next) {
		t.Errorf("%+v", again)
	}
	if p := ask[wire.ScheduleReply](r, wire.APISchedulePause, wire.ScheduleName{Name: "report"}); !p.Schedule.Paused {
		t.Errorf("%+v", p.Schedule)
	}
	if p := ask[wire.ScheduleReply](r, wire.APIScheduleResume, wire.ScheduleName{Name: "report"}); p.Schedule.Paused || !p.Schedule.Next.Equal(s.Next) {
		t.Errorf("%+v", p.Schedule)
	}
	id := r.eng.NewID().String()
	for range 2 {
		if f := ask[wire.Submitted](r, wire.APIScheduleFire, wire.ScheduleFire{Name: "report", ID: id}); f.ID != id || f.State != events.StateQueued {
			t.Errorf("%+v", f)
		}
	}
	it := ask[wire.Item](r, wire.APIGet, wire.Get{ID: id, MinPosition: wire.PositionOf(r.eng.Position())})
	if it.Provenance != (events.Provenance{Source: "schedule", Trigger: "report"}) || it.Priority != 7 || it.DedupKey != "schedule:report" {
		t.Errorf("%+v", it)
	}
	if f := ask[wire.Submitted](r, wire.APIScheduleFire, wire.ScheduleFire{Name: "report"}); f.MergedInto != id {
		t.Errorf("%+v", f)
	}
	rm := ask[wire.ScheduleReply](r, wire.APIScheduleRemove, wire.ScheduleName{Name: "report"})
	if got := ask[wire.SchedulesReply](r, wire.APISchedules, wire.StatsRequest{MinPosition: rm.Position}); len(got.Schedules) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestRefusedSchedules(t *testing.T) {
	r := newRig(t, nil)
	eleven := wire.Priority(11)
	for name, c := range map[string]struct {
		req  wire.Schedule
		code events.Code
		says string
	}{
		"name":     {wire.Schedule{Name: "My Job", Type: "a", Every: events.Millis(60_000)}, events.CodeBadRequest, "no name of a schedule"},
		"type":     {wire.Schedule{Name: "a", Type: "A", Every: events.Millis(60_000)}, events.CodeBadType, "type name"},
		"nothing":  {wire.Schedule{Name: "a", Type: "a"}, events.CodeBadRequest, "either cron or every"},
		"cron":     {wire.Schedule{Name: "a", Type: "a", Cron: "0 9 * * 9"}, events.CodeBadRequest, "the field day of the week"},
		"seconds":  {wire.Schedule{Name: "a", Type: "a", Cron: "0 0 9 * * *"}, events.CodeBadRequest, "none for seconds"},
		"@every":   {wire.Schedule{Name: "a", Type: "a", Cron: "@every x"}, events.CodeBadRequest, "no duration"},
		"twice":    {wire.Schedule{Name: "a", Type: "a", Cron: "@every 5m", Every: events.Millis(60_000)}, events.CodeBadRequest, "one interval"},
		"zone":     {wire.Schedule{Name: "a", Type: "a", Cron: "@daily", Zone: "Berlin"}, events.CodeBadRequest, "IANA"},
		"often":    {wire.Schedule{Name: "a", Type: "a", Every: events.Millis(10)}, events.CodeBadRequest, "1s"},
		"negative": {wire.Schedule{Name: "a", Type: "a", Every: events.Millis(-10)}, events.CodeBadRequest, "longer than nothing"},
		"missed":   {wire.Schedule{Name: "a", Type: "a", Every: events.Millis(60_000), Missed: "most"}, events.CodeBadRequest, "skip, one or all"},
		"overlap":  {wire.Schedule{Name: "a", Type: "a", Every: events.Millis(60_000), Overlap: "most"}, events.CodeBadRequest, "distinct, merge, defer or supersede"},
		"priority": {wire.Schedule{Name: "a", Type: "a", Every: events.Millis(60_000), Priority: &eleven}, events.CodeBadPriority, "0 to 9"},
		"params":   {wire.Schedule{Name: "a", Type: "a", Every: events.Millis(60_000), Params: json.RawMessage(`"` + strings.Repeat("x", events.MaxScheduleParams) + `"`)}, events.CodeTooLarge, "reference"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := try[wire.ScheduleReply](r, wire.APIScheduleSet, c.req)
			wantCode(t, err, c.code)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v does not say %q", err, c.says)
			}
		})
	}
	for _, op := range []string{wire.APIScheduleRemove, wire.APISchedulePause, wire.APIScheduleResume, wire.APIScheduleFire} {
		_, err := try[wire.ScheduleReply](r, op, wire.ScheduleName{Name: "nobody"})
		wantCode(t, err, events.CodeNotFound)
	}
	_, err := try[wire.Submitted](r, wire.APIScheduleFire, wire.ScheduleFire{Name: "a", ID: "x"})
	wantCode(t, err, events.CodeBadID)
	_, err = try[wire.ScheduleReply](r, wire.APIScheduleSet, map[string]any{"name": "a", "crom": "x"})
	wantCode(t, err, events.CodeBadRequest)
}

// "@every 5m" is an interval, under its own name.
func TestEveryInCronIsAnInterval(t *testing.T) {
	r := newRig(t, nil)
	s := ask[wire.ScheduleReply](r, wire.APIScheduleSet, wire.Schedule{Name: "a", Type: "a", Cron: "@every 5m"}).Schedule
	if s.Cron != "" || s.Every != events.Millis(300_000) || s.Anchor.IsZero() || !s.Next.Equal(s.Anchor.Add(5*time.Minute)) {
		t.Errorf("%+v", s)
	}
}

func TestTicks(t *testing.T) {
	r := newRig(t, nil)
	got := ask[wire.TicksReply](r, wire.APITicks, wire.Ticks{Cron: "30 2 * * *", Zone: "Europe/Berlin"})
	if len(got.Ticks) != wire.DefaultTicks {
		t.Fatalf("%+v", got)
	}
	set := ask[wire.ScheduleReply](r, wire.APIScheduleSet, wire.Schedule{Name: "report", Type: "report", Cron: "30 2 * * *", Zone: "Europe/Berlin"})
	if !got.Ticks[0].Equal(set.Schedule.Next) {
		t.Errorf("the first tick is %s, that of such a schedule %s", got.Ticks[0], set.Schedule.Next)
	}
	anchor := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for at, req := range map[string]wire.Ticks{
		"interval": {Every: events.Millis(900_000), Anchor: anchor, Count: 3}, "@every": {Cron: "@every 15m", Anchor: anchor, Count: 3},
	} {
		got := ask[wire.TicksReply](r, wire.APITicks, req)
		if len(got.Ticks) != 3 || got.Ticks[0].Minute()%15 != 0 || got.Ticks[2].Sub(got.Ticks[0]) != 30*time.Minute {
			t.Errorf("%s: %+v", at, got)
		}
	}
	for says, req := range map[string]any{
		"either cron or every":          wire.Ticks{},
		"the field hour":                wire.Ticks{Cron: "0 99 * * *"},
		"no time zone":                  wire.Ticks{Cron: "@daily", Zone: "Berlin"},
		"1s":                            wire.Ticks{Every: events.Millis(10)},
		"leave the zone out":            wire.Ticks{Every: events.Millis(60_000), Zone: "UTC"},
		"an anchor is for an interval":  wire.Ticks{Cron: "@daily", Anchor: anchor},
		"choose a year":                 wire.Ticks{Every: events.Millis(1000), Anchor: anchor.AddDate(900, 0, 0)},
		"no moment in the next ten":     wire.Ticks{Cron: "0 0 31 2 *"},
		"count is 101: it must be 1 to": wire.Ticks{Cron: "@daily", Count: 101},
		"no duration":                   wire.Ticks{Cron: "@every x"},
		"crom":                          map[string]any{"crom": "@daily"},
	} {
		_, err := try[wire.TicksReply](r, wire.APITicks, req)
		wantCode(t, err, events.CodeBadRequest)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "schedule :") {
			t.Errorf("%v does not say %q", err, says)
		}
	}
}
