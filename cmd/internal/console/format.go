package console

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/streamwright/streamwright/events"
)

// Clean makes foreign text fit for a terminal: one line, no control
// characters.
func Clean(s string) string {
	ok := true
	for _, r := range s {
		if !unicode.IsPrint(r) {
			ok = false
			break
		}
	}
	if ok {
		return s
	}
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// Clip cleans text and shortens it to n characters.
func Clip(s string, n int) string {
	s = Clean(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// Span shows a duration in at most two units.
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Span(-d)
	case d < time.Millisecond:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + "s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return twoUnits(d, time.Minute, "m", time.Second, "s")
	case d < 24*time.Hour:
		return twoUnits(d, time.Hour, "h", time.Minute, "m")
	}
	return twoUnits(d, 24*time.Hour, "d", time.Hour, "h")
}

func twoUnits(d, big time.Duration, b string, small time.Duration, s string) string {
	out := strconv.Itoa(int(d/big)) + b
	if rest := int(d % big / small); rest > 0 {
		out += strconv.Itoa(rest) + s
	}
	return out
}

// Ago shows how long ago, or ahead, a time is; the zero time is "-".
func Ago(t, now time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return "-"
	case d < -time.Second:
		return "in " + Span(-d)
	case d < time.Second:
		return "now"
	default:
		return Span(d.Truncate(time.Second)) + " ago"
	}
}

// Count shows a number with commas between thousands.
func Count[T ~int | ~int64 | ~uint64](n T) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural returns a number with its noun: "1 item", "2,000 items".
func Plural[T ~int | ~int64 | ~uint64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(n) + " " + noun + "s"
}

// Children returns a number of child items: "1 child", "2 children".
func Children(n int) string {
	if n == 1 {
		return "1 child"
	}
	return Count(n) + " children"
}

// Style fits text to a terminal: it colours it, and cuts what is long. The zero
// Style leaves it as it is, so that files and programs get the whole.
type Style struct{ colours, cuts bool }

// styleFor returns the style for a stream: a terminal's style if it is one, without
// colours if NO_COLOR is set.
func styleFor(w io.Writer) Style {
	on := OnTerminal(w)
	return Style{colours: on && os.Getenv("NO_COLOR") == "", cuts: on}
}

// TerminalStyle is the style of a terminal with colours.
var TerminalStyle = Style{colours: true, cuts: true}

// Clip cleans the first line of a text, and shortens it to n characters on a terminal.
func (s Style) Clip(text string, n int) string {
	text, _, _ = strings.Cut(text, "\n") // what follows is a stack, say
	if s.cuts {
		return Clip(text, n)
	}
	return Clean(text)
}

const (
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
	faint  = "2"
	strong = "1"
)

func (s Style) paint(code, text string) string {
	if !s.colours || text == "" || code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Strong is for what stands out.
func (s Style) Strong(text string) string { return s.paint(strong, text) }

// Faint is for what matters less.
func (s Style) Faint(text string) string { return s.paint(faint, text) }

// Alarm shows what needs attention: red if it is critical, else yellow.
func (s Style) Alarm(critical bool, text string) string {
	if critical {
		return s.paint(red, text)
	}
	return s.paint(yellow, text)
}

// The colours of what has one.
var (
	stateColours = map[events.ItemState]string{
		events.StateCompleted: green, events.StateDead: red, events.StateFailed: red, events.StateRunning: cyan, events.StateClaimed: cyan, events.StateCancelled: yellow,
	}
	kindColours = map[events.Kind]string{
		events.KindCompleted: green, events.KindFailed: red, events.KindDead: red, events.KindRejected: red, events.KindClaimed: cyan, events.KindRunning: cyan,
		events.KindCancelled: yellow, events.KindReleased: yellow, events.KindOwned: yellow, events.KindSnoozed: yellow, events.KindParked: yellow, events.KindSignalled: cyan,
	}
	levelColours = map[string]string{"error": red, "warn": yellow, "debug": faint}
)

// State shows an item's state.
func (s Style) State(st events.ItemState) string { return s.InState(st, st.String()) }

// InState colours a text about an item that is in a state.
func (s Style) InState(st events.ItemState, text string) string {
	return s.paint(stateColours[st], text)
}

// Kind colours the name of an event's kind.
func (s Style) Kind(k events.Kind, text string) string { return s.paint(kindColours[k], text) }

// Level shows a log level.
func (s Style) Level(level string) string {
	return s.paint(levelColours[level], fmt.Sprintf("%-5s", Clip(level, 5)))
}

// Table prints rows in aligned columns; the first row is the heading. Cells
// may be coloured.
func Table(w io.Writer, style Style, rows [][]string) { NewColumns(w, style).Print(rows...) }

// Columns prints rows as they come: each column is as wide as the widest of its cells so far.
type Columns struct {
	w      io.Writer
	style  Style
	widths []int
	headed bool // the first row, the heading, is printed
}

// NewColumns returns columns without a row.
func NewColumns(w io.Writer, style Style) *Columns { return &Columns{w: w, style: style} }

// Print prints rows, aligned among themselves. The very first is the heading.
func (c *Columns) Print(rows ...[]string) {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(c.widths) {
				c.widths = append(c.widths, 0)
			}
			c.widths[i] = max(c.widths[i], visible(cell))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			if !c.headed {
				b.WriteString(c.style.Faint(cell))
			} else {
				b.WriteString(cell)
			}
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", c.widths[i]-visible(cell)+2))
			}
		}
		c.headed = true
		fmt.Fprintln(c.w, strings.TrimRight(b.String(), " "))
	}
}

// visible is the width of a cell on the screen.
func visible(s string) int {
	n, escape := 0, false
	for _, r := range s {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		default:
			n++
		}
	}
	return n
}
