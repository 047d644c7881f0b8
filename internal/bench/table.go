package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"
)

// table writes figures as they come.
type table struct {
	w    io.Writer
	json bool
	of   string // durability
}

func (t *table) machine() {
	if !t.json {
		fmt.Fprintf(t.w, "%s, %s/%s, %d cores\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	}
}

func (t *table) section(durability string) {
	t.of = durability
	if !t.json {
		fmt.Fprintf(t.w, "\ndurability %s\n  %-52s %14s  %s\n", durability, "what", "figure", "of the floor")
	}
}

// row writes one figure; ratio 0 leaves it out.
func (t *table) row(what string, figure float64, unit string, ratio float64) {
	if t.json {
		_ = json.NewEncoder(t.w).Encode(map[string]any{"durability": t.of, "what": what, "figure": figure, "unit": unit, "ratio": ratio})
		return
	}
	r := ""
	if ratio > 0 {
		r = fmt.Sprintf("%.3f", ratio)
	}
	fmt.Fprintf(t.w, "  %-52s %14s  %s\n", what, human(figure)+" "+unit, r)
}

func human(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// quantiles writes the spread of a latency, in milliseconds.
func (t *table) quantiles(what string, d []time.Duration) {
	if len(d) == 0 {
		return
	}
	slices.Sort(d)
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"max", 1}} {
		i := min(int(q.at*float64(len(d))), len(d)-1)
		t.row(what+", "+q.name, float64(d[i])/float64(time.Millisecond), "ms", 0)
	}
}
