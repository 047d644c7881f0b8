package quickjson

import (
	"bytes"
	"encoding/json"
	"math"
	"time"
)

// A Reader reads one JSON document at a time, and shares texts that occur again. Once it
// has given up, what it returns is of no use. Its zero value is ready for [Reader.Reset].
type Reader struct {
	scanner
	texts [16]string
}

// Reset begins with a document.
func (r *Reader) Reset(data []byte) { r.scanner = scanner{b: data} }

// Whole reports whether the document was read to its end.
func (r *Reader) Whole() bool {
	r.blanks()
	return !r.bad && r.i == len(r.b)
}

// Check gives up on an error.
func (r *Reader) Check(err error) { r.bad = r.bad || err != nil }

// GiveUp leaves the document to encoding/json.
func (r *Reader) GiveUp() { r.bad = true }

// An Object is the place in an object that is read. Field is the index of its last name.
type Object struct {
	Field int
	names []string
	next  int    // the field that comes next, if they are in order
	seen  uint64 // a bit for each field
}

// Object begins to read an object with at most 64 names:
//
//	for o := r.Object(names); r.Next(&o); {
//		switch o.Field { … // reads the value
func (r *Reader) Object(names []string) Object {
	r.blanks()
	r.want('{')
	return Object{names: names}
}

// Next reads a name, and returns false at the object's end.
func (r *Reader) Next(o *Object) bool {
	r.blanks()
	if r.bad {
		return false
	}
	c := r.peek()
	if c == '}' {
		r.i++
		return false
	}
	if o.seen != 0 {
		r.want(',')
		r.blanks()
		c = r.peek()
	}
	if c != '"' || r.bad || !r.name(o) {
		r.bad = true
		return false
	}
	r.blanks()
	r.want(':')
	r.blanks()
	return !r.bad
}

// name reads a name, which must be one that was not there yet.
func (r *Reader) name(o *Object) bool {
	rest := r.b[r.i+1:]
	n := len(o.names[o.next])
	if n >= len(rest) || rest[n] != '"' || o.names[o.next] != string(rest[:n]) {
		if n = bytes.IndexByte(rest, '"'); n < 0 || !o.find(rest[:n]) {
			return false
		}
	}
	r.i += n + 2
	first := o.seen&(1<<o.next) == 0
	o.Field, o.seen = o.next, o.seen|1<<o.next
	o.step()
	return first
}

// step goes to the next field, and from the last to the first.
func (o *Object) step() {
	if o.next++; o.next == len(o.names) {
		o.next = 0
	}
}

// find looks for a name behind the one that was expected.
func (o *Object) find(name []byte) bool {
	for range o.names {
		if o.step(); o.names[o.next] == string(name) {
			return true
		}
	}
	return false
}

// Element steps to the n-th element of an array, from 0, and returns false at its end.
func (r *Reader) Element(n int) bool {
	r.blanks()
	if n == 0 {
		r.want('[')
		r.blanks()
	}
	if r.peek() == ']' {
		r.i++
		return false
	}
	if n > 0 {
		r.want(',')
		r.blanks()
	}
	return !r.bad
}

// Text reads a string.
func (r *Reader) Text() string {
	start := r.i
	in, escaped := r.text()
	if escaped && !r.bad {
		var text string
		r.Check(json.Unmarshal(r.b[start:r.i], &text))
		return text
	}
	if len(in) == 0 || len(in) > 32 {
		return string(in)
	}
	known := &r.texts[(len(in)+int(in[0])+int(in[len(in)-1])*5)%len(r.texts)]
	if *known != string(in) {
		*known = string(in)
	}
	return *known
}

// Word reads a string without escapes. It is valid until the document is.
func (r *Reader) Word() []byte {
	in, escaped := r.text()
	r.bad = r.bad || escaped
	return in
}

// Int reads a whole number that has so many bits.
func (r *Reader) Int(bits int) int64 {
	neg := r.peek() == '-'
	if neg {
		r.i++
	}
	n := r.Uint(63)
	r.bad = r.bad || neg && n == 0 || n>>(bits-1) != 0 // the least number is left to encoding/json
	if neg {
		return -int64(n)
	}
	return int64(n)
}

