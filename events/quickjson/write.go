package quickjson

import (
	"encoding"
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

// A Writer appends JSON to B. Names of fields are given with the comma before and the
// colon behind: `,"id":`. Err is the first error.
type Writer struct {
	B   []byte
	Err error
}

// Open begins an object. Close ends it, given what Open has returned.
func (w *Writer) Open() int { return len(w.B) }

// Close puts the brace in the place of the first field's comma.
func (w *Writer) Close(at int) {
	if len(w.B) == at {
		w.B = append(w.B, '{')
	}
	w.B[at] = '{'
	w.B = append(w.B, '}')
}

// Name appends the name of a field, whose value follows.
func (w *Writer) Name(name string) { w.B = append(w.B, name...) }

// Text appends a string.
func (w *Writer) Text(name, s string) {
	w.B = AppendText(append(w.B, name...), s)
}

// Plain appends a string that needs no escapes, and is not empty.
func (w *Writer) Plain(name, s string) {
	if s != "" {
		w.B = append(append(append(append(w.B, name...), '"'), s...), '"')
	}
}

// OptText appends a string that is not empty.
func (w *Writer) OptText(name, s string) {
	if s != "" {
		w.Text(name, s)
	}
}

// Int appends a number. It is not inlined, so that OptInt is.
//
//go:noinline
func (w *Writer) Int(name string, n int64) {
	w.B = strconv.AppendInt(append(w.B, name...), n, 10)
}

// OptInt appends a number that is not 0.
func (w *Writer) OptInt(name string, n int64) {
	if n != 0 {
		w.Int(name, n)
	}
}

// Uint appends a number. It is not inlined, so that OptUint is.
//
//go:noinline
func (w *Writer) Uint(name string, n uint64) {
	w.B = strconv.AppendUint(append(w.B, name...), n, 10)
}

// OptUint appends a number that is not 0.
func (w *Writer) OptUint(name string, n uint64) {
	if n != 0 {
		w.Uint(name, n)
	}
}

// Bool appends a boolean.
func (w *Writer) Bool(name string, v bool) {
	w.B = strconv.AppendBool(append(w.B, name...), v)
}

// OptBool appends true.
func (w *Writer) OptBool(name string, v bool) {
	if v {
		w.Bool(name, v)
	}
}

// Time appends a time, in RFC 3339 and UTC.
func (w *Writer) Time(name string, t time.Time) {
	if !Writable(t) {
		w.fail(errors.New("the year of a time is not between 0 and 9999"))
	}
	w.B = append(t.UTC().AppendFormat(append(append(w.B, name...), '"'), time.RFC3339Nano), '"')
}

// Writable reports whether RFC 3339 has room for a time, in UTC.
func Writable(t time.Time) bool {
	s := t.Unix()
	return s >= minTime && s <= maxTime
}

var minTime, maxTime = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).Unix() - 1

// OptTime appends a time that is not zero.
func (w *Writer) OptTime(name string, t time.Time) {
	if !t.IsZero() {
		w.Time(name, t)
	}
}

// Word appends the text of a value. It must need no escapes.
func (w *Writer) Word(name string, v encoding.TextAppender) {
	b, err := v.AppendText(append(append(w.B, name...), '"'))
	w.fail(err)
	w.B = append(b, '"')
}

// Raw appends a JSON document as it is; nil is null. The caller has checked it.
func (w *Writer) Raw(name string, doc json.RawMessage) {
	w.B = append(w.B, name...)
	if doc == nil {
		w.B = append(w.B, "null"...)
	}
	w.B = append(w.B, doc...)
}

// Document appends a JSON document as it is, if it is one.
func (w *Writer) Document(name string, doc json.RawMessage) {
	if doc == nil || Scan(doc) == len(doc) {
		w.Raw(name, doc)
	} else {
		w.Any(name, doc)
	}
}

// Any appends what encoding/json makes of v.
func (w *Writer) Any(name string, v any) {
	data, err := json.Marshal(v)
	w.fail(err)
	w.B = append(append(w.B, name...), data...)
}

func (w *Writer) fail(err error) {
	if w.Err == nil {
		w.Err = err
	}
}

// AppendText appends s as a JSON string.
func AppendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := class[s[i]]; c != 0 {
			q, _ := json.Marshal(s) // a string can't fail
			return append(b, q...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// Element appends the comma in front of an array's i-th element.
func (w *Writer) Element(i int) {
	if i > 0 {
		w.B = append(w.B, ',')
	}
}
