package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/streamwright/streamwright/events"
)

// ReadStrict reads one JSON document into v, a pointer, and refuses what encoding/json
// alone lets pass: unknown fields, fields whose names differ in upper and lower case,
// names that occur twice in an object, 0 where it would mean the same as nothing (fields
// tagged strict:"positive"), and anything behind the document. Values of
// [json.RawMessage], such as params, are taken as they are. Its own refusals, and those
// of the fields' types, are [*events.Error]s; the other errors are those of encoding/json.
func ReadStrict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return unfit(data, v, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return events.Refuse(events.CodeBadRequest, "something follows the JSON document: send one document")
	}
	s := strictReader{b: data}
	s.value("", reflect.TypeOf(v).Elem())
	return s.err
}

// unfit returns the error of a document whose decoding has ended with err: one that names
// the field and says what to write there, if a value has the wrong kind or is no time.
func unfit(data []byte, v any, err error) error {
	var kind *json.UnmarshalTypeError
	var when *time.ParseError
	if !errors.As(err, &kind) && !errors.As(err, &when) && !strings.HasPrefix(err.Error(), "Time.UnmarshalJSON: ") || !json.Valid(data) {
		return err
	}
	s := strictReader{b: data, kinds: true}
	s.value("", reflect.TypeOf(v).Elem())
	if s.err != nil {
		return s.err
	}
	return err
}

// strictReader walks over a document that encoding/json has read. err is its first.
type strictReader struct {
	b     []byte
	i     int
	kinds bool // look for values of the wrong kind, in a document that could not be read
	err   error
}

// wrong refuses a value that can't be read into a t.
func (s *strictReader) wrong(at string, t reflect.Type) {
	var is, write string
	switch s.b[s.i] {
	case '"':
		is = "a text"
	case '{':
		is = "an object"
	case '[':
		is = "a list"
	case 't', 'f':
		is = "true or false"
	case 'n':
		return // null is nothing, whatever the kind
	default:
		is = "a number"
	}
	switch {
	case t == timeType:
		from, when := s.i, time.Time{}
		s.skip()
		if raw := s.b[from:s.i]; when.UnmarshalJSON(raw) != nil {
			s.err = events.Refuse(events.CodeBadTime, "%s is not a time: write it as \"2030-01-31T08:00:00Z\"", cmp.Or(at, "the request"))
		}
		s.i = from
		return
	case t == durationType && is != "a number":
		write = "write a whole number, without quotes"
	case opaque(t):
		return
	case t.Kind() == reflect.String && is != "a text":
		write = "write a text, in double quotes"
	case (t.Kind() == reflect.Map || t.Kind() == reflect.Struct) && is != "an object":
		write = `write an object, such as {"name":"value"}`
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && is != "a list":
		write = `write a list, in square brackets`
	case t.Kind() == reflect.Bool && is != "true or false":
		write = "write true or false, without quotes"
	case (t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64) && is != "a number":
		write = "write a number, without quotes"
	case (t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64) && is != "a number":
		write = "write a whole number, without quotes"
	default:
		return
	}
	s.err = events.Refuse(events.CodeBadRequest, "%s is %s: %s", cmp.Or(at, "the request"), is, write)
}

// strictFields are the fields of a struct by their names.
type strictFields map[string]*strictField

type strictField struct {
	bit      int
	typ      reflect.Type
	positive bool
}

var (
	strictTypes  sync.Map // reflect.Type of a struct: strictFields
	unmarshaler  = reflect.TypeFor[json.Unmarshaler]()
	timeType     = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[events.Duration]()
	textReader   = reflect.TypeFor[interface{ UnmarshalText([]byte) error }]()
)

// opaque reports whether a type reads its value itself.
func opaque(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(unmarshaler) || p.Implements(textReader)
}

// fieldsOf returns the fields of a struct.
func fieldsOf(t reflect.Type) strictFields {
	if f, ok := strictTypes.Load(t); ok {
		return f.(strictFields)
	}
	fields := strictFields{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && f.Anonymous || name == "-" || !f.IsExported() {
			continue // the fields of an embedded struct are visible themselves
		}
		if name == "" {
			name = f.Name
		}
		fields[name] = &strictField{len(fields), f.Type, f.Tag.Get("strict") == "positive"}
	}
	strictTypes.Store(t, fields)
	return fields
}

