package measure

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Series is one system in a plot.
type Series struct {
	Name, Colour string
	Values       []Spread // by category, or by x
}

const plotFont = `font-family="system-ui, sans-serif"`

type svg struct{ strings.Builder }

func (s *svg) add(format string, args ...any) { fmt.Fprintf(s, format+"\n", args...) }

func (s *svg) text(x, y float64, anchor, text string) {
	s.add(`<text x="%.0f" y="%.0f" text-anchor="%s">%s</text>`, x, y, anchor, html.EscapeString(text))
}

// begin opens a picture with its title and the names of the series.
func (s *svg) begin(title string, width, height float64, all []Series) {
	s.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" %s font-size="12" fill="#111">`, width, height, plotFont)
	s.add(`<title>%s</title>`, html.EscapeString(title))
	s.add(`<rect width="100%%" height="100%%" fill="#fff"/>`)
	s.add(`<text x="12" y="22" font-size="15" font-weight="600">%s</text>`, html.EscapeString(title))
	x := 12.0
	for _, one := range all {
		s.add(`<rect x="%.0f" y="34" width="10" height="10" fill="%s"/>`, x, one.Colour)
		s.text(x+15, 43, "start", one.Name)
		x += 30 + 6.6*float64(len(one.Name))
	}
}

// Bars draws horizontal bars, each category on its own scale from zero. A thin line goes
// from the lowest to the highest measurement.
func Bars(title string, categories, units []string, all []Series) string {
	const width, left, right, bar, gap, top = 860.0, 250.0, 200.0, 15.0, 16.0, 62.0
	group := bar*float64(len(all)) + gap
	var s svg
	s.begin(title, width, top+group*float64(len(categories)), all)
	for i, category := range categories {
		y := top + group*float64(i)
		most := 0.0
		for _, one := range all {
			most = max(most, one.Values[i].High)
		}
		s.text(left-10, y+bar*float64(len(all))/2+4, "end", category)
		for _, one := range all {
			v := one.Values[i]
			at := func(value float64) float64 {
				return left + (width-left-right)*value/max(most, math.SmallestNonzeroFloat64)
			}
			if v.N > 0 {
				s.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, left, y, at(v.Mid)-left, bar-3, one.Colour)
				s.add(`<path d="M%.1f %.1fH%.1f" stroke="#111"/>`, at(v.Low), y+(bar-3)/2, at(v.High))
				s.text(at(v.High)+6, y+bar-5, "start", Figure(v.Mid)+" "+units[i])
			}
			y += bar
		}
	}
	s.add(`</svg>`)
	return s.String()
}

// Curves draws latencies by rate, both axes logarithmic: the p99 as a line, the p50
// dashed, with a thin line from the lowest to the highest p99.
func Curves(title string, rates []int, p50, p99 []Series) string {
	const width, height, left, right, top, bottom = 760.0, 400.0, 70.0, 30.0, 70.0, 45.0
	low, high := math.Inf(1), math.Inf(-1)
	for _, one := range append(append([]Series{}, p50...), p99...) {
		for _, v := range one.Values {
			if v.N > 0 && v.Low > 0 {
				low, high = min(low, v.Low), max(high, v.High)
			}
		}
	}
	var s svg
	s.begin(title, width, height, p99)
	if low > high {
		s.add(`</svg>`)
		return s.String()
	}
	from, to := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	y := func(v float64) float64 {
		return height - bottom - (height-top-bottom)*(math.Log10(max(v, math.Pow(10, from)))-from)/max(1, to-from)
	}
	x := func(i int) float64 {
		return left + (width-left-right)*(float64(i)+0.5)/float64(len(rates))
	}
	for e := from; e <= to; e++ {
		v := math.Pow(10, e)
		s.add(`<path d="M%.0f %.1fH%.0f" stroke="#ddd"/>`, left, y(v), width-right)
		s.text(left-8, y(v)+4, "end", Figure(v)+" ms")
	}
	for i, rate := range rates {
		s.text(x(i), height-20, "middle", Figure(float64(rate))+"/s")
	}
	for k, set := range [][]Series{p50, p99} {
		dash := ` stroke-dasharray="4 4"`
		if k == 1 {
			dash = ""
		}
		for _, one := range set {
			var path strings.Builder
			for i, v := range one.Values {
				if v.N == 0 {
					continue
				}
				fmt.Fprintf(&path, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[path.Len() == 0], x(i), y(v.Mid))
				s.add(`<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, x(i), y(v.Mid), one.Colour)
				if k == 1 {
					s.add(`<path d="M%.1f %.1fV%.1f" stroke="%s"/>`, x(i), y(v.Low), y(v.High), one.Colour)
				}
			}
			s.add(`<path d="%s" fill="none" stroke="%s" stroke-width="2"%s/>`, path.String(), one.Colour, dash)
		}
	}
	s.text(width-right, 58, "end", "line: p99, dashed: p50")
	s.add(`</svg>`)
	return s.String()
}
