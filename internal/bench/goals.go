package bench

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/internal/measure"
)

// goal is what one figure of a run should be. The figure is the row of that name and
// unit, or with share its ratio to the floor.
type goal struct {
	name   string // in the table of goals
	row    string
	unit   string
	want   float64
	atMost bool // the figure should be want or less, not want or more
	share  bool
	of     config.Durability // empty: each
	note   string            // why want is what it is
}

const (
	perSecond = "items/s"
	river     = "River 0.51 on PostgreSQL 15 with fsync, on the machine of docs/operate/PERFORMANCE.md"
)

// goals are those of a single node, and clusterGoals those of three on one machine, of
// which each item costs all three.
var goals = []goal{
	{name: "end to end, work.api.submit", row: "(b) end to end, work.api.submit", unit: perSecond, want: 20_000, of: config.Always},
	{name: "end to end, work.api.submit", row: "(b) end to end, work.api.submit", unit: perSecond, want: 20_000, of: config.Interval},
	{name: "end to end, plain publish", row: "(b) end to end, plain publishes", unit: perSecond, want: 7_200, of: config.Always},
	{name: "burn-down", row: "(c) burn-down of a backlog", unit: perSecond, want: 25_900, of: config.Always, note: river},
	{name: "burn-down, share of the floor", row: "(c) burn-down of a backlog", unit: perSecond, want: 0.4, share: true, of: config.Interval},
	{name: "bulk", row: "bulk submit (arrays of up to 1,000)", unit: perSecond, want: 89_000, of: config.Always, note: river},
	{name: "pickup at 300/s, p50", row: "(d) publish to handler start at 300/s, p50", unit: "ms", want: 1, atMost: true, of: config.Always},
	{name: "pickup at 300/s, p99", row: "(d) publish to handler start at 300/s, p99", unit: "ms", want: 3, atMost: true, of: config.Always},
	{name: "pickup at 3,000/s, p50", row: "(d) publish to handler start at 3000/s, p50", unit: "ms", want: 1, atMost: true, of: config.Always},
	{name: "pickup at 3,000/s, p99", row: "(d) publish to handler start at 3000/s, p99", unit: "ms", want: 6, atMost: true, of: config.Always},
	{name: "pickup at 300/s, p50", row: "(d) publish to handler start at 300/s, p50", unit: "ms", want: 0.25, atMost: true, of: config.Interval},
	{name: "pickup at 300/s, p99", row: "(d) publish to handler start at 300/s, p99", unit: "ms", want: 0.8, atMost: true, of: config.Interval},
	{name: "pickup at 3,000/s, p50", row: "(d) publish to handler start at 3000/s, p50", unit: "ms", want: 0.3, atMost: true, of: config.Interval},
	{name: "pickup at 3,000/s, p99", row: "(d) publish to handler start at 3000/s, p99", unit: "ms", want: 1.5, atMost: true, of: config.Interval},
	{name: "CPU an item, burn-down", row: "(c) burn-down of a backlog, CPU an item", unit: "µs", want: 35, atMost: true, of: config.Interval},
	{name: "CPU an item, end to end", row: "(b) end to end, work.api.submit, CPU an item", unit: "µs", want: 60, atMost: true, of: config.Interval},
	{name: "objects allocated an item, end to end", row: "(b) end to end, plain publishes, allocated an item", unit: "objects", want: 260, atMost: true, of: config.Interval},
	{name: "disk an item until pruned, log and store", row: "(i) disk an item, log and store", unit: "bytes", want: 900, atMost: true},
	{name: "rebuild", row: "(e) rebuild", unit: "events/s", want: 600_000, of: config.Interval},
	{name: "resident with the backlog", row: "(f) resident behind the backlog, settled", unit: "MiB", want: 477, atMost: true, of: config.Interval, note: "500 MB for 10,000,000 items: --backlog 10000000"},
	{name: "pickup behind the backlog, p50, of that without it", row: "(f) urgent item behind the backlog, of without it, p50", unit: "×", want: 1.1, atMost: true, of: config.Interval, note: "the same but for noise"},
	{name: "messages of 100 idle workers", row: "idle, 100 workers: messages of the workers", unit: "per s", want: 5, atMost: true},
}

var clusterGoals = []goal{
	{name: "end to end, work.api.submit, three nodes", row: "(b) end to end, work.api.submit", unit: perSecond, want: 8_000},
	{name: "pickup at 300/s, p50, three nodes", row: "(d) publish to handler start at 300/s, p50", unit: "ms", want: 2, atMost: true},
}

// met reports whether a figure meets the goal, and else by which share of it it misses.
func (g *goal) met(figure float64) (met bool, missedBy float64) {
	if g.atMost {
		return figure <= g.want, max(figure/g.want-1, 0)
	}
	return figure >= g.want, max(1-figure/g.want, 0)
}

// unitOf returns the unit of the goal's figure.
func (g *goal) unitOf() string {
	if g.share {
		return "of the floor"
	}
	return g.unit
}

// judged is a goal beside the figure of a run.
type judged struct {
	Goal       string            `json:"goal"`
	Durability config.Durability `json:"durability"`
	Figure     float64           `json:"figure"`
	Unit       string            `json:"unit"`
	Want       float64           `json:"want"`
	AtMost     bool              `json:"at_most"` // the figure should be want or less, not want or more
	Met        bool              `json:"met"`
	MissedBy   float64           `json:"missed_by,omitempty"` // share of the goal
	Note       string            `json:"note,omitempty"`
}

// judge compares what was measured with the goals for so many nodes.
func judge(all []goal, rows []row) (list []judged) {
	for i := range all {
		g := &all[i]
		for _, r := range rows {
			figure := r.Figure
			if g.share {
				figure = r.Ratio
			}
			if r.What != g.row || r.Unit != g.unit || g.of != "" && g.of != r.Durability || g.share && figure == 0 {
				continue // 0: the floor was not measured
			}
			j := judged{Goal: g.name, Durability: r.Durability, Figure: figure, Unit: g.unitOf(), Want: g.want, AtMost: g.atMost, Note: g.note}
			j.Met, j.MissedBy = g.met(figure)
			list = append(list, j)
		}
	}
	return list
}

// goals writes the table of the goals whose figures were measured: as Markdown, so that a
// document can have it as it is.
func (t *table) goals(nodes int) {
	all := goals
	if nodes > 1 {
		all = clusterGoals
	}
	list := judge(all, t.rows)
	if t.json {
		for _, j := range list {
			_ = json.NewEncoder(t.w).Encode(j)
		}
		return
	}
	if len(list) == 0 {
		return
	}
	lines := [][]string{{"goal", "durability", "figure", "wanted", "met"}}
	notes := ""
	for _, j := range list {
		lines = append(lines, []string{j.Goal, "`" + string(j.Durability) + "`", measure.Figure(j.Figure), j.wanted(), j.verdict()})
		if j.Note != "" {
			notes += fmt.Sprintf("\n%s, `%s`: %s.", j.Goal, j.Durability, j.Note)
		}
	}
	fmt.Fprintf(t.w, "\n%s%s\n", measure.Aligned(lines), notes)
}

func (j *judged) wanted() string {
	bound := "≥ "
	if j.AtMost {
		bound = "≤ "
	}
	return bound + measure.Figure(j.Want) + " " + j.Unit
}

func (j *judged) verdict() string {
	if j.Met {
		return "yes"
	}
	return fmt.Sprintf("missed by %.0f %%", math.Ceil(100*j.MissedBy))
}
