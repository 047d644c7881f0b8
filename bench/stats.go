package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// spread is the median of some measurements, with the lowest and the highest. The zero
// spread has none.
type spread struct {
	mid, low, high float64
	n              int
}

func spreadOf(vs []float64) spread {
	if len(vs) == 0 {
		return spread{}
	}
	vs = slices.Sorted(slices.Values(vs))
	mid := vs[len(vs)/2]
	if len(vs)%2 == 0 {
		mid = (mid + vs[len(vs)/2-1]) / 2
	}
	return spread{mid, vs[0], vs[len(vs)-1], len(vs)}
}

// String is the median, and what it lies between.
func (s spread) String() string {
	switch s.n {
	case 0:
		return "–"
	case 1:
		return figure(s.mid)
	}
	return fmt.Sprintf("%s (%s–%s)", figure(s.mid), figure(s.low), figure(s.high))
}

// figure writes a number with three digits that count, and commas between thousands.
func figure(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	scale := math.Pow(10, float64(digits))
	v = math.Round(v*scale) / scale
	if digits > 0 {
		return strconv.FormatFloat(v, 'f', min(digits, 3), 64)
	}
	whole := strconv.FormatFloat(v, 'f', 0, 64)
	var b strings.Builder
	for i, c := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 && whole[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// line is one figure of the comparison, for every system.
type line struct {
	name string
	unit string
	// load and label choose the samples, value a figure of each.
	load, label string
	value       func(Sample) (float64, bool)
	lessIsMore  bool
}

func named(key string) func(Sample) (float64, bool) {
	return func(s Sample) (float64, bool) {
		v, ok := s.Values[key]
		return v, ok
	}
}

// perItem divides a figure of the usage among the items.
func perItem(use func(Usage) float64) func(Sample) (float64, bool) {
	return func(s Sample) (float64, bool) {
		return use(s.Usage) / float64(max(1, s.Case.Items)), true
	}
}

func usage(use func(Usage) float64) func(Sample) (float64, bool) {
	return func(s Sample) (float64, bool) { return use(s.Usage), true }
}

const mib = 1 << 20

// throughputLines, pickupLines and costLines are the lines of the tables.
func throughputLines(o Options) (ls []line) {
	for _, l := range []Load{bulkLoad{}, singleLoad{}, endToEndLoad{}, burnDownLoad{}} {
		for _, c := range l.Cases(o) {
			ls = append(ls, line{c.Label, "items/s", l.Name(), c.Label, named(valueRate), false})
		}
	}
	return ls
}

func pickupLines(o Options, key string) (ls []line) {
	for _, c := range (pickupLoad{}).Cases(o) {
		ls = append(ls, line{"Pickup at " + c.Label + ", " + key, "ms", "pickup", c.Label, named(key), true})
	}
	return ls
}

func costLines() []line {
	var ls []line
	for _, l := range []struct{ load, label, name string }{{"endtoend", "End to end", "end to end"}, {"burndown", "Burn-down of a backlog", "burn-down"}} {
		ls = append(
			ls,
			line{"CPU of the servers, " + l.name, "ms per 1,000 items", l.load, l.label, perItem(func(u Usage) float64 { return 1e6 * u.Server.CPU.Seconds() }), true},
			line{"CPU of the client, " + l.name, "ms per 1,000 items", l.load, l.label, perItem(func(u Usage) float64 { return 1e6 * u.Client.CPU.Seconds() }), true},
		)
	}
	return append(
		ls,
		line{"Written to disk, end to end", "MiB per 1,000 items", "endtoend", "End to end", perItem(func(u Usage) float64 { return 1000 * float64(u.Server.Written) / mib }), true},
		line{"Peak memory of the servers, end to end", "MiB", "endtoend", "End to end", usage(func(u Usage) float64 { return float64(u.ServerPeak) / mib }), true},
		line{"Peak memory of the client, end to end", "MiB", "endtoend", "End to end", usage(func(u Usage) float64 { return float64(u.ClientPeak) / mib }), true},
		line{"CPU of the servers, idle", "% of a core", "idle", "Idle", idleShare(func(u Usage) float64 { return u.Server.CPU.Seconds() }), true},
		line{"CPU of the client, idle", "% of a core", "idle", "Idle", idleShare(func(u Usage) float64 { return u.Client.CPU.Seconds() }), true},
	)
}

func idleShare(use func(Usage) float64) func(Sample) (float64, bool) {
	return func(s Sample) (float64, bool) {
		return 100 * use(s.Usage) / s.Values[valueSeconds], s.Values[valueSeconds] > 0
	}
}

func depthLines(o Options) []line {
	const load, label = "depth", "Depth"
	return []line{
		{"Filling it", "items/s", load, label, named(valueFill), false},
		{"The first " + figure(float64(min(o.Items, o.Depth))) + " items out of it", "items/s", load, label, named(valueRate), false},
		{"Peak memory of the servers", "MiB", load, label, usage(func(u Usage) float64 { return float64(u.ServerPeak) / mib }), true},
		{"Peak memory per 1,000 queued items", "KiB", load, label, usage(func(u Usage) float64 { return float64(u.ServerPeak) / 1024 / float64(o.Depth) * 1000 }), true},
	}
}
