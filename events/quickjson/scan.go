package quickjson

import "unicode/utf8"

// scanDepth bounds the nesting that a scanner follows.
const scanDepth = 100

// Scan returns the length of the JSON value that p begins with, several times as quickly
// as encoding/json. It is 0 for what is no JSON in UTF-8, begins with a blank, or is nested
// more than 100 deep: encoding/json has the last word on that.
func Scan(p []byte) int {
	s := scanner{b: p}
	return len(s.raw())
}

// scanner walks over JSON. Once bad, its place says nothing.
type scanner struct {
	b   []byte
	i   int
	bad bool
}

// raw steps over a value and returns it.
func (s *scanner) raw() []byte {
	start := s.i
	if s.value(scanDepth); s.bad {
		return nil
	}
	return s.b[start:s.i]
}

func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// want steps over c.
func (s *scanner) want(c byte) {
	s.bad = s.bad || s.peek() != c
	s.i++
}

func (s *scanner) blanks() {
	for s.i < len(s.b) && s.b[s.i] <= ' ' && (s.b[s.i] == ' ' || s.b[s.i] == '\n' || s.b[s.i] == '\t' || s.b[s.i] == '\r') {
		s.i++
	}
}

// value steps over a value in which at most depth brackets nest.
func (s *scanner) value(depth int) {
	switch c := s.peek(); c {
	case '"':
		s.text()
	case '{', '[':
		s.i++
		s.composite(c, depth)
	case 't':
		s.literal("true")
	case 'f':
		s.literal("false")
	case 'n':
		s.literal("null")
	default:
		s.number()
	}
}

// composite steps over the rest of an object or array, which begins with open.
func (s *scanner) composite(open byte, depth int) {
	end := open + 2 // in ASCII, for both kinds of brackets
	if s.blanks(); s.peek() == end {
		s.i++
		return
	}
	for s.bad = s.bad || depth == 0; !s.bad; s.blanks() {
		if open == '{' {
			s.text()
			s.blanks()
			s.want(':')
			s.blanks()
		}
		if s.bad {
			return
		}
		s.value(depth - 1)
		s.blanks()
		if s.peek() == end {
			s.i++
			return
		}
		s.want(',')
	}
}

func (s *scanner) literal(w string) {
	s.bad = s.bad || len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w
	s.i += len(w)
}

// What a byte in a string is, 0 for most.
const (
	quote = 1 + iota
	escape
	control
	markup // < > &, which encoding/json escapes
	wide   // a part of a character beyond ASCII
)

var class = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c < ' ':
			t[c] = control
		case c >= utf8.RuneSelf:
			t[c] = wide
		}
	}
	t['"'], t['\\'], t['<'], t['>'], t['&'] = quote, escape, markup, markup, markup
	return t
}()

// text steps over a string and returns what its quotes enclose, and whether there are
// escapes in it.
func (s *scanner) text() (in []byte, escaped bool) {
	if s.want('"'); s.bad {
		return nil, false
	}
	beyond := false
	b, start := s.b, s.i
	for i := start; i < len(b); i++ {
		switch class[b[i]] {
		case 0:
		case quote:
			s.i = i + 1
			s.bad = s.bad || beyond && !utf8.Valid(b[start:i])
			return b[start:i], escaped
		case escape:
			escaped = true
			s.i = i + 1
			s.escape()
			i = s.i
		case control:
			s.bad = true
			return nil, false
		case wide:
			beyond = true
		}
	}
	s.bad = true
	return nil, false
}

// escape steps over an escape, up to its last byte.
func (s *scanner) escape() {
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
	case 'u':
		for range 4 {
			s.i++
			c := s.peek()
			s.bad = s.bad || !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F')
		}
	default:
		s.bad = true
	}
}

func (s *scanner) number() {
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
func (s *scanner) digits() {
	start := s.i
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.i++
	}
	s.bad = s.bad || s.i == start
}
