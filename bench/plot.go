package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"

	"github.com/streamwright/streamwright/internal/measure"
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
	slices.Sort(vs)
	n := len(vs)
	return spread{(vs[n/2] + vs[(n-1)/2]) / 2, vs[0], vs[n-1], n}
}

// String returns the median, and what it lies between.
func (s spread) String() string {
	switch s.n {
	case 0:
		return "–"
	case 1:
		return measure.Figure(s.mid)
	}
	return fmt.Sprintf("%s (%s–%s)", measure.Figure(s.mid), measure.Figure(s.low), measure.Figure(s.high))
}

// colours of the products, which are told apart without colour by their order.
var colours = map[string]string{"Streamwright": "#2563eb", "River": "#059669", "Asynq": "#dc2626", "JetStream": "#6b7280"}

// bars draws a table as horizontal bars, each line on its own scale from zero. A thin line
// goes from the lowest to the highest measurement.
func bars(title string, lines []line, systems []System, of func(line, System) spread) string {
	const width, left, right, bar, gap, top = 860.0, 250.0, 200.0, 15.0, 16.0, 62.0
	group := bar*float64(len(systems)) + gap
	var b strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	text := func(x, y float64, attributes, text string) {
		add(`<text x="%.0f" y="%.0f" %s>%s</text>`, x, y, attributes, html.EscapeString(text))
	}
	add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="system-ui, sans-serif" font-size="12" fill="#111">`, width, top+group*float64(len(lines)))
	add(`<rect width="100%%" height="100%%" fill="#fff"/>`)
	text(12, 22, `font-size="15" font-weight="600"`, title)
	x := 12.0
	for _, s := range systems {
		add(`<rect x="%.0f" y="34" width="10" height="10" fill="%s"/>`, x, colours[s.Product])
		text(x+15, 43, "", s.Name)
		x += 30 + 6.6*float64(len(s.Name))
	}
	for i, l := range lines {
		y, most := top+group*float64(i), math.SmallestNonzeroFloat64
		for _, s := range systems {
			most = max(most, of(l, s).high)
		}
		text(left-10, y+(group-gap)/2+4, `text-anchor="end"`, l.name)
		at := func(value float64) float64 { return left + (width-left-right)*value/most }
		for _, s := range systems {
			if v := of(l, s); v.n > 0 {
				add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, left, y, at(v.mid)-left, bar-3, colours[s.Product])
				add(`<path d="M%.1f %.1fH%.1f" stroke="#111"/>`, at(v.low), y+(bar-3)/2, at(v.high))
				text(at(v.high)+6, y+bar-5, "", measure.Figure(v.mid)+" "+l.unit)
			}
			y += bar
		}
	}
	add(`</svg>`)
	return b.String()
}
