package api

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// statsWhen asks until the figures are as they should be.
func statsWhen(r *rig, ok func(wire.StatsReply) bool) wire.StatsReply {
	r.t.Helper()
	ctx := r.ctx()
	for {
		got := ask[wire.StatsReply](r, wire.APIStats, nil)
		if ok(got) {
			return got
		}
		if ctx.Err() != nil {
			r.t.Fatalf("the figures never came: %+v", got)
		}
	}
}

func TestStatsSayHowLongItemsWait(t *testing.T) {
	r := newRig(t, nil)
	low := wire.Priority(2)
	for range 4 {
		r.submit(wire.Submit{Type: "email"})
	}
	r.submit(wire.Submit{Type: "email", Priority: &low})
	r.submit(wire.Submit{Type: "email", Delay: events.Millis(3_600_000)})
	last := r.submit(wire.Submit{Type: "report", Delay: events.Millis(7_200_000)})
	ask[wire.StatsReply](r, wire.APIStats, wire.StatsRequest{MinPosition: last.Position})
	got := statsWhen(r, func(s wire.StatsReply) bool {
		return s.Scheduled == 2 && len(s.Types) == 2 && s.Types[0].AgesByPriority[int(low)].Oldest.Duration > 0
	})
	if got.States["queued"] != 7 || got.PerSecond.Submitted <= 0 || got.PerSecond.Completed != 0 {
		t.Errorf("in all: %+v", got)
	}
	email, report := got.Types[0], got.Types[1]
	if email.Scheduled != 1 || report.Scheduled != 1 || report.Ages != (wire.Ages{}) || report.DesiredWorkers != 0 {
		t.Errorf("scheduled items wait for nobody: %+v and %+v", email, report)
	}
	if a := email.Ages; a.Oldest.Duration <= 0 || a.Oldest.Duration > patience || a.P50.Duration > a.P95.Duration || a.P95.Duration > a.Oldest.Duration || email.Oldest != a.Oldest {
		t.Errorf("ages %+v", a)
	}
	if len(email.AgesByPriority) != 2 || email.AgesByPriority[int(low)].Oldest.Duration <= 0 || email.AgesByPriority[int(low)].Oldest.Duration > email.Ages.Oldest.Duration {
		t.Errorf("ages by priority %+v", email.AgesByPriority)
	}
	if email.DesiredWorkers != 1 { // nobody knows yet how long a run takes
		t.Errorf("desired workers %d", email.DesiredWorkers)
	}
}

func TestStatsSayWhatWasRunAndRepaired(t *testing.T) {
	r := newRig(t, nil)
	r.submit(wire.Submit{Type: "email"})
	r.run("email", wire.ReportComplete)
	got := statsWhen(r, func(s wire.StatsReply) bool { return s.PerSecond.Completed > 0 })
	if got.Slots == 0 || got.WorkersByStatus[wire.WorkerActive] != 1 || len(got.WorkersByStatus) != 4 || got.Types[0].Slots != got.Slots || got.Capacity != got.Types[0].Capacity {
		t.Errorf("%+v", got)
	}
	if len(got.Recoveries) != 0 {
		t.Errorf("recoveries %v", got.Recoveries)
	}
	r.submit(wire.Submit{Type: "email", Timeout: events.Millis(1)})
	r.worker("email")
	ask[wire.Reported](r, wire.APIReport, reportOf(r.next(), wire.ReportStart))
	// and no word any more
	got = statsWhen(r, func(s wire.StatsReply) bool { return s.Recoveries[wire.RecoveryTimeout] == 1 })
	if got.PerSecond.Failed <= 0 {
		t.Errorf("%+v", got.PerSecond)
	}
}

