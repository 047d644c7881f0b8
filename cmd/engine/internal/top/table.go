package top

import (
	"slices"
	"strings"
)

// column is a column of a table.
type column struct {
	head  string
	right bool // its cells are aligned right
	// least bounds how far it shrinks where there is no room; 0: it does not shrink.
	// The last column that shrinks does so first.
	least int
	// drop is the order in which columns are left out where there is still no room, 1
	// first; 0: it stays.
	drop int
}

// table is rows in columns.
type table struct {
	columns []column
	rows    [][]span
}

// layout fits a table into a width.
type layout struct {
	widths []int // of the columns; 0: left out
	gap    int
}

func (t *table) layout(width int) layout {
	l := layout{widths: make([]int, len(t.columns)), gap: 2}
	for i, c := range t.columns {
		l.widths[i] = wide(c.head)
		for _, row := range t.rows {
			l.widths[i] = max(l.widths[i], wide(clean(row[i].text)))
		}
	}
	wanted := slices.Clone(l.widths)
	if l.over(width) > 0 {
		l.gap = 1
	}
	for i := len(t.columns) - 1; i >= 0 && l.over(width) > 0; i-- {
		if least := t.columns[i].least; least > 0 && l.widths[i] > least {
			l.widths[i] = max(l.widths[i]-l.over(width), least)
		}
	}
	for n := 1; l.over(width) > 0 && n <= len(t.columns); n++ {
		for i, c := range t.columns {
			if c.drop == n {
				l.widths[i] = 0
			}
		}
	}
	// What was dropped may have left room for the columns that were shrunk.
	for i, want := range wanted {
		if room := -l.over(width); room > 0 && l.widths[i] > 0 {
			l.widths[i] = min(want, l.widths[i]+room)
		}
	}
	return l
}

// over is by how much the columns are too wide.
func (l layout) over(width int) int {
	sum := 0
	for _, w := range l.widths {
		if w > 0 {
			sum += w + l.gap
		}
	}
	return sum - l.gap - width
}

// line returns a row.
func (l layout) line(columns []column, row []span) line {
	var out line
	for i, s := range row {
		if l.widths[i] == 0 {
			continue
		}
		if len(out) > 0 {
			out = append(out, plain(strings.Repeat(" ", l.gap)))
		}
		s.text = pad(cut(clean(s.text), l.widths[i]), l.widths[i], columns[i].right)
		out = append(out, s)
	}
	return out
}

// heads returns the heading.
func (t *table) heads(paint func(string) string) []span {
	row := make([]span, len(t.columns))
	for i, c := range t.columns {
		row[i] = span{c.head, paint}
	}
	return row
}
