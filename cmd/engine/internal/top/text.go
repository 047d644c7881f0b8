package top

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/streamwright/streamwright/cmd/internal/console"
)

// span is text in one colour. All text gets to the screen as spans, which clean it.
type span struct {
	text  string
	paint func(string) string // nil: as it is
}

func plain(text string) span { return span{text: text} }

func plainf(format string, args ...any) span { return plain(fmt.Sprintf(format, args...)) }

// line is a line of the screen.
type line []span

// render returns the line, cut to a width.
func (l line) render(width int) string {
	var b strings.Builder
	for _, s := range l {
		text := cut(clean(s.text), width)
		if text == "" {
			continue
		}
		width -= wide(text)
		if s.paint != nil {
			text = s.paint(text)
		}
		b.WriteString(text)
	}
	return b.String()
}

// width is the number of columns that the line takes.
func (l line) width() int {
	n := 0
	for _, s := range l {
		n += wide(clean(s.text))
	}
	return n
}

// maxRunes bounds the runes of a span, so that long texts cost little.
const maxRunes = 4096

// variants says how the character before is drawn, whose width terminals then disagree on.
var variants = strings.NewReplacer("\ufe0e", "", "\ufe0f", "")

// clean makes text fit for the screen.
func clean(text string) string {
	if len(text) > maxRunes { // bytes, as a quick look
		if r := []rune(text); len(r) > maxRunes {
			text = string(r[:maxRunes]) + "…"
		}
	}
	return variants.Replace(console.Clean(text))
}

// wide returns the columns that clean text takes at most.
func wide(text string) int {
	_, n := fitting(text, math.MaxInt)
	return n
}

// fitting returns the beginning of clean text that fits into a width, and the columns that
// it takes at most: terminals count either characters as they are perceived, or runes.
func fitting(text string, width int) (part string, columns int) {
	at := 0
	for at < len(text) {
		size, w := 1, 1
		if text[at] >= utf8.RuneSelf || at+1 < len(text) && text[at+1] >= utf8.RuneSelf { // else it is a character by itself
			character, perceived := ansi.FirstGraphemeCluster(text[at:], ansi.GraphemeWidth)
			size, w = len(character), max(perceived, ansi.StringWidthWc(character))
		}
		if w > width-columns {
			break
		}
		at, columns = at+size, columns+w
	}
	return text[:at], columns
}

// cut shortens clean text to a width; what is cut ends with an ellipsis.
func cut(text string, width int) string {
	if width <= 0 {
		return ""
	}
	part, _ := fitting(text, width)
	if len(part) == len(text) {
		return text
	}
	part, _ = fitting(part, width-1)
	return part + "…"
}

// wrap breaks text into lines of a width, at most so many, between words where there are
// some; more end with an ellipsis.
func wrap(text string, width, most int) []string {
	text = clean(text)
	var lines []string
	for text != "" && width > 0 {
		part, _ := fitting(text, width)
		if len(lines) == most-1 || part == "" { // one character may be wider than a line
			return append(lines, cut(text, width))
		}
		if i := strings.LastIndexByte(part, ' ') + 1; i > len(part)/2 && len(part) < len(text) {
			part = part[:i]
		}
		text = text[len(part):]
		lines = append(lines, part)
	}
	return lines
}

// pad fills clean text up to a width.
func pad(text string, width int, right bool) string {
	space := strings.Repeat(" ", max(width-wide(text), 0))
	if right {
		return space + text
	}
	return text + space
}

// short shows a number in at most five characters.
func short[T ~int | ~int64 | ~float64](n T) string {
	x := float64(n)
	switch {
	case x < 10_000:
		return fmt.Sprintf("%.0f", x)
	case x < 999_500:
		return fmt.Sprintf("%.3gk", x/1e3)
	case x < 999_500_000:
		return fmt.Sprintf("%.3gM", x/1e6)
	}
	return fmt.Sprintf("%.3gG", x/1e9)
}

// rate shows how many there are in a second.
func rate(n float64) string {
	switch {
	case n == 0:
		return "0"
	case n < 0.095:
		return fmt.Sprintf("%.2f", n)
	case n < 99.95:
		return fmt.Sprintf("%.1f", n)
	}
	return short(n)
}
