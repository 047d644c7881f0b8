package embedded

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

const wrongBy = 45 * 24 * time.Hour

// withClock are options of an engine whose NATS server's clock is wrong.
func withClock(t *testing.T, dir string, skew time.Duration, config string) Options {
	o := quiet(dir)
	o.HTTP, o.Config = "127.0.0.1:0", configOf(t, config)
	o.clockSkew = func() time.Duration { return skew }
	return o
}

// awaitState asks until an item is in a state.
func awaitState(t *testing.T, e *Engine, id string, want events.ItemState) wire.Item {
	t.Helper()
	it := request[wire.Waited](t, e, wire.APIWait, wire.Wait{IDs: []string{id}, Timeout: events.Millis(10_000)}).Ended[0]
	if it.State != want {
		t.Fatalf("item %s is %s, not %s", id, it.State, want)
	}
	return it
}

// old makes items that a clock 45 days ahead would destroy: 20 that have ended
// and are kept for 24 hours or 30 days, and 5 that expire in ten days.
func old(t *testing.T, e *Engine) (ended, expiring []string) {
	t.Helper()
	for i := range 20 {
		s := submit(t, e, wire.Submit{Type: "email", Params: fmt.Appendf(nil, "%d", i)})
		request[wire.Cancelled](t, e, wire.APICancel, wire.Cancel{ID: s.ID})
		ended = append(ended, s.ID)
	}
	at := time.Now().Add(10 * 24 * time.Hour)
	for range 5 {
		expiring = append(expiring, submit(t, e, wire.Submit{Type: "email", SubmitOptions: wire.SubmitOptions{ExpiresAt: at}}).ID)
	}
	return ended, expiring
}

// left counts the items that are there and not cancelled by expiry.
func left(t *testing.T, e *Engine) (ended, waiting int64) {
	t.Helper()
	for _, ty := range request[wire.StatsReply](t, e, wire.APIStats, wire.StatsRequest{}).Types {
		if ty.Type == "email" {
			return ty.States["cancelled"], ty.States["queued"]
		}
	}
	return 0, 0
}

// A start with a clock that is 45 days ahead destroys nothing and is told; back
// on the right clock nothing lies in the future.
func TestStartWithWrongClock(t *testing.T) {
	slow(t)
	t.Parallel()
	dir := t.TempDir()
	e := mustStart(t, withClock(t, dir, 0, ""))
	old(t, e)
	stopEngine(t, e)

	e = mustStart(t, withClock(t, dir, wrongBy, ""))
	// Time goes on, by the engine's clock: when this has expired, what was to be
	// pruned by the wrong clock would have been.
	soon := e.decider.dispatcher.Now().Add(2500 * time.Millisecond)
	awaitState(t, e, submit(t, e, wire.Submit{Type: "other", SubmitOptions: wire.SubmitOptions{ExpiresAt: soon}}).ID, events.StateCancelled)
	if ended, waiting := left(t, e); ended != 20 || waiting != 5 {
		t.Fatalf("%d of 20 ended items are left, %d of 5 wait", ended, waiting)
	}
	status, r, failing := readiness(t, e)
	if status != http.StatusServiceUnavailable || len(failing) != 1 || failing[0] != "clock" || !strings.Contains(fmt.Sprint(r), "clock_implausible") {
		t.Errorf("readyz: %d %+v", status, r)
	}
	if code, body := fetch(t, "http://"+e.HTTP()+"/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "clock_implausible") {
		t.Errorf("healthz: %d %s", code, body)
	}
	if _, page := fetch(t, "http://"+e.HTTP()+"/metrics"); !strings.Contains(page, "streamwright_clock_implausible 1") {
		t.Error("no metric says so")
	}
	if st := request[wire.StatsReply](t, e, wire.APIStats, wire.StatsRequest{}); len(st.Alarms) != 1 || st.Alarms[0].Code != wire.AlarmClock || !strings.Contains(st.Alarms[0].Action, "engine clock accept") {
		t.Errorf("the alarms are %+v", st.Alarms)
	}
	c := request[wire.Clock](t, e, wire.APIClock, struct{}{})
	if c.Verdict != wire.ClockAhead || len(c.Held) == 0 || !strings.Contains(c.Why, "engine clock accept") || time.Since(c.EngineTime).Abs() > time.Minute {
		t.Errorf("%+v", c)
	}
	if info := request[wire.InfoReply](t, e, wire.APIInfo, struct{}{}); info.Clock == nil {
		t.Error("info does not say so")
	}
	stopEngine(t, e)

	e = mustStart(t, withClock(t, dir, 0, ""))
	if c := request[wire.Clock](t, e, wire.APIClock, struct{}{}); c.Verdict != wire.ClockPlausible || time.Since(c.EngineTime).Abs() > time.Minute || c.LastEvent.After(time.Now().Add(time.Minute)) || c.KnownGood.IsZero() {
		t.Errorf("on the right clock: %+v", c)
	}
	if status, r, _ := readiness(t, e); status != http.StatusOK {
		t.Errorf("%+v", r)
	}
	mustVerify(t, e)
}