// value steps over a value that was read into a t, and checks it; at is its path. A nil
// t is any value.
func (s *strictReader) value(at string, t reflect.Type) {
	s.blanks()
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s.kinds && t != nil {
		if s.wrong(at, t); s.err != nil {
			return
		}
	}
	switch {
	case t != nil && opaque(t):
		s.skip()
	case s.b[s.i] == '{' && (t == nil || t.Kind() == reflect.Interface || t.Kind() == reflect.Map || t.Kind() == reflect.Struct):
		s.object(at, t)
	case s.b[s.i] == '[' && (t == nil || t.Kind() == reflect.Interface || t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
		if t != nil && t.Kind() != reflect.Interface {
			t = t.Elem()
		}
		n := 0
		for end := s.open(']'); !end && s.err == nil; end = s.more(']') {
			element := at
			if s.kinds {
				element = fmt.Sprintf("%s[%d]", at, n)
			}
			s.value(element, t)
			n++
		}
	default:
		s.skip()
	}
}

func (s *strictReader) object(at string, t reflect.Type) {
	var fields strictFields
	var elem reflect.Type
	var bits uint64
	var names map[string]bool
	switch {
	case t != nil && t.Kind() == reflect.Struct:
		fields = fieldsOf(t)
	case t != nil && t.Kind() == reflect.Map:
		elem = t.Elem()
	}
	for end := s.open('}'); !end && s.err == nil; end = s.more('}') {
		s.blanks()
		name := s.name()
		s.blanks()
		s.i++ // the colon
		s.blanks()
		f := fields[name]
		switch {
		case s.kinds: // the first that is wrong is not this
		case fields != nil && f == nil:
			s.misspelt(at, name, fields)
			return
		case f != nil && f.bit < 64 && bits&(1<<f.bit) == 0:
			bits |= 1 << f.bit
		case f == nil && !names[name]:
			if names == nil {
				names = map[string]bool{}
			}
			names[name] = true
		default:
			s.err = events.Refuse(events.CodeBadRequest, "the field %q occurs twice: give it once", path(at, name))
			return
		}
		from := s.i
		if f == nil {
			s.value(path(at, name), elem)
			continue
		}
		s.value(path(at, name), f.typ)
		if f.positive && s.err == nil && !s.kinds && isZero(s.b[from:s.i]) {
			s.err = events.Refuse(zeroCode(name), "%s is 0: give 1 or more, or leave it out", path(at, name))
		}
	}
}

// zeroCode is the code for a field that must not be 0.
func zeroCode(name string) events.Code {
	if strings.HasSuffix(name, "_ms") {
		return events.CodeBadTime
	}
	return events.CodeBadRequest
}

// misspelt refuses a name that encoding/json takes for that of a field.
func (s *strictReader) misspelt(at, name string, fields strictFields) {
	for known := range fields {
		if strings.EqualFold(known, name) {
			s.err = events.Refuse(events.CodeBadRequest, "the field %q is not known: write it as %q", path(at, events.Clip(name, 64)), known)
			return
		}
	}
	s.err = events.Refuse(events.CodeBadRequest, "the field %q is not known: check its spelling", path(at, events.Clip(name, 64)))
}

// path returns the path of a field in the value at a path.
func path(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// isZero reports whether a JSON value is the number 0.
func isZero(v []byte) bool {
	digits, _, _ := bytes.Cut(v, []byte{'e'})
	digits, _, _ = bytes.Cut(digits, []byte{'E'})
	return len(digits) > 0 && len(bytes.Trim(digits, "-0.")) == 0
}

// open steps over the start of an object or a list, and reports whether it ends at once.
func (s *strictReader) open(end byte) bool {
	s.i++
	if s.blanks(); s.b[s.i] == end {
		s.i++
		return true
	}
	return false
}

// more steps over what follows an element, and reports whether it is the end.
func (s *strictReader) more(end byte) bool {
	if s.err != nil {
		return true
	}
	s.blanks()
	s.i++
	return s.b[s.i-1] == end
}

// name reads the name of a field.
func (s *strictReader) name() string {
	from := s.i
	s.skip()
	if raw := s.b[from+1 : s.i-1]; bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	var name string
	_ = json.Unmarshal(s.b[from:s.i], &name) // it was read before
	return name
}

func (s *strictReader) blanks() {
	for s.b[s.i] == ' ' || s.b[s.i] == '\n' || s.b[s.i] == '\t' || s.b[s.i] == '\r' {
		s.i++
	}
}

// skip steps over a value.
func (s *strictReader) skip() {
	depth := 0
	for ; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case '"':
			for s.i++; s.b[s.i] != '"'; s.i++ {
				if s.b[s.i] == '\\' {
					s.i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth == 0 { // of what it stands in
				return
			}
			depth--
		case ' ', '\n', '\t', '\r', ',', ':':
			if depth == 0 {
				return
			}
			continue
		default:
			if depth > 0 || s.i+1 < len(s.b) && bytes.IndexByte([]byte(" \n\t\r,:]}"), s.b[s.i+1]) < 0 {
				continue
			}
		}
		if depth == 0 {
			s.i++
			return
		}
	}
}
