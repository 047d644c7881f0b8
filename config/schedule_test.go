package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

func TestSchedulesOfTheExample(t *testing.T) {
	c, err := Load("../engine.example.toml")
	if err != nil {
		t.Fatal(err)
	}
	seven := events.Priority(7)
	want := []events.Schedule{{
		Name: "nightly-report", Type: "report", Cron: "0 3 * * mon-fri", Zone: "Europe/Berlin", Missed: events.MissedOne, Overlap: events.DedupMerge,
		Params: []byte(`{"full":true}`), Priority: &seven, Tenant: "acme", Labels: map[string]string{"team": "billing"},
		MaxAttempts: 2, Timeout: events.Millis(1_800_000), Source: events.SourceFile,
	}, {
		Name: "sweep", Type: "clean", Every: events.Millis(300_000), Anchor: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		Missed: events.MissedOne, Overlap: events.DedupDistinct, Source: events.SourceFile,
	}}
	if got := c.FileSchedules(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestBadSchedules(t *testing.T) {
	for name, tc := range map[string]struct{ file, want string }{
		"name":            {"[schedules.\"A b\"]\ntype = \"a\"", "engine.toml:1: schedules.A b \"A b\" is no name of a schedule"},
		"no type":         {"[schedules.a]\ncron = \"* * * * *\"", "engine.toml:1: schedules.a.type is missing"},
		"bad type":        {"[schedules.a]\ntype = \"A\"\ncron = \"* * * * *\"", "engine.toml:2: schedules.a.type is wrong"},
		"unknown key":     {"[schedules.a]\ntype = \"a\"\ncrom = \"* * * * *\"", "engine.toml:3: schedules.a.crom is no setting: did you mean cron?"},
		"cron":            {"[schedules.a]\ntype = \"a\"\ncron = \"0 25 * * *\"", "engine.toml:3: schedules.a.cron is wrong: the field hour, \"25\": 25 is outside 0 to 23"},
		"never":           {"[schedules.a]\ntype = \"a\"\ncron = \"0 0 31 feb *\"", "schedules.a.cron is \"0 0 31 feb *\": no moment"},
		"@every":          {"[schedules.a]\ntype = \"a\"\ncron = \"@every soon\"", "schedules.a.cron is wrong: \"soon\" is no duration"},
		"@every bound":    {"[schedules.a]\ntype = \"a\"\ncron = \"@every 1ms\"", "schedules.a.cron is 1ms: it must be 1s to"},
		"zone":            {"[schedules.a]\ntype = \"a\"\ncron = \"* * * * *\"\nzone = \"Mars\"", "engine.toml:4: schedules.a.zone is wrong: \"Mars\" is no time zone"},
		"every":           {"[schedules.a]\ntype = \"a\"\nevery = \"10ms\"", "engine.toml:3: schedules.a.every is 10ms: it must be 1s to"},
		"no timing":       {"[schedules.a]\ntype = \"a\"", "engine.toml:1: schedules.a is wrong: schedule a: give either cron or every"},
		"both":            {"[schedules.a]\ntype = \"a\"\nevery = \"1m\"\ncron = \"* * * * *\"", "give either cron or every"},
		"missed":          {"[schedules.a]\ntype = \"a\"\nevery = \"1m\"\nmissed = \"some\"", `schedules.a.missed is "some": it must be "skip", "one" or "all"`},
		"overlap":         {"[schedules.a]\ntype = \"a\"\nevery = \"1m\"\noverlap = \"queue\"", `schedules.a.overlap is "queue": it must be "distinct", "merge"`},
		"params":          {"[schedules.a]\ntype = \"a\"\nevery = \"1m\"\nparams = \"hello\"", `engine.toml:4: schedules.a.params is "hello": it must be a JSON document`},
		"params, no JSON": {"[schedules.a]\ntype = \"a\"\nevery = \"1m\"\nparams = { x = nan }", "schedules.a.params can't be written as JSON"},
		"labels":          {"[schedules.a]\ntype = \"a\"\nevery = \"1m\"\nlabels = { a = 1 }", "schedules.a.labels has a = 1: it must be a string"},
		"our label":       {"[schedules.a]\ntype = \"a\"\nevery = \"1m\"\nlabels = { schedule_tick = \"x\" }", "the label schedule_tick is the engine's"},
		"anchor":          {"[schedules.a]\ntype = \"a\"\nevery = \"1m\"\nanchor = \"noon\"", "schedules.a.anchor is \"noon\": it must be a time"},
		"priority":        {"[schedules.a]\ntype = \"a\"\nevery = \"1m\"\npriority = 10", "schedules.a.priority is 10: it must be 0 to 9"},
		"paused":          {"[schedules.a]\ntype = \"a\"\nevery = \"1m\"\npaused = \"yes\"", "schedules.a.paused is \"yes\": it must be true or false"},
		"attempts":        {"[schedules.a]\ntype = \"a\"\nevery = \"1m\"\nmax_attempts = 1001", "max_attempts is 1001"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("engine.toml", []byte(tc.file)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

func TestScheduleKinds(t *testing.T) {
	c, err := Parse("engine.toml", []byte("[schedules.a]\ntype = \"a\"\ncron = \"@every 90s\"\nparams = '[1, \"<\"]'\npaused = true\n[schedules.b]\ntype = \"a\"\ncron = \"@daily\"\nparams = { at = 2026-01-02, n = 1 }"))
	if err != nil {
		t.Fatal(err)
	}
	list := c.FileSchedules()
	if string(list[0].Params) != `[1, "<"]` || !list[0].Paused || list[0].Cron != "@every 90s" || string(list[1].Params) != `{"at":"2026-01-02","n":1}` || list[1].Paused {
		t.Errorf("%+v", list)
	}
}
