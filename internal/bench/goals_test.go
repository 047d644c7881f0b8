package bench

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/internal/measure"
)

// TestEveryGoalIsMeasured runs each part small, and expects the row of every goal.
func TestEveryGoalIsMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for half a minute")
	}
	var out bytes.Buffer
	o := Options{
		Out: &out, Dir: t.TempDir(), JSON: true, Items: 1000, Backlog: 1000, Slots: 50, LatencyFor: time.Second, IdleFor: time.Second,
		Durabilities: []config.Durability{config.Interval},
		Only:         []string{"floor", "flow", "burndown", "bulk", "latency", "rebuild", "idle", "memory", "disk"},
	}
	if err := Run(t.Context(), o); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	var rows []row
	told := map[string]bool{}
	for dec := json.NewDecoder(&out); dec.More(); {
		var line struct {
			row
			Goal string
		}
		if err := dec.Decode(&line); err != nil {
			t.Fatal(err)
		}
		rows, told[line.Goal] = append(rows, line.row), true
	}
	for _, g := range slices.Concat(goals, clusterGoals) {
		g.of = "" // the other durability has the same rows
		if len(judge([]goal{g}, rows)) != 1 {
			t.Errorf("%q: want one row %q, in %s", g.name, g.row, g.unit)
		}
	}
	for _, g := range goals {
		if g.of != config.Always && !told[g.name] {
			t.Errorf("the run does not tell of the goal %q", g.name)
		}
	}
}

// A replay that ends before the engine tells of its progress has a figure too.
func TestShortRebuildIsMeasured(t *testing.T) {
	var out bytes.Buffer
	o := Options{Out: &out, Dir: t.TempDir(), JSON: true, Durabilities: []config.Durability{config.Interval}, Only: []string{"rebuild"}}
	if err := Run(t.Context(), o); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), `"what":"(e) rebuild"`) {
		t.Errorf("no figure of the rebuild:\n%s", out.String())
	}
}

func TestJudge(t *testing.T) {
	rows := []row{
		{Durability: config.Always, What: "rate", Unit: "items/s", Figure: 900, Ratio: 0.2},
		{Durability: config.Interval, What: "rate", Unit: "items/s", Figure: 1100},
		{Durability: config.Always, What: "time", Unit: "ms", Figure: 3},
		{Durability: config.Always, What: "time", Unit: "s", Figure: 9},
	}
	for _, c := range []struct {
		goal goal
		want string
	}{
		{goal{row: "rate", unit: "items/s", want: 1000}, "900 missed by 10 %; 1,100 yes"},
		{goal{row: "rate", unit: "items/s", want: 1000, of: config.Interval}, "1,100 yes"},
		{goal{row: "rate", unit: "items/s", want: 0.25, share: true}, "0.200 missed by 20 %"},
		{goal{row: "time", unit: "ms", want: 2, atMost: true}, "3.00 missed by 50 %"},
		{goal{row: "time", unit: "ms", want: 3, atMost: true}, "3.00 yes"},
		{goal{row: "other", unit: "ms", want: 3, atMost: true}, ""},
	} {
		var got []string
		for _, j := range judge([]goal{c.goal}, rows) {
			got = append(got, measure.Figure(j.Figure)+" "+j.verdict())
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%+v: got %q, want %q", c.goal, s, c.want)
		}
	}
}