// What happens with no bound, as before there was one: the ended and the
// expiring items go. A log that was made so is brought back by accepting the
// right clock: what is delayed by an hour runs in an hour.
func TestLogOfTheFutureIsBroughtBack(t *testing.T) {
	slow(t)
	t.Parallel()
	dir := t.TempDir()
	e := mustStart(t, withClock(t, dir, 0, ""))
	old(t, e)
	stopEngine(t, e)

	e = mustStart(t, withClock(t, dir, wrongBy, "[server]\nmax_clock_jump = \"off\"\n"))
	retention(t, e, "the wrong clock prunes", func(r wire.Retention) bool { return r.Pruned >= 20 })
	if ended, waiting := left(t, e); waiting != 0 {
		t.Errorf("%d ended, %d wait", ended, waiting)
	}
	stopEngine(t, e)

	e = mustStart(t, withClock(t, dir, 0, ""))
	tomorrow := time.Now().Add(24 * time.Hour)
	id := submit(t, e, wire.Submit{Type: "email", AvailableAt: tomorrow}).ID
	if c := request[wire.Clock](t, e, wire.APIClock, struct{}{}); c.Verdict != wire.ClockBehind {
		t.Fatalf("%+v", c)
	}
	if it := request[wire.Item](t, e, wire.APIGet, wire.Get{ID: id}); it.State != events.StateQueued || !it.AvailableAt.Equal(tomorrow) {
		t.Errorf("an item for tomorrow: %+v", it)
	}
	c := request[wire.Clock](t, e, wire.APIClockAccept, wire.AcceptClock{By: "ops"})
	if c.Verdict != wire.ClockPlausible || time.Since(c.EngineTime).Abs() > time.Minute {
		t.Fatalf("accepted: %+v", c)
	}
	hour := submit(t, e, wire.Submit{Type: "email", Delay: events.Millis(3_600_000)}).ID
	for _, id := range []string{id, hour} {
		it := request[wire.Item](t, e, wire.APIGet, wire.Get{ID: id})
		if in := time.Until(it.AvailableAt); it.State != events.StateQueued || in < 59*time.Minute || in > 25*time.Hour {
			t.Errorf("%s: %s, due in %v", id, it.State, in)
		}
	}
	var r api.Readiness
	if _, r, _ = readiness(t, e); !r.Ready {
		t.Errorf("%+v", r)
	}
	mustVerify(t, e)
	stopEngine(t, e)

	e = mustStart(t, withClock(t, dir, 0, "")) // and it stays so
	if c := request[wire.Clock](t, e, wire.APIClock, struct{}{}); c.Verdict != wire.ClockPlausible || time.Since(c.EngineTime).Abs() > time.Minute {
		t.Errorf("started again: %+v", c)
	}
}

// A start with a clock that is two hours ahead makes nothing due that is not, and is told:
// the machine has run since the last start, and knows that no two hours have passed.
func TestStartTwoHoursAhead(t *testing.T) {
	if _, _, ok := sinceBoot(); !ok {
		t.Skip("this machine can't tell for how long it has run")
	}
	t.Parallel()
	dir := t.TempDir()
	e := mustStart(t, withClock(t, dir, 0, ""))
	id := submit(t, e, wire.Submit{Type: "email", Delay: events.DurationOf(time.Hour)}).ID
	stopEngine(t, e)

	e = mustStart(t, withClock(t, dir, 2*time.Hour, ""))
	c := request[wire.Clock](t, e, wire.APIClock, struct{}{})
	if c.Verdict != wire.ClockAhead || time.Until(c.EngineTime).Abs() > time.Minute {
		t.Errorf("%+v", c)
	}
	if st := request[wire.StatsReply](t, e, wire.APIStats, wire.StatsRequest{}); len(st.Alarms) != 1 || st.Alarms[0].Code != wire.AlarmClock {
		t.Errorf("the alarms are %+v", st.Alarms)
	}
	if why := request[wire.WhyReply](t, e, wire.APIWhy, wire.Get{ID: id}); len(why.Reasons) == 0 || why.Reasons[0].Code != events.WhyNotDue {
		t.Errorf("the item is not held: %+v", why)
	}
	stopEngine(t, e)

	e = mustStart(t, withClock(t, dir, 0, ""))
	soon := submit(t, e, wire.Submit{Type: "email", Delay: events.Millis(1)}).ID
	if it := request[wire.Item](t, e, wire.APIGet, wire.Get{ID: soon}); time.Until(it.AvailableAt) > time.Minute {
		t.Errorf("on the right clock an item with no delay is due at %s", it.AvailableAt)
	}
	if c := request[wire.Clock](t, e, wire.APIClock, struct{}{}); c.Verdict != wire.ClockPlausible {
		t.Errorf("on the right clock: %+v", c)
	}
}

// What time it must be follows from the noted time, as long as the machine runs.
func TestClockMemory(t *testing.T) {
	d := &dataDir{path: t.TempDir()}
	boot, up, ok := "b1", time.Hour, true
	m := &clockMemory{file: d.path + "/" + clockFile, since: func() (string, time.Duration, bool) { return boot, up, ok }, warn: func(text string, args ...any) { t.Error(text, args) }}
	check := func(want time.Time, measured bool) {
		t.Helper()
		if at, by := m.known(); !at.Equal(want) || by != measured {
			t.Errorf("%v, measured: %t; want %v, %t", at, by, want, measured)
		}
	}
	check(time.Time{}, false)
	noted := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	m.note(noted)
	check(noted, true)
	up += 26*time.Hour + time.Nanosecond
	check(noted.Add(26*time.Hour+time.Nanosecond), true)
	boot = "b2"
	check(noted, false)
	boot, up = "b1", time.Minute
	check(noted, false)
	ok = false
	check(noted, false)
	m.note(noted.Add(time.Hour))
	ok = true
	check(noted.Add(time.Hour), false)
}

// This machine's clock is what Go says it is, if it is said to be synchronised.
func TestMachineClock(t *testing.T) {
	if now, ok := machineClock(); ok && time.Since(now).Abs() > time.Minute {
		t.Errorf("the kernel says %v", now)
	}
	if suspended() < 0 {
		t.Error("the machine has slept for less than no time")
	}
}

// Only an engine whose data is gone at its end lets its clock be moved.
func TestAdvanceNeedsMemory(t *testing.T) {
	if err := newEngine(Options{}).Advance(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), "Options.Memory") {
		t.Error(err)
	}
}