// What a worker that goes was sent, and has not started, counts as repaired.
func TestStatsCountWhatIsTakenBack(t *testing.T) {
	r := newRig(t, nil)
	ask[wire.Registered](r, wire.APIRegister, wire.Register{Worker: "w1", Session: "s1", Types: []string{"email"}, Slots: 5})
	r.submit(wire.Submit{Type: "email"})
	statsWhen(r, func(s wire.StatsReply) bool { return s.InFlight == 1 })
	ask[wire.OK](r, wire.APIUnregister, wire.Unregister{Worker: "w1", Session: "s1"})
	got := statsWhen(r, func(s wire.StatsReply) bool { return s.InFlight == 0 && s.States["queued"] == 1 })
	if got.Recoveries[wire.RecoveryWorkerGone] != 1 || got.States["queued"] != 1 {
		t.Errorf("%+v", got)
	}
}

// What runs is counted by priority, what was repaired by time, and what has died of a
// failure that may pass apart from what has not.
func TestStatsByPriorityWindowAndReplayability(t *testing.T) {
	r := newRig(t, nil)
	r.submit(wire.Submit{Type: "email", MaxAttempts: 1})
	r.run("email", wire.ReportFail)
	statsWhen(r, func(s wire.StatsReply) bool { return s.States["dead"] == 1 })
	urgent := wire.Priority(8)
	r.submit(wire.Submit{Type: "email", Priority: &urgent, Timeout: events.Millis(1)})
	r.worker("email")
	ask[wire.Reported](r, wire.APIReport, reportOf(r.next(), wire.ReportStart))
	got := statsWhen(r, func(s wire.StatsReply) bool { return s.RecoveriesHour[wire.RecoveryTimeout] == 1 })
	if got.RecoveriesDay[wire.RecoveryTimeout] != 1 {
		t.Errorf("repaired in the last day: %v", got.RecoveriesDay)
	}
	r.submit(wire.Submit{Type: "email", Priority: &urgent})
	ask[wire.Reported](r, wire.APIReport, reportOf(r.next(), wire.ReportStart))
	statsWhen(r, func(s wire.StatsReply) bool { return s.Types[0].Running[8] > 0 })
	page := gathered(r)
	for name, want := range map[string]float64{
		`streamwright_dead_replayable type=email`:                   1,
		`streamwright_recoveries_recent cause=timeout window=hour`:  1,
		`streamwright_recoveries_recent cause=timeout window=day`:   1,
		`streamwright_recoveries_recent cause=unclaimed window=day`: 0,
		`streamwright_running priority=5 type=email`:                0,
	} {
		if n, ok := page[name]; !ok || n != want {
			t.Errorf("%s is %v (%v), want %v", name, n, ok, want)
		}
	}
	if page["streamwright_running priority=8 type=email"] < 1 {
		t.Error("the urgent run is not counted")
	}
}

// gathered reads the gauges of a scrape, by name and labels.
func gathered(r *rig) map[string]float64 {
	r.t.Helper()
	families, err := r.metrics.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			out[name] = m.GetGauge().GetValue()
		}
	}
	return out
}

func TestDesiredWorkers(t *testing.T) {
	for name, c := range map[string]struct {
		d    demand
		want int
	}{
		"nothing at all":                     {demand{capacity: 100}, 0},
		"something waits, nothing is known":  {demand{waiting: 1000, capacity: 100}, 1},
		"something runs":                     {demand{running: 1, capacity: 100}, 1},
		"ten a second of one second":         {demand{arrivals: 10, run: time.Second, capacity: 100}, 10},
		"and a backlog of ten minutes' work": {demand{arrivals: 10, run: time.Second, waiting: 600, capacity: 100}, 20},
		"with ten slots each":                {demand{arrivals: 10, run: time.Second, waiting: 600, capacity: 100, workers: 2, slots: 20}, 2},
		"rounded up":                         {demand{arrivals: 10.1, run: time.Second, capacity: 100, workers: 2, slots: 20}, 2},
		"no more than the capacity":          {demand{arrivals: 1000, run: time.Minute, capacity: 100, workers: 1, slots: 10}, 10},
	} {
		if got := desiredWorkers(c.d); got != c.want {
			t.Errorf("%s: %d workers, want %d", name, got, c.want)
		}
	}
}