// Uint reads a whole number that is not negative and has so many bits.
func (r *Reader) Uint(bits int) (n uint64) {
	start := r.i
	for c := r.peek(); c >= '0' && c <= '9'; c = r.peek() {
		n = n*10 + uint64(c-'0')
		r.i++
	}
	digits := r.i - start
	if digits == 0 || digits > 19 || digits > 1 && r.b[start] == '0' || n>>(bits-1)>>1 != 0 {
		r.bad = true
	}
	return n
}

// Positive gives up on 0, which is refused.
func (r *Reader) Positive(n int64) int64 {
	r.bad = r.bad || n == 0
	return n
}

// MaxMillis is the longest [time.Duration], 292 years, in milliseconds.
const MaxMillis = math.MaxInt64 / int64(time.Millisecond)

// Millis returns n milliseconds, and gives up on more than there is room for.
func (r *Reader) Millis(n int64) time.Duration {
	r.bad = r.bad || n > MaxMillis || n < -MaxMillis
	return time.Duration(n) * time.Millisecond
}

// Bool reads true or false.
func (r *Reader) Bool() bool {
	if r.peek() == 't' {
		r.literal("true")
		return true
	}
	r.literal("false")
	return false
}

// Raw reads any value and copies it.
func (r *Reader) Raw() json.RawMessage { return append(json.RawMessage(nil), r.raw()...) }

// View reads any value and refers to the document.
func (r *Reader) View() json.RawMessage {
	v := r.raw()
	return json.RawMessage(v[:len(v):len(v)])
}

// Any reads a value into v, a pointer, with encoding/json.
func (r *Reader) Any(v any) {
	if raw := r.raw(); !r.bad {
		r.Check(json.Unmarshal(raw, v))
	}
}

// Texts reads an object of strings.
func (r *Reader) Texts() map[string]string {
	m := map[string]string{}
	r.want('{')
	for r.blanks(); !r.bad && r.peek() != '}'; r.blanks() {
		if len(m) > 0 {
			r.want(',')
			r.blanks()
		}
		name := r.Text()
		r.blanks()
		r.want(':')
		r.blanks()
		if _, twice := m[name]; twice {
			r.bad = true
		}
		m[name] = r.Text()
	}
	r.want('}')
	return m
}

// Some returns p, or something new for nil.
func Some[T any](p *T) *T {
	if p == nil {
		return new(T)
	}
	return p
}

// Time reads a time.
func (r *Reader) Time() (t time.Time) {
	if t, n := utc(r.b[min(r.i, len(r.b)):]); n > 0 {
		r.i += n
		return t
	}
	start := r.i
	if r.text(); !r.bad {
		r.Check(t.UnmarshalJSON(r.b[start:r.i]))
	}
	return t
}

// utc reads a time as it is written here, "2006-01-02T15:04:05.999999999Z", and returns its
// length. It leaves others, and 29 February, to package time.
func utc(b []byte) (t time.Time, length int) {
	const form = `"2006-01-02T15:04:05`
	if len(b) < len(form)+2 || b[0] != '"' || b[5] != '-' || b[8] != '-' || b[11] != 'T' || b[14] != ':' || b[17] != ':' {
		return t, 0
	}
	century, year, month, day := two(b, 1), two(b, 3), two(b, 6), two(b, 9)
	hour, minute, second := two(b, 12), two(b, 15), two(b, 18)
	if max(century, year) > 99 || month < 1 || month > 12 || day < 1 || day > monthDays(month) || hour > 23 || minute > 59 || second > 59 {
		return t, 0
	}
	i, nanos := len(form), 0
	if b[i] == '.' {
		i++
		unit := int(time.Second)
		for ; i < len(b) && b[i] >= '0' && b[i] <= '9' && unit > 1; i++ {
			unit /= 10
			nanos += int(b[i]-'0') * unit
		}
		if i == len(form)+1 {
			return t, 0
		}
	}
	if len(b) < i+2 || b[i] != 'Z' || b[i+1] != '"' {
		return t, 0
	}
	return time.Date(century*100+year, time.Month(month), day, hour, minute, second, nanos, time.UTC), i + 2
}

// two is a number of two digits at i, 100 or more for none.
func two(b []byte, i int) int {
	tens, ones := int(b[i]-'0'), int(b[i+1]-'0')
	if ones > 9 || tens > 9 {
		return 100
	}
	return tens*10 + ones
}

// monthDays returns the days that a month, 1 to 12, has each year.
func monthDays(month int) int {
	if month == 2 {
		return 28
	}
	return 30 + (month+month/8)%2
}
