package measure

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Spread is the median of some measurements, with the lowest and the highest. The zero
// Spread has none.
type Spread struct {
	Mid, Low, High float64
	N              int
}

// SpreadOf returns the spread of measurements.
func SpreadOf(vs []float64) Spread {
	if len(vs) == 0 {
		return Spread{}
	}
	vs = slices.Sorted(slices.Values(vs))
	mid := vs[len(vs)/2]
	if len(vs)%2 == 0 {
		mid = (mid + vs[len(vs)/2-1]) / 2
	}
	return Spread{mid, vs[0], vs[len(vs)-1], len(vs)}
}

// String returns the median, and what it lies between.
func (s Spread) String() string {
	switch s.N {
	case 0:
		return "–"
	case 1:
		return Figure(s.Mid)
	}
	return fmt.Sprintf("%s (%s–%s)", Figure(s.Mid), Figure(s.Low), Figure(s.High))
}

// Figure writes a number with three digits that count, and commas between thousands.
func Figure(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	scale := math.Pow(10, float64(digits))
	v = math.Round(v*scale) / scale
	if digits > 0 {
		return strconv.FormatFloat(v, 'f', min(digits, 3), 64)
	}
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Quantile returns the q-quantile of sorted, by the nearest rank. REQUIRES: it has some.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
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

// Aligned returns a Markdown table whose columns are aligned, to be read as it is. The first
// row is its head.
func Aligned(rows [][]string) string {
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for n, r := range rows {
		padded, rule := make([]string, len(r)), make([]string, len(r))
		for i, cell := range r {
			padded[i], rule[i] = fmt.Sprintf("%-*s", width[i], cell), strings.Repeat("-", width[i])
		}
		if b.WriteString(Row(padded...)); n == 0 {
			b.WriteString(Row(rule...))
		}
	}
	return b.String()
}
