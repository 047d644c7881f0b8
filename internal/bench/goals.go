package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/internal/measure"
)

// goal is what a figure should be.
type goal struct {
	What, Unit string
	Want       float64
	of         config.Durability // empty: each
	note       string            // why Want is what it is
}

const (
	perSecond = "items/s"
	ofFloor   = "of the floor"
	river     = "River 0.51 on PostgreSQL 15 with fsync, on the machine of docs/operate/PERFORMANCE.md"
)

// goals are those of a single node, and clusterGoals those of three on one machine, of
// which each item costs all three.
var (
	goals = []goal{
		{"end to end, work.api.submit", perSecond, 20_000, "", ""},
		{"end to end, plain publish", perSecond, 7200, config.Always, ""},
		{"burn-down", perSecond, 25_900, config.Always, river},
		{"burn-down", ofFloor, 0.4, config.Interval, ""},
		{"bulk", perSecond, 89_000, config.Always, river},
		{"pickup at 300/s, p50", "ms", 1, config.Always, ""},
		{"pickup at 300/s, p99", "ms", 3, config.Always, ""},
		{"pickup at 3,000/s, p50", "ms", 1, config.Always, ""},
		{"pickup at 3,000/s, p99", "ms", 6, config.Always, ""},
		{"pickup at 300/s, p50", "ms", 0.25, config.Interval, ""},
		{"pickup at 300/s, p99", "ms", 0.8, config.Interval, ""},
		{"pickup at 3,000/s, p50", "ms", 0.3, config.Interval, ""},
		{"pickup at 3,000/s, p99", "ms", 1.5, config.Interval, ""},
		{"CPU an item, burn-down", "µs", 35, config.Interval, ""},
		{"CPU an item, end to end, work.api.submit", "µs", 60, config.Interval, ""},
		{"objects allocated an item, end to end, plain publish", "objects", 260, config.Interval, ""},
		{"disk an item until pruned, log and store", "bytes", 900, "", ""},
		{"rebuild", "events/s", 600_000, config.Interval, ""},
		{"resident with the backlog", "MiB", 477, config.Interval, "500 MB for 10,000,000 items: --backlog 10000000"},
		{"pickup behind the backlog, p50, of that without it", "×", 1.1, config.Interval, "the same but for noise"},
		{"messages of 100 idle workers", "a second", 5, "", ""},
	}
	clusterGoals = []goal{{"end to end, work.api.submit", perSecond, 8000, "", ""}, {"pickup at 300/s, p50", "ms", 2, "", ""}}
)

// row is one figure.
type row struct {
	Durability config.Durability `json:"durability"`
	What       string            `json:"what"`
	Figure     float64           `json:"figure"`
	Unit       string            `json:"unit"`
}

// judged is a figure beside its goal.
type judged struct {
	row
	Want   float64 `json:"want"`
	AtMost bool    `json:"at_most"` // the figure should be Want or less, not Want or more
	Met    bool    `json:"met"`
	note   string
}

// judge compares what was measured with goals.
func judge(goals []goal, rows []row) (list []judged) {
	for _, g := range goals {
		for _, r := range rows {
			if r.What == g.What && r.Unit == g.Unit && (g.of == "" || g.of == r.Durability) {
				least := g.Unit == ofFloor || strings.HasSuffix(g.Unit, "/s")
				list = append(list, judged{r, g.Want, !least, r.Figure == g.Want || least == (r.Figure > g.Want), g.note})
			}
		}
	}
	return list
}

// cells are those of the table of goals.
func (j judged) cells() []string {
	bound, met := "≥ ", "yes"
	if j.AtMost {
		bound = "≤ "
	}
	if !j.Met {
		met = fmt.Sprintf("missed by %.0f %%", math.Ceil(100*math.Abs(j.Figure/j.Want-1)))
	}
	return []string{j.What, "`" + string(j.Durability) + "`", measure.Figure(j.Figure), bound + measure.Figure(j.Want) + " " + j.Unit, met}
}

// table writes figures as they come, and keeps them for the goals.
type table struct {
	w    io.Writer
	json bool
	of   config.Durability
	rows []row
}

// text writes what is for people.
func (t *table) text(format string, args ...any) {
	if !t.json {
		fmt.Fprintf(t.w, format, args...)
	}
}

// line writes a value as JSON, if it is for a program.
func (t *table) line(v any) {
	if t.json {
		_ = json.NewEncoder(t.w).Encode(v)
	}
}

// row writes one figure.
func (t *table) row(what string, figure float64, unit string) {
	t.rows = append(t.rows, row{t.of, what, figure, unit})
	t.line(t.rows[len(t.rows)-1])
	t.text("  %-62s %10s %s\n", what, measure.Figure(figure), unit)
}

// goals writes the table of the goals whose figures were measured: as Markdown, so that a
// document can have it as it is.
func (t *table) goals(nodes int) {
	all := goals
	if nodes > 1 {
		all = clusterGoals
	}
	lines, notes := measure.Head("goal", "durability", "figure", "wanted", "met"), ""
	list := judge(all, t.rows)
	for _, j := range list {
		t.line(j)
		lines += measure.Row(j.cells()...)
		if j.note != "" {
			notes += fmt.Sprintf("\n%s, `%s`: %s.", j.What, j.Durability, j.note)
		}
	}
	if len(list) > 0 {
		t.text("\n%s%s\n", measure.Aligned(lines), notes)
	}
}
