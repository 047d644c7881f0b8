package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
)

// maxCauseText is the length, in bytes, of the part of an error's text that its
// cause is made of: it says what happened; what follows says where.
const maxCauseText = 1024

// CauseOf returns the fingerprint of a death: 16 hexadecimal digits, the same for
// all items of one type that died for one reason, with one code, of one error,
// whatever numbers, ids, addresses, paths and quoted texts are in its text (see
// [CauseText]). Only the first KiB of the text counts. The fingerprint is stable:
// events keep it, and later deaths are compared with it.
func CauseOf(t events.Type, reason, code, text string) string {
	b := make([]byte, 0, 256)
	for _, part := range [...]string{string(t), reason, code, CauseText(text)} {
		b = append(binary.AppendVarint(b, int64(len(part))), part...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// OtherCause gathers the deaths of a type whose causes are too many to be told
// apart. No fingerprint looks like it.
func OtherCause(t events.Type) string { return "other-" + string(t) }

// CauseText returns an error's text without what changes from one item to the next:
//
//	quoted texts ("…", '…', `…`)           "…"
//	UUIDs, ULIDs                           <id>
//	hexadecimal: 0x…, or 8 or more          <hex>
//	numbers                                <n>
//	paths, and those of URLs               <path>
//	runs of blanks                         one blank
//
// A number in a word is replaced too: worker-17 becomes worker-<n>. A run of
// letters only is a word, though they may be hexadecimal digits.
func CauseText(text string) string {
	if len(text) > maxCauseText {
		text = events.Cut(text, maxCauseText)
	}
	c := causeScanner{s: text}
	for c.i < len(c.s) {
		c.next()
	}
	return strings.TrimRight(c.out.String(), " ")
}

type causeScanner struct {
	s   string
	i   int
	out strings.Builder
}

// next takes what stands at i: blanks, a quoted text, a word, or a character.
func (c *causeScanner) next() {
	switch ch := c.s[c.i]; {
	case ch <= ' ':
		for c.i < len(c.s) && c.s[c.i] <= ' ' {
			c.i++
		}
		if c.out.Len() > 0 {
			c.out.WriteByte(' ')
		}
	case ch == '"' || ch == '\'' || ch == '`':
		c.quoted(ch)
	case inWord(ch):
		from := c.i
		for c.i < len(c.s) && inWord(c.s[c.i]) {
			c.i++
		}
		if strings.Contains(c.s[from:c.i], "://") { // a query has more than words
			for c.i < len(c.s) && c.s[c.i] > ' ' && strings.IndexByte("\"'`<>(),;]}", c.s[c.i]) < 0 {
				c.i++
			}
		}
		word := c.s[from:c.i]
		end := strings.TrimRight(word, ".:") // ends a sentence, or a part of one
		c.word(end)
		c.out.WriteString(word[len(end):])
	default:
		c.out.WriteByte(ch)
		c.i++
	}
}

// quoted takes a text in quotes; a quote that none follows is a character, and
// an apostrophe in a word is one.
func (c *causeScanner) quoted(quote byte) {
	apostrophe := quote == '\'' && c.i > 0 && isAlnum(c.s[c.i-1])
	for end := c.i + 1; !apostrophe && end < len(c.s); end++ {
		switch {
		case c.s[end] == '\\':
			end++
		case c.s[end] == quote && (quote != '\'' || end+1 == len(c.s) || !isAlnum(c.s[end+1])):
			c.out.WriteString(`"…"`)
			c.i = end + 1
			return
		}
	}
	c.out.WriteByte(quote)
	c.i++
}

// inWord reports whether a character is part of a word: of a name, a number, an
// id, a path, an address.
func inWord(ch byte) bool {
	return isAlnum(ch) || ch >= 0x80 || strings.IndexByte("-_./:\\@%~+?&#", ch) >= 0
}

func isAlnum(ch byte) bool { return isDigit(ch) || isLetter(ch) }

func isDigit(ch byte) bool { return ch >= '0' && ch <= '9' }

func isLetter(ch byte) bool { return ch|0x20 >= 'a' && ch|0x20 <= 'z' }

func isHexDigit(ch byte) bool { return isDigit(ch) || ch|0x20 >= 'a' && ch|0x20 <= 'f' }

func (c *causeScanner) word(w string) {
	if scheme, rest, ok := strings.Cut(w, "://"); ok {
		host, _, path := strings.Cut(rest, "/")
		c.numbers(scheme + "://" + host)
		if path {
			c.out.WriteString("/<path>")
		}
		return
	}
	if strings.HasPrefix(w, "/") && len(w) > 1 || strings.HasPrefix(w, "./") || strings.HasPrefix(w, "~/") ||
		strings.Count(w, "/") > 1 || len(w) > 3 && w[1] == ':' && w[2] == '\\' {
		c.out.WriteString("<path>")
		return
	}
	c.numbers(w)
}

// numbers writes a word with the ids and numbers in it replaced. Between them
// stand punctuation and letters.
func (c *causeScanner) numbers(w string) {
	for i := 0; i < len(w); {
		if n := uuidAt(w[i:]); n > 0 && (i == 0 || !isAlnum(w[i-1])) {
			c.out.WriteString("<id>")
			i += n
			continue
		}
		n := 0
		for i+n < len(w) && isAlnum(w[i+n]) {
			n++
		}
		if n == 0 {
			c.out.WriteByte(w[i])
			i++
			continue
		}
		i += c.run(w[i:], n)
	}
}

// run writes the letters and digits with which w begins, n of them, and returns
// how much of w that was: a number takes its fractions and groups along.
func (c *causeScanner) run(w string, n int) int {
	r := w[:n]
	digits := strings.ContainsAny(r, "0123456789")
	switch {
	case !digits:
		c.out.WriteString(r)
	case n == 26 && isULID(r):
		c.out.WriteString("<id>")
	case n > 2 && (r[:2] == "0x" || r[:2] == "0X") && allHex(r[2:]), n >= 8 && allHex(r):
		c.out.WriteString("<hex>")
	default:
		return c.digits(w, n)
	}
	return n
}

// digits writes a run of letters and digits with its digits replaced, and what
// continues a number behind it: 1.5, 10.0.0.7, 12:30:05.
func (c *causeScanner) digits(w string, n int) int {
	i := 0
	for i < n {
		if !isDigit(w[i]) {
			c.out.WriteByte(w[i])
			i++
			continue
		}
		for i < len(w) && (isDigit(w[i]) || i+1 < len(w) && (w[i] == '.' || w[i] == ':') && isDigit(w[i+1])) {
			i++
		}
		c.out.WriteString("<n>")
	}
	return i
}

// uuidAt returns the length of the UUID that w begins with, 0 for none.
func uuidAt(w string) int {
	const n = 36
	if len(w) < n || len(w) > n && isAlnum(w[n]) {
		return 0
	}
	for i := range n {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (w[i] == '-') || !dash && !isHexDigit(w[i]) {
			return 0
		}
	}
	return n
}

func isULID(r string) bool {
	_, err := events.ParseID(r)
	return err == nil
}

func allHex(r string) bool {
	for i := range len(r) {
		if !isHexDigit(r[i]) {
			return false
		}
	}
	return true
}

// Forgettable reports whether a cause may be forgotten: nothing has been dead of
// it for CauseKeep.
func Forgettable(c *events.Cause, at time.Time) bool {
	return c.Dead == 0 && !at.Before(c.Last.Add(CauseKeep))
}

// The bounds of causes.
const (
	// MaxCauseError bounds the error text of its example that a [events.Cause] keeps, in bytes.
	MaxCauseError = 512
	// CauseKeep is the time for which a cause without dead items is kept after its
	// last death.
	CauseKeep = 30 * 24 * time.Hour
	// CauseWindow is the time within which fast growth is noticed: when the
	// deaths of a cause in one window reach CauseGrowth, ten times that, and so
	// on.
	CauseWindow = 5 * time.Minute
	CauseGrowth = 10
)

// CountDeath returns the cause after one more death.
func CountDeath(c events.Cause, it *events.Item, b *events.Dead, at time.Time) events.Cause {
	if c.Count == 0 {
		c.Type, c.First = it.Type, at
	}
	if c.WindowAt.IsZero() || !at.Before(c.WindowAt.Add(CauseWindow)) {
		c.WindowAt, c.Window, c.Noted = at, 0, 0
	}
	c.Reason, c.Code, c.Error = b.Reason, b.Code, events.Shorten(b.Error, MaxCauseError)
	c.Count++
	c.Dead++
	c.Window++
	c.Last, c.Example = at, it.ID
	return c
}

// Growing reports whether the window's count has just reached a step.
func Growing(c events.Cause) bool {
	step := int64(CauseGrowth)
	for step < c.Window {
		step *= 10
	}
	return c.Window == step && c.Noted < step
}
