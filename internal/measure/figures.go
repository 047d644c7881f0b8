package measure

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Figure writes a number with three digits that count, and commas between thousands.
func Figure(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	text := strconv.FormatFloat(v, 'f', min(max(2-int(math.Floor(math.Log10(math.Abs(v)))), 0), 3), 64)
	if strings.Contains(text, ".") {
		return text
	}
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Quantile returns the q-quantile of latencies, by the nearest rank, in milliseconds, and
// sorts them. REQUIRES: there are some.
func Quantile(late []time.Duration, q float64) float64 {
	slices.Sort(late)
	return Millis(late[max(0, int(math.Ceil(q*float64(len(late))))-1)])
}

// Millis returns d in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// PerSecond returns the rate of n items since then.
func PerSecond(n int, since time.Time) float64 { return float64(n) / time.Since(since).Seconds() }

// Row returns a row of a Markdown table, with its end of line.
func Row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

// Head returns the first two rows of a Markdown table.
func Head(cells ...string) string {
	return Row(cells...) + strings.Repeat("|---", len(cells)) + "|\n"
}

// Aligned returns a Markdown table with its columns aligned, to be read as it is.
func Aligned(table string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 0, ' ', 0)
	_, _ = strings.NewReplacer(" |", " \t|", "-|", "-\t|").WriteString(w, table)
	_ = w.Flush() // neither fails unless b does
	return b.String()
}

// The figures that [Self] knows.
const (
	SelfCPU      = "process_cpu_seconds_total"
	SelfResident = "process_resident_memory_bytes"
)

// Self returns a figure of this process, or 0 where the system does not tell.
func Self(name string) float64 {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	all, _ := r.Gather() // what it can't read is not there
	for _, f := range all {
		if f.GetName() == name {
			return f.Metric[0].GetCounter().GetValue() + f.Metric[0].GetGauge().GetValue()
		}
	}
	return 0
}
