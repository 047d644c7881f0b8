package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/internal/measure"
)

// table writes figures as they come, and keeps them for the goals.
type table struct {
	w    io.Writer
	json bool
	of   config.Durability
	rows []row
}

// row is one figure.
type row struct {
	Durability config.Durability `json:"durability"`
	What       string            `json:"what"`
	Figure     float64           `json:"figure"`
	Unit       string            `json:"unit"`
	Ratio      float64           `json:"ratio"` // to the floor; 0: none
}

func (t *table) machine() {
	if !t.json {
		fmt.Fprintf(t.w, "%s, %s/%s, %d cores\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	}
}

func (t *table) section(durability config.Durability) {
	t.of = durability
	if !t.json {
		fmt.Fprintf(t.w, "\ndurability %s\n  %-56s %14s  %s\n", durability, "what", "figure", "of the floor")
	}
}

// row writes one figure; ratio 0 leaves it out.
func (t *table) row(what string, figure float64, unit string, ratio float64) {
	w := row{Durability: t.of, What: what, Figure: figure, Unit: unit, Ratio: ratio}
	t.rows = append(t.rows, w)
	if t.json {
		_ = json.NewEncoder(t.w).Encode(w)
		return
	}
	r := ""
	if ratio > 0 {
		r = fmt.Sprintf("%.3f", ratio)
	}
	fmt.Fprintf(t.w, "  %-56s %14s  %s\n", what, measure.Figure(figure)+" "+unit, r)
}

// quantiles writes the spread of latencies, sorted, in milliseconds, and returns the median.
func (t *table) quantiles(what string, sorted []time.Duration) (p50 time.Duration) {
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"max", 1}} {
		t.row(what+", "+q.name, measure.Millis(measure.Quantile(sorted, q.at)), "ms", 0)
	}
	return measure.Quantile(sorted, 0.5)
}
