package projector

import (
	"bytes"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/streamwright/streamwright/events"
)

// The words of an error's text, by which items are found.
const (
	MaxErrorWords = 24 // distinct ones of an item, those of its code first
	MinWordBytes  = 2  // shorter ones are passed over
	MaxWordBytes  = 40 // of longer ones the rest is left out
	// MaxQueryWords is how many words of a question count; further ones are
	// passed over.
	MaxQueryWords = 8
)

// What the term index has items by.
const (
	termLabel  = 'l' // value:text key:text
	termTenant = 't' // tenant:text
	termDedup  = 'd' // dedup key:text
	termParent = 'p' // id of the item that spawned it, or of its batch
	termWord   = 'w' // word of the error's code or message:text

	termSchedule = 's' // name of the schedule that made the item:text
)

// appendTerm appends what the term index's entries for a text share. A label's
// key follows its value, so that items can be found by a value alone.
func appendTerm(b []byte, kind byte, texts ...string) []byte {
	b = append(b, prefixTerm, kind)
	for _, s := range texts {
		b = appendText(b, s)
	}
	return b
}

// fillTerms computes the entries of an item in the term index: at most
// events.MaxLabels + MaxErrorWords + 5, and none, at no cost, for an item that
// has nothing of the kind.
func (s *indexSet) fillTerms(it *events.Item) {
	s.place = listPlace{it.Seq, it.ID}
	for k, v := range it.Labels {
		s.putTerm(appendTerm(s.buf, termLabel, v, k))
	}
	if it.Tenant != "" {
		s.putTerm(appendTerm(s.buf, termTenant, it.Tenant))
	}
	if it.DedupKey != "" {
		s.putTerm(appendTerm(s.buf, termDedup, it.DedupKey))
	}
	if name := scheduleOf(it); name != "" {
		s.putTerm(appendTerm(s.buf, termSchedule, name))
	}
	if r := it.Relations; r != nil && !r.Parent.IsZero() {
		s.putTerm(appendTerm(s.buf, termParent, string(r.Parent[:])))
	}
	if it.Error == "" && it.Code == "" {
		return
	}
	s.words.ofItem(it)
	for _, w := range s.words.list {
		s.putTerm(append(append(append(s.buf, prefixTerm, termWord), w...), 0, 1)) // a word has no zero byte
	}
}

// scheduleOf is the name of the schedule that made an item; empty: none did.
func scheduleOf(it *events.Item) string {
	if it.Provenance.Source != events.SourceSchedule {
		return ""
	}
	return it.Provenance.Trigger
}

// putTerm records the key whose prefix was appended to s.buf.
func (s *indexSet) putTerm(buf []byte) {
	from := len(s.buf)
	s.buf = appendListPlace(buf, s.place)
	s.terms = append(s.terms, s.buf[from:len(s.buf):len(s.buf)])
}

// diffTerms is diffIndexes for the term index. Every event that touches an item
// moves all its entries, since it moves the item to the front of each list.
func diffTerms(old, new *indexSet, o *ops) {
	gone, come := old.terms, new.terms
	if old.place == new.place {
		gone, come = differences(gone, come)
	}
	for _, key := range gone {
		o.addTerm(key, true)
	}
	for _, key := range come {
		o.addTerm(key, false)
	}
}

// differences returns what only a has and what only b has.
func differences(a, b [][]byte) (onlyA, onlyB [][]byte) {
	slices.SortFunc(a, bytes.Compare)
	slices.SortFunc(b, bytes.Compare)
	for len(a) > 0 && len(b) > 0 {
		switch c := bytes.Compare(a[0], b[0]); {
		case c < 0:
			onlyA, a = append(onlyA, a[0]), a[1:]
		case c > 0:
			onlyB, b = append(onlyB, b[0]), b[1:]
		default:
			a, b = a[1:], b[1:]
		}
	}
	return append(onlyA, a...), append(onlyB, b...)
}

// words takes texts apart. Its memory is used again.
type words struct {
	list [][]byte // distinct, lower case
	buf  []byte
}

// ofItem takes an item's error apart: its code, then its message.
func (w *words) ofItem(it *events.Item) {
	w.list, w.buf = w.list[:0], w.buf[:0]
	w.add(it.Code, MaxErrorWords)
	w.add(it.Error, MaxErrorWords)
}

// ofQuery returns the words of a question.
func ofQuery(text string) [][]byte {
	var w words
	w.add(text, MaxQueryWords)
	return w.list
}

// add takes a text apart, until there are so many words. A word is a run of
// letters and digits.
func (w *words) add(text string, most int) {
	start := len(w.buf)
	for _, r := range text {
		if len(w.list) >= most {
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
	if len(w.list) < most {
		w.end(start)
	}
}

// end ends the word that began at a place of the buffer, and says where the next
// one begins.
func (w *words) end(start int) int {
	word := w.buf[start:len(w.buf):len(w.buf)]
	if len(word) < MinWordBytes || w.has(word) {
		w.buf = w.buf[:start]
		return start
	}
	w.list = append(w.list, word)
	return len(w.buf)
}

func (w *words) has(word []byte) bool {
	for _, x := range w.list {
		if bytes.Equal(x, word) {
			return true
		}
	}
	return false
}

func (w *words) hasPrefix(prefix []byte) bool {
	for _, x := range w.list {
		if bytes.HasPrefix(x, prefix) {
			return true
		}
	}
	return false
}

// match reports whether all the words of a question are there, the last of them
// as the beginning of a word.
func (w *words) match(query [][]byte) bool {
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
