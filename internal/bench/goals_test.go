package bench

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/config"
)

// TestEveryGoalIsMeasured runs each part small, and expects the row of every goal.
func TestEveryGoalIsMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for half a minute")
	}
	var out bytes.Buffer
	o := Options{
		Out: &out, JSON: true, Items: 1000, Backlog: 1000, LatencyFor: time.Second, IdleFor: time.Second,
		Durabilities: []config.Durability{config.Interval},
		Only:         []string{"floor", "flow", "burndown", "bulk", "latency", "rebuild", "idle", "memory", "disk", "ack"},
	}
	if err := Run(t.Context(), o); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	var rows []row
	told := map[string]bool{}
	for dec := json.NewDecoder(&out); dec.More(); {
		var line judged
		if err := dec.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if line.Want > 0 {
			told[line.What+line.Unit] = true
		} else {
			rows = append(rows, line.row)
		}
	}
	for _, g := range slices.Concat(goals, clusterGoals) {
		of := g.of
		g.of = "" // the other durability has the same rows
		if len(judge([]goal{g}, rows)) != 1 {
			t.Errorf("want one row %q, in %s", g.What, g.Unit)
		}
		if of != config.Always && !told[g.What+g.Unit] {
			t.Errorf("the run does not tell of the goal %q", g.What)
		}
	}
}

// A replay that ends before the engine tells of its progress has a figure too.
func TestShortRebuildIsMeasured(t *testing.T) {
	var out bytes.Buffer
	o := Options{Out: &out, JSON: true, Durabilities: []config.Durability{config.Interval}, Only: []string{"rebuild"}}
	if err := Run(t.Context(), o); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), `"what":"rebuild"`) {
		t.Errorf("no figure of the rebuild:\n%s", out.String())
	}
}

func TestJudge(t *testing.T) {
	rows := []row{
		{config.Always, "rate", 900, perSecond}, {config.Always, "rate", 0.2, ofFloor}, {config.Interval, "rate", 1100, perSecond},
		{config.Always, "time", 3, "ms"}, {config.Always, "time", 9, "s"},
	}
	for _, c := range []struct {
		goal goal
		want string
	}{
		{goal{"rate", perSecond, 1000, "", ""}, "900 missed by 10 %; 1,100 yes"},
		{goal{"rate", perSecond, 1000, config.Interval, ""}, "1,100 yes"},
		{goal{"rate", ofFloor, 0.25, "", ""}, "0.200 missed by 20 %"},
		{goal{"time", "ms", 2, "", ""}, "3.00 missed by 50 %"},
		{goal{"time", "ms", 3, "", ""}, "3.00 yes"},
		{goal{"other", "ms", 3, "", ""}, ""},
	} {
		var got []string
		for _, j := range judge([]goal{c.goal}, rows) {
			got = append(got, j.cells()[2]+" "+j.cells()[4])
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%+v: got %q, want %q", c.goal, s, c.want)
		}
	}
}
