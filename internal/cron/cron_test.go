package cron

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func at(t testing.TB, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func cronOf(t testing.TB, expr, zone string) Timing {
	t.Helper()
	c, err := New(expr, zone)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTicks(t *testing.T) {
	for name, tc := range map[string]struct {
		expr, zone, after string
		want              []string
	}{
		"every minute":             {"* * * * *", "", "2026-01-01T00:00:30Z", []string{"2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"}},
		"after means after":        {"5 * * * *", "", "2026-01-01T00:05:00Z", []string{"2026-01-01T01:05:00Z"}},
		"steps":                    {"*/20 8-9 * * *", "", "2026-01-01T08:50:00Z", []string{"2026-01-01T09:00:00Z", "2026-01-01T09:20:00Z", "2026-01-01T09:40:00Z", "2026-01-02T08:00:00Z"}},
		"a step from a value on":   {"50/5 0 * * *", "", "2026-01-01T00:50:00Z", []string{"2026-01-01T00:55:00Z", "2026-01-02T00:50:00Z"}},
		"a list":                   {"0 6,18 * * *", "UTC", "2026-01-01T06:00:00Z", []string{"2026-01-01T18:00:00Z", "2026-01-02T06:00:00Z"}},
		"weekdays":                 {"0 9 * * mon-FRI", "", "2026-01-02T09:00:00Z", []string{"2026-01-05T09:00:00Z"}},
		"sunday is 7":              {"0 0 * * 7", "", "2026-01-01T00:00:00Z", []string{"2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"}},
		"a range to sunday":        {"0 0 * * 6-7", "", "2026-01-01T00:00:00Z", []string{"2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z", "2026-01-10T00:00:00Z"}},
		"either of the days":       {"0 0 13 * 5", "", "2026-02-08T00:00:00Z", []string{"2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z", "2026-02-27T00:00:00Z", "2026-03-06T00:00:00Z", "2026-03-13T00:00:00Z"}},
		"the 31st":                 {"0 0 31 * *", "", "2026-03-31T00:00:00Z", []string{"2026-05-31T00:00:00Z"}},
		"leap day":                 {"0 0 29 feb *", "", "2097-01-01T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},
		"hourly":                   {"@hourly", "", "2026-01-01T00:30:00Z", []string{"2026-01-01T01:00:00Z"}},
		"weekly":                   {"@weekly", "", "2026-01-01T00:30:00Z", []string{"2026-01-04T00:00:00Z"}},
		"in a zone":                {"0 9 * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", []string{"2026-01-01T03:30:00Z"}},
		"in a zone, by real time":  {"0 * * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", []string{"2026-01-01T00:30:00Z", "2026-01-01T01:30:00Z"}},
		"a month, by real time":    {"0 * 1 3 *", "Europe/Berlin", "2026-01-01T00:00:00Z", []string{"2026-02-28T23:00:00Z", "2026-03-01T00:00:00Z"}},
		"never":                    {"0 0 30 2 *", "", "2026-01-01T00:00:00Z", nil},
		"never, by real time":      {"* * 31 4 *", "", "2026-01-01T00:00:00Z", nil},
		"winter and summer":        {"0 9 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", []string{"2026-03-28T08:00:00Z", "2026-03-29T07:00:00Z"}},
		"skipped: Berlin":          {"30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", []string{"2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
		"skipped: several are one": {"*/20 2,3 * * *", "Europe/Berlin", "2026-03-28T20:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-29T01:20:00Z", "2026-03-29T01:40:00Z", "2026-03-30T00:00:00Z"}},
		"repeated: Berlin":         {"30 2 * * *", "Europe/Berlin", "2026-10-24T10:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		"repeated: from within":    {"30 2 * * *", "Europe/Berlin", "2026-10-25T00:45:00Z", []string{"2026-10-26T01:30:00Z"}},
		"repeated: only the first": {"0,30 1-3 * * *", "Europe/Berlin", "2026-10-24T22:45:00Z", []string{"2026-10-24T23:00:00Z", "2026-10-24T23:30:00Z", "2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z", "2026-10-25T02:30:00Z"}},
		"real time, skipped":       {"30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", []string{"2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:30:00Z"}},
		"real time, repeated":      {"30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"}},
		"skipped: New York":        {"30 2 * * *", "America/New_York", "2026-03-08T00:00:00Z", []string{"2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"}},
		"repeated: New York":       {"30 1 * * *", "America/New_York", "2026-11-01T00:00:00Z", []string{"2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"}},
		"midnight is skipped":      {"0 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00Z", []string{"2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"}},
		"half an hour":             {"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", []string{"2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"}},
		"a day is skipped":         {"0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", []string{"2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, next := cronOf(t, tc.expr, tc.zone), at(t, tc.after)
			for _, want := range tc.want {
				if next = c.Next(next); next.Format(time.RFC3339) != want {
					t.Fatalf("got %s, want %s", next.Format(time.RFC3339), want)
				}
			}
			if tc.want == nil && !c.Next(next).IsZero() {
				t.Fatalf("got %s, want none", c.Next(next))
			}
		})
	}
}

func TestBadExpressions(t *testing.T) {
	for expr, says := range map[string]string{
		"":                        "0 fields",
		"* * * *":                 "4 fields",
		"0 * * * * *":             "none for seconds",
		"60 * * * *":              "the field minute, \"60\": 60 is outside 0 to 59",
		"* 24 * * *":              "the field hour",
		"* * 0 * *":               "the field day of the month",
		"* * * 13 *":              "the field month",
		"* * * * 8":               "the field day of the week, \"8\": 8 is outside 0 to 7",
		"* * * * fry":             "\"fry\" is no value: use 0 to 7, or sun and so on",
		"*/0 * * * *":             "step \"0\" must be 1 to 60",
		"*/61 * * * *":            "step \"61\"",
		"*/x * * * *":             "step \"x\"",
		"5-1 * * * *":             "goes backwards",
		"-5 * * * *":              "is no value",
		"+5 * * * *":              "is no value",
		"1,,2 * * * *":            "\"\" is no value",
		"* * L * *":               "the field day of the month, \"L\"",
		"@reboot":                 "@hourly",
		"@every 5m":               "@every",
		"TZ=UTC * * * * *":        "give that as the zone",
		"TZ=":                     "give that as the zone",
		"CRON_TZ=x * * * * *":     "give that as the zone",
		strings.Repeat("1,", 200): "400 bytes",
	} {
		if _, err := New(expr, ""); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v does not say %q", expr, err, says)
		}
	}
	for _, zone := range []string{"Europe/Atlantis", "Local", "local", "../etc", strings.Repeat("x", 300)} {
		if _, err := New("* * * * *", zone); err == nil || !strings.Contains(err.Error(), "zone") {
			t.Errorf("zone %q: %v", zone, err)
		}
	}
	if _, err := Every(0, time.Time{}); err == nil {
		t.Error("an interval of nothing")
	}
}

func TestParseEvery(t *testing.T) {
	if d, ok, err := ParseEvery("@every 1h30m"); d != 90*time.Minute || !ok || err != nil {
		t.Errorf("%v %v %v", d, ok, err)
	}
	if _, ok, err := ParseEvery("@every noon"); !ok || err == nil {
		t.Errorf("%v %v", ok, err)
	}
	if _, ok, _ := ParseEvery("@hourly"); ok {
		t.Error("@hourly is no interval")
	}
}

// Ticks of an interval do not drift, whatever the moment that is asked about.
func TestIntervalsAreAnchored(t *testing.T) {
	anchor := at(t, "2026-01-01T00:00:07Z")
	e, err := Every(25*time.Second, anchor)
	if err != nil {
		t.Fatal(err)
	}
	if got := e.Next(anchor.Add(-time.Hour)); !got.Equal(anchor) {
		t.Errorf("before the anchor: %s", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		after := anchor.Add(time.Duration(rapid.Int64Range(0, int64(20*365*24*time.Hour)).Draw(t, "after")))
		next := e.Next(after)
		if !next.After(after) || next.Sub(after) > 25*time.Second || next.Sub(anchor)%(25*time.Second) != 0 {
			t.Fatalf("after %s comes %s", after, next)
		}
	})
}

// What Next says is what one finds by looking at each minute: strictly later,
// and nothing that matches lies between.
func TestNextLeavesNothingOut(t *testing.T) {
	exprs := []string{"* * * * *", "*/7 * * * *", "13 */5 * * *", "30 2 * * *", "0 0 * * *", "59 23 * * 1-5", "0 12 1,15 * 0", "5,35 1-3 * 3,4,10,11 *"}
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kathmandu"}
	rapid.Check(t, func(t *rapid.T) {
		c, err := New(rapid.SampledFrom(exprs).Draw(t, "expr"), rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		after := time.Unix(rapid.Int64Range(1_767_225_600, 1_830_297_600).Draw(t, "after"), 0)
		next := c.Next(after)
		if !next.After(after) {
			t.Fatalf("after %s comes %s", after, next)
		}
		// A shown time that matches lies in between only if it was shown before.
		for m := after.Truncate(time.Minute).Add(time.Minute); m.Before(next) && m.Before(after.Add(48*time.Hour)); m = m.Add(time.Minute) {
			l := m.In(c.spec.loc)
			shown := time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC)
			if c.spec.match(shown, shown.Add(time.Minute)).Equal(shown) && (c.spec.everyHour() || c.spec.moment(shown).Equal(m)) {
				t.Fatalf("after %s comes %s, but %s matches", after, next, l)
			}
		}
		if early := c.Next(next.Add(-time.Second)); !early.Equal(next) {
			t.Fatalf("%s, asked a second before: %s", next, early)
		}
	})
}

func TestPassed(t *testing.T) {
	now := at(t, "2026-07-01T12:00:30Z")
	minutely, first := cronOf(t, "* * * * *", ""), at(t, "2026-07-01T11:58:00Z")
	p := minutely.Passed(first, now, 2)
	if p.N != 3 || len(p.Last) != 2 || !p.Last[1].Equal(now.Truncate(time.Minute)) || !p.Next.Equal(now.Truncate(time.Minute).Add(time.Minute)) {
		t.Errorf("%+v", p)
	}
	long := minutely.Passed(at(t, "2024-01-01T00:00:00Z"), now, 1000)
	if long.N != MaxCounted || len(long.Last) != 1000 || !long.Last[999].Equal(now.Truncate(time.Minute)) || !long.Last[0].Equal(now.Truncate(time.Minute).Add(-999*time.Minute)) {
		t.Errorf("two years of minutes: %d, %d kept, from %v", long.N, len(long.Last), long.Last[0])
	}
	dense := cronOf(t, "* * 1-15 6 *", "") // and then nothing for long
	p = dense.Passed(at(t, "2026-06-01T00:00:00Z"), now, 1000)
	if !p.Last[999].Equal(at(t, "2026-06-15T23:59:00Z")) || !p.Next.Equal(at(t, "2027-06-01T00:00:00Z")) {
		t.Errorf("a dense half month: %d, last %v, next %v", p.N, p.Last[len(p.Last)-1], p.Next)
	}
	second, _ := Every(time.Second, at(t, "2020-01-01T00:00:00Z"))
	p = second.Passed(at(t, "2020-01-01T00:00:01Z"), now, 3)
	if want := int(now.Sub(at(t, "2020-01-01T00:00:00Z")) / time.Second); p.N != want || !slices.EqualFunc(p.Last, []time.Time{now.Add(-2 * time.Second), now.Add(-time.Second), now}, time.Time.Equal) {
		t.Errorf("%+v", p)
	}
}

// FuzzNew reads any expression in any zone. What is accepted has ticks in order,
// each of which Passed counts.
func FuzzNew(f *testing.F) {
	for _, s := range []string{"* * * * *", "*/5 1-3 * jan mon", "@hourly", "TZ=0", "1-2-3 * * * *", "\xff * * * *", "30 2 29 2 *", "0 0 31 4 *", "0 2 * * 7"} {
		f.Add(s, "", int64(0))
		f.Add(s, "Europe/Berlin", int64(1_774_746_000))    // an hour is skipped
		f.Add(s, "America/New_York", int64(1_793_512_800)) // an hour is repeated
	}
	f.Fuzz(func(t *testing.T, expr, zone string, unix int64) {
		c, err := New(expr, zone)
		if err != nil {
			if len(err.Error()) > 1024 {
				t.Fatalf("an error text of %d bytes", len(err.Error()))
			}
			return
		}
		after := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(unix%(1<<32)) * time.Second)
		next := c.Next(after)
		if next.IsZero() {
			return
		}
		if !next.After(after) || next.Location() != time.UTC || next.Second() != 0 {
			t.Fatalf("%q in %q: after %s comes %s", expr, zone, after, next)
		}
		if mid := after.Add(next.Sub(after) / 2); !c.Next(mid).Equal(next) && mid.Before(next) {
			t.Fatalf("%q in %q: after %s comes %s, after %s %s", expr, zone, after, next, mid, c.Next(mid))
		}
		if second := c.Next(next); !second.IsZero() && !second.After(next) {
			t.Fatalf("%q in %q: after %s comes %s", expr, zone, next, second)
		}
		if p := c.Passed(next, next, 5); p.N != 1 || len(p.Last) != 1 || !p.Last[0].Equal(next) || !p.Next.Equal(c.Next(next)) {
			t.Fatalf("%q in %q: of the tick %s itself has passed %+v", expr, zone, next, p)
		}
	})
}
