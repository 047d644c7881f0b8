package layout

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/streamwright/streamwright/events"
)

// Bounds of the words of an error's text, by which items are found.
const (
	MaxErrorWords = 24 // distinct ones of an item, its code's first
	MinWordBytes  = 2  // shorter ones are ignored
	MaxWordBytes  = 40 // longer ones are truncated
	// MaxQueryWords bounds the words of a question that count; further ones are
	// ignored.
	MaxQueryWords = 8
)

// What the term index has items by.
const (
	TermLabel  = 'l' // value:text key:text
	TermTenant = 't' // tenant:text
	TermDedup  = 'd' // dedup key:text
	TermParent = 'p' // id of the item that spawned it, or of its batch
	TermWord   = 'w' // word of the error's code or message:text

	TermSchedule = 's' // name of the schedule that made the item:text
)

// AppendTerm appends what the term index's entries for a text share. A label's
// key follows its value, so that items can be found by a value alone.
func AppendTerm(b []byte, kind byte, texts ...string) []byte {
	b = append(b, PrefixTerm, kind)
	for _, s := range texts {
		b = AppendText(b, s)
	}
	return b
}

// ScheduleOf is the name of the schedule that made an item; empty: none did.
func ScheduleOf(it *events.Item) string {
	if it.Provenance.Source != events.SourceSchedule {
		return ""
	}
	return it.Provenance.Trigger
}

// Words takes texts apart. Its memory is used again.
type Words struct {
	List [][]byte // distinct, lower case
	buf  []byte
}

// OfItem takes an item's error apart: its code, then its message.
func (w *Words) OfItem(it *events.Item) {
	w.List, w.buf = w.List[:0], w.buf[:0]
	w.add(it.Code, MaxErrorWords)
	w.add(it.Error, MaxErrorWords)
}

// QueryWords returns the words of a question.
func QueryWords(text string) [][]byte {
	var w Words
	w.add(text, MaxQueryWords)
	return w.List
}

// add splits a text into words, until there are most of them. A word is a run
// of letters and digits.
func (w *Words) add(text string, most int) {
	start := len(w.buf)
	for _, r := range text {
		if len(w.List) >= most {
			return
		}
		if r < utf8.RuneSelf && asciiWord[r] != 0 {
			if len(w.buf)-start < MaxWordBytes {
				w.buf = append(w.buf, asciiWord[r])
			}
			continue
		}
		if r >= utf8.RuneSelf && r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			if r = unicode.ToLower(r); len(w.buf)-start+utf8.RuneLen(r) <= MaxWordBytes {
				w.buf = utf8.AppendRune(w.buf, r)
			}
			continue
		}
		start = w.end(start)
	}
	if len(w.List) < most {
		w.end(start)
	}
}

// end ends the word that began at a place of the buffer, and says where the next
// one begins.
func (w *Words) end(start int) int {
	word := w.buf[start:len(w.buf):len(w.buf)]
	if len(word) < MinWordBytes || w.has(word) {
		w.buf = w.buf[:start]
		return start
	}
	w.List = append(w.List, word)
	return len(w.buf)
}

func (w *Words) has(word []byte) bool {
	for _, x := range w.List {
		if bytes.Equal(x, word) {
			return true
		}
	}
	return false
}

func (w *Words) hasPrefix(prefix []byte) bool {
	for _, x := range w.List {
		if bytes.HasPrefix(x, prefix) {
			return true
		}
	}
	return false
}

// Match reports whether all the words of a question are there, the last of them
// as the beginning of a word.
func (w *Words) Match(query [][]byte) bool {
	last := len(query) - 1
	for i, q := range query {
		if i < last && !w.has(q) || i == last && !w.hasPrefix(q) {
			return false
		}
	}
	return true
}

// asciiWord is the lower case of each ASCII letter and digit, 0 for the rest.
var asciiWord = func() (table [utf8.RuneSelf]byte) {
	for c := range table {
		switch b := byte(c); {
		case b >= 'a' && b <= 'z' || b >= '0' && b <= '9':
			table[c] = b
		case b >= 'A' && b <= 'Z':
			table[c] = b + 'a' - 'A'
		}
	}
	return table
}()
