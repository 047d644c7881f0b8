package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// realEngine is the address of an engine in memory.
func realEngine(t *testing.T) string {
	t.Helper()
	e, err := embedded.Start(t.Context(), embedded.Options{Memory: true, NATSListen: "127.0.0.1:0", HTTP: config.Off})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return e.URL()
}

func TestScheduleCommands(t *testing.T) {
	url := realEngine(t)
	do := func(args ...string) ran { t.Helper(); return engine(t, "", append(args, "--server", url)...) }
	do("schedules").wants(t, 0, "no schedules yet")
	do("schedules", "set", "nightly", "--type", "report", "--cron", "0 3 * * *", "--zone", "Europe/Berlin", "--overlap", "merge",
		"--label", "team=billing", "--priority", "high", `{"full":true}`).wants(t, 0, "nightly", "0 3 * * * Europe/Berlin", "merge", "api")
	r := do("schedules", "set", "sweep", "--type", "clean", "--every", "1h", "--anchor", "2026-01-01T00:00:00Z", "--missed", "skip", "--json").wants(t, 0)
	var s wire.ScheduleInfo
	if err := json.Unmarshal([]byte(r.out), &s); err != nil || s.Every != events.Millis(3_600_000) || s.Missed != "skip" || s.Next.Minute() != 0 || s.Next.Second() != 0 {
		t.Errorf("%+v %v", s, err)
	}
	do("schedules", "pause", "sweep").wants(t, 0, "paused")
	do("schedules", "next", "sweep").wants(t, 0, "sweep is paused")
	do("schedules", "resume", "sweep").wants(t, 0, "in ")
	do("schedules", "fire", "nightly").wants(t, 0, "queued")
	do("schedules", "fire", "nightly").wants(t, 0, "merged")
	do("list", "--type", "report", "--label", "team=billing").wants(t, 0, "report")
	do("submit", "report", "{}").wants(t, 0)
	for _, args := range [][]string{{"schedules", "runs", "nightly", "--json"}, {"list", "--schedule", "nightly", "--json"}} {
		if r := do(args...).wants(t, 0, `"trigger":"nightly"`); len(lines(r.out)) != 2 {
			t.Errorf("%q", r.out)
		}
	}
	do("schedules", "runs", "nightly", "--state", "queued").wants(t, 0, "queued")
	do("schedules", "runs", "sweep").wants(t, 0, "no items of schedule sweep")
	do("schedules", "runs", "nightly", "--state", "done").wants(t, 2, "--state")
	if r := do("schedules", "--json").wants(t, 0, `"name":"nightly"`, `"name":"sweep"`); len(lines(r.out)) != 2 {
		t.Errorf("%q", r.out)
	}
	do("schedules").wants(t, 0, "NAME", "nightly", "sweep", "every 1h")
	if r := do("schedules", "next", "nightly", "--count", "3").wants(t, 0, "03:00:00 +0"); len(lines(r.out)) != 3 {
		t.Errorf("%q", r.out)
	}
	do("schedules", "set", "bad", "--type", "a", "--cron", "99 * * * *").wants(t, 2, "the field minute", "bad_request")
	do("schedules", "remove", "nightly").wants(t, 0, "nightly is removed")
	do("schedules", "remove", "nightly").wants(t, 1, "not_found")
	do("schedules", "next", "nightly").wants(t, 1, "engine schedules")
	do("schedules", "runs", "nightly").wants(t, 0, "report") // what it has made stays
}

func TestScheduleUsage(t *testing.T) {
	for says, args := range map[string]string{
		"--cron or --every":   "set a --type t",
		"either NAME":         "next a --every 5m",
		"--anchor is for":     "set a --type t --cron @daily --anchor 2026-01-01T00:00:00Z",
		"leave --zone out":    "next --every 5m --zone UTC",
		"give the --type":     "set a --every 5m",
		"--count 0":           "next --every 5m --count 0",
		"2030-01-31":          "next --every 5m --anchor noon",
		"IANA":                "next --cron @daily --zone Mars",
		"--priority":          "set a --type t --every 5m --priority urgent",
		"key=value":           "set a --type t --every 5m --label x",
		"did you mean pause?": "pau",
	} {
		engine(t, "", append([]string{"schedules"}, strings.Fields(args)...)...).wants(t, 2, says)
	}
	engine(t, "", "schedules", "next", "--cron", "@every x").wants(t, 2, "no duration")
}

// The next ticks of an expression need no engine.
func TestNextTicksOfAnExpression(t *testing.T) {
	r := engine(t, "", "schedules", "next", "--cron", "0 12 29 2 *", "--count", "2", "--json").wants(t, 0, "-02-29T12:00:00Z")
	if len(lines(r.out)) != 2 {
		t.Errorf("%q", r.out)
	}
	engine(t, "", "schedules", "next", "--cron", "0 12 30 2 *").wants(t, 0, "no tick comes")
	if r := engine(t, "", "schedules", "next", "--every", "90s", "--count", "4").wants(t, 0); len(lines(r.out)) != 4 {
		t.Errorf("%q", r.out)
	}
}
