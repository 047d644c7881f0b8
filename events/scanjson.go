package events

import "unicode/utf8"

// scanDepth bounds the nesting that ScanJSON follows.
const scanDepth = 100

// ScanJSON returns the length of the JSON value that p begins with, several times
// as quickly as encoding/json. It is 0 for what is no JSON in UTF-8, begins with a blank,
// or is nested more than 100 deep: encoding/json has the last word on that. plain
// reports whether json.Marshal writes the value as it stands, without escapes and
// with no blanks to remove.
func ScanJSON(p []byte) (n int, plain bool) {
	s := jsonScan{b: p, plain: true}
	s.value(scanDepth)
	if s.bad || s.wide && !utf8.Valid(p[:s.i]) {
		return 0, false
	}
	return s.i, s.plain
}

// jsonScan walks over one JSON value. Once bad, its place says nothing.
type jsonScan struct {
	b     []byte
	i     int
	bad   bool
	plain bool // so far, json.Marshal changes nothing
	wide  bool // there are bytes above 0x7f
}

// next steps over the next byte and returns it, 0 at the end.
func (s *jsonScan) next() byte {
	c := s.peek()
	s.i++
	return c
}

func (s *jsonScan) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *jsonScan) blanks() {
	for c := s.peek(); c == ' ' || c == '\n' || c == '\t' || c == '\r'; c = s.peek() {
		s.plain = false
		s.i++
	}
}

// value steps over a value in which at most depth brackets nest.
func (s *jsonScan) value(depth int) {
	switch c := s.peek(); c {
	case '"':
		s.i++
		s.text()
	case '{', '[':
		s.i++
		s.composite(c, depth)
	case 't':
		s.word("true")
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	default:
		s.number()
	}
}

// composite steps over the rest of an object or array, which begins with open.
func (s *jsonScan) composite(open byte, depth int) {
	end := open + 2 // in ASCII, for both kinds of brackets
	if s.blanks(); s.peek() == end {
		s.i++
		return
	}
	for s.bad = s.bad || depth == 0; !s.bad; s.blanks() {
		if open == '{' {
			s.bad = s.next() != '"'
			s.text()
			s.blanks()
			s.bad = s.bad || s.next() != ':'
			s.blanks()
		}
		s.value(depth - 1)
		s.blanks()
		switch s.next() {
		case end:
			return
		case ',':
		default:
			s.bad = true
		}
	}
}

func (s *jsonScan) word(w string) {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		s.bad = true
	}
	s.i += len(w)
}

// What a byte in a string is, 0 for most.
const (
	inQuote = 1 + iota
	inEscape
	inControl
	inMarkup // < > &, which json.Marshal escapes
	inWide   // a part of a character beyond ASCII
)

var inString = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c < ' ':
			t[c] = inControl
		case c >= utf8.RuneSelf:
			t[c] = inWide
		}
	}
	t['"'], t['\\'], t['<'], t['>'], t['&'] = inQuote, inEscape, inMarkup, inMarkup, inMarkup
	return t
}()

// text steps over the rest of a string, with its closing quote.
func (s *jsonScan) text() {
	b, i := s.b, s.i
	for ; i < len(b); i++ {
		switch inString[b[i]] {
		case 0:
		case inQuote:
			s.i = i + 1
			return
		case inEscape:
			s.i = i + 1
			s.escape()
			i = s.i - 1
		case inControl:
			s.bad = true
			return
		case inMarkup:
			s.plain = false
		case inWide:
			s.wide = true
			s.plain = s.plain && b[i] != 0xe2 // U+2028 and U+2029 begin with it
		}
	}
	s.bad = true
}

// escape steps over the rest of an escape.
func (s *jsonScan) escape() {
	switch s.next() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
	case 'u':
		for range 4 {
			c := s.next()
			s.bad = s.bad || !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F')
		}
	default:
		s.bad = true
	}
}

func (s *jsonScan) number() {
	if s.peek() == '-' {
		s.i++
	}
	if s.peek() == '0' {
		s.i++
	} else {
		s.digits()
	}
	if s.peek() == '.' {
		s.i++
		s.digits()
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c = s.peek(); c == '+' || c == '-' {
			s.i++
		}
		s.digits()
	}
}

// digits steps over at least one digit.
func (s *jsonScan) digits() {
	start := s.i
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.i++
	}
	s.bad = s.bad || s.i == start
}
