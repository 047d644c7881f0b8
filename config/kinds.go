package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
)

// kind describes how the values of a setting are written, and which are good.
type kind[T any] struct {
	name  string                 // what the documentation calls it
	parse func(v any) (T, error) // reads a value of the file
	check func(v T) error        // nil: any value is good
	show  func(v T) string       // renders a default; nil: as fmt does
}

// read returns the value of v, written as in the file. With an error it returns what
// could be read, or zero.
func (k kind[T]) read(v any) (T, error) {
	x, err := k.parse(v)
	if err == nil {
		err = k.good(x)
	}
	return x, err
}

// own is read for a value that a program has set, which may also be of type T.
func (k kind[T]) own(v any) (T, error) {
	if x, ok := v.(T); ok {
		return x, k.good(x)
	}
	return k.read(v)
}

func (k kind[T]) good(v T) error {
	if k.check == nil {
		return nil
	}
	return k.check(v)
}

// text renders a default, empty for a list or table.
func (k kind[T]) text(v T) string {
	r := reflect.ValueOf(v)
	switch {
	case k.show != nil:
		return k.show(v)
	case r.Kind() == reflect.Slice || r.Kind() == reflect.Map || r.Kind() == reflect.Struct:
		return ""
	}
	return fmt.Sprint(v)
}

// that returns k with a check of its own.
func (k kind[T]) that(check func(T) error) kind[T] {
	k.check = check
	return k
}

// orZero returns k with zero as a good value.
func (k kind[T]) orZero() kind[T] {
	check := k.check
	return k.that(func(v T) error {
		if reflect.ValueOf(v).IsZero() {
			return nil
		}
		return check(v)
	})
}

func between[T int | int64 | float64 | time.Duration](v, lo, hi T) error {
	return within(v, lo, hi, func(v T) string {
		if d, ok := any(v).(time.Duration); ok {
			return FormatDuration(d)
		}
		return fmt.Sprint(v)
	})
}

func within[T int | int64 | float64 | time.Duration](v, lo, hi T, show func(T) string) error {
	if !(v >= lo && v <= hi) { // not a number is outside
		return fmt.Errorf("is %s: it must be %s to %s", show(v), show(lo), show(hi))
	}
	return nil
}

var text = kind[string]{name: "string", parse: func(v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("is %s: it must be a string, in quotes", show(v))
	}
	return s, nil
}}

// choice is one of some words.
func choice[T ~string](of ...T) kind[T] {
	parse := func(v any) (T, error) {
		s, ok := v.(string)
		if !ok || !slices.Contains(of, T(s)) {
			return "", fmt.Errorf("is %s: it must be %s", show(v), oneOf(of))
		}
		return T(s), nil
	}
	return kind[T]{name: "string", parse: parse, check: func(v T) error { _, err := parse(string(v)); return err }}
}

func oneOf[T ~string](of []T) string {
	q := make([]string, len(of))
	for i, o := range of {
		q[i] = strconv.Quote(string(o))
	}
	return strings.Join(q[:len(q)-1], ", ") + " or " + q[len(q)-1]
}

var truth = kind[bool]{name: "boolean", parse: func(v any) (bool, error) {
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("is %s: it must be true or false", show(v))
	}
	return b, nil
}}

// unless is a truth that is kept inverted: the zero value is true.
var unless = kind[bool]{name: "boolean",
	parse: func(v any) (bool, error) { b, err := truth.parse(v); return !b, err },
	show:  func(v bool) string { return strconv.FormatBool(!v) },
}

// integer is a whole number from lo to hi.
func integer[T ~int | ~int64 | ~uint8 | ~uint32](lo, hi int64) kind[T] {
	return kind[T]{name: "integer", parse: func(v any) (T, error) {
		n, ok := v.(int64)
		if i, isInt := v.(int); isInt {
			n, ok = int64(i), true
		}
		if !ok {
			return 0, fmt.Errorf("is %s: it must be a whole number", show(v))
		}
		if err := between(n, lo, hi); err != nil { // as T it might be another number
			return 0, err
		}
		return T(n), nil
	}, check: func(v T) error { return between(int64(v), lo, hi) }}
}

// whole is an integer that something else checks.
func whole[T ~int | ~int64]() kind[T] { return integer[T](math.MinInt, math.MaxInt) }

// number is a number from lo to hi.
func number(lo, hi float64) kind[float64] {
	return kind[float64]{name: "number", parse: func(v any) (float64, error) {
		switch n := v.(type) {
		case float64:
			return n, nil
		case int64:
			return float64(n), nil
		case int:
			return float64(n), nil
		}
		return 0, fmt.Errorf("is %s: it must be a number", show(v))
	}, check: func(v float64) error { return between(v, lo, hi) }}
}

// span is a duration from lo to hi.
func span(lo, hi time.Duration) kind[time.Duration] {
	return kind[time.Duration]{name: "duration", parse: duration, show: FormatDuration,
		check: func(v time.Duration) error { return between(v, lo, hi) }}
}

// spanOrOff is a span that may be "off", or 0s, which is kept as -1.
func spanOrOff(lo, hi time.Duration) kind[time.Duration] {
	k := span(lo, hi)
	parse, check := k.parse, k.check
	k.parse = func(v any) (time.Duration, error) {
		if v == Off {
			return -1, nil
		}
		d, err := parse(v)
		if err == nil && d == 0 {
			return -1, nil
		}
		return d, err
	}
	return k.that(func(v time.Duration) error {
		if v == -1 {
			return nil
		}
		return check(v)
	})
}

// millis is a span in whole milliseconds.
func millis(lo, hi time.Duration) kind[events.Duration] {
	return kind[events.Duration]{name: "duration",
		parse: func(v any) (events.Duration, error) {
			d, err := duration(v)
			return events.DurationOf(d), err
		},
		check: func(d events.Duration) error { return between(d.Duration, lo, hi) },
		show:  func(d events.Duration) string { return FormatDuration(d.Duration) },
	}
}

// ofMillis renders milliseconds, even more than a duration holds.
func ofMillis(ms int64) string {
	if ms < -maxMS || ms > maxMS {
		return strconv.FormatInt(ms, 10) + "ms"
	}
	return FormatDuration(time.Duration(ms) * time.Millisecond)
}

// maxMS is the maximum of milliseconds in a duration.
const maxMS = math.MaxInt64 / int64(time.Millisecond)

// duration reads a duration with its unit; a program may set a [time.Duration].
func duration(v any) (time.Duration, error) {
	text, ok := v.(string)
	if d, isOwn := v.(time.Duration); isOwn {
		if text, ok = d.String(), true; d%time.Millisecond == 0 {
			return d, nil
		}
	}
	if !ok {
		return 0, fmt.Errorf("is %s: it must be %s", show(v), durationHint)
	}
	d, err := ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("is %s: it must be %s", show(v), strings.TrimPrefix(err.Error(), "use "))
	}
	return d, nil
}

// size is a number of bytes from lo to hi.
func size[T ~int | ~int64](lo, hi int64) kind[T] {
	return kind[T]{name: "size", parse: func(v any) (T, error) {
		text, _ := v.(string)
		n, err := ParseSize(text)
		if err != nil || int64(T(n)) != n {
			return 0, fmt.Errorf("is %s: it must be %s", show(v), sizeHint)
		}
		return T(n), nil
	}, check: func(v T) error { return within(int64(v), lo, hi, FormatSize) }, show: func(v T) string { return FormatSize(int64(v)) }}
}

var texts = kind[[]string]{name: "strings", parse: func(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("is %s: it must be a list of strings, such as [\"cmd\", \"arg\"]", show(v))
	}
	out := make([]string, len(list))
	for i, e := range list {
		if out[i], ok = e.(string); !ok {
			return nil, fmt.Errorf("has %s as its element %d: all must be strings", show(e), i+1)
		}
	}
	return out, nil
}}

// atMost is the kind of lists of at most n texts, each of which passes each.
func atMost(n int, each func(string) error) kind[[]string] {
	return texts.that(func(list []string) error {
		if len(list) > n {
			return fmt.Errorf("has %d elements: at most %d", len(list), n)
		}
		for _, s := range list {
			if err := each(s); err != nil {
				return err
			}
		}
		return nil
	})
}

// roles is a list of roles in namespaces.
var roles = kind[access.Memberships]{name: "strings", parse: func(v any) (access.Memberships, error) {
	list, err := texts.parse(v)
	if err != nil {
		return access.Memberships{}, err
	}
	m, err := access.ParseMemberships(list)
	if err != nil {
		return access.Memberships{}, fmt.Errorf("is wrong: %w", err)
	}
	return m, nil
}}

// namespaceList is a list of namespaces.
var namespaceList = kind[events.NamespaceList]{name: "strings", parse: func(v any) (events.NamespaceList, error) {
	list, err := texts.parse(v)
	if err != nil {
		return "", err
	}
	names := make([]events.Namespace, len(list))
	for i, s := range list {
		if names[i], err = events.ParseNamespace(s); err != nil {
			return "", fmt.Errorf("is wrong: %w", err)
		}
	}
	return events.ListNamespaces(names...), nil
}}

// oneNamespace is the name of a namespace.
var oneNamespace = kind[events.Namespace]{name: "string", parse: func(v any) (events.Namespace, error) {
	s, err := text.parse(v)
	if err != nil {
		return "", err
	}
	name, err := events.ParseNamespace(s)
	if err != nil {
		return "", fmt.Errorf("is wrong: %w", err)
	}
	return name, nil
}}

// rolesInDefault is a list of roles in the namespace default.
var rolesInDefault = kind[access.Roles]{name: "strings", parse: func(v any) (access.Roles, error) {
	m, err := roles.parse(v)
	if err != nil {
		return 0, err
	}
	set := m.In(events.DefaultNamespace)
	if m != access.InDefault(set) {
		return 0, fmt.Errorf("is %q: a site has roles in the namespace default alone, such as submit", m)
	}
	return set, nil
}}

// moment is a time with its offset.
var moment = kind[time.Time]{name: "time", parse: func(v any) (time.Time, error) {
	switch t := v.(type) {
	case time.Time:
		return t, nil
	case string:
		if at, err := time.Parse(time.RFC3339, t); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("is %s: it must be a time with its offset, such as 2030-01-31T08:00:00Z", show(v))
}}

// document is any JSON: as TOML, or in a string.
var document = kind[json.RawMessage]{name: "table or string", parse: func(v any) (json.RawMessage, error) {
	if s, ok := v.(string); ok {
		if !json.Valid([]byte(s)) {
			return nil, fmt.Errorf("is %s: it must be a JSON document; a text needs its own quotes: '\"text\"'", show(v))
		}
		return json.RawMessage(s), nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("can't be written as JSON: %v", err)
	}
	return data, nil
}}

// stringTable is a table of strings.
var stringTable = kind[map[string]string]{name: "table", parse: func(v any) (map[string]string, error) {
	t, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("is %s: it must be a table, such as { team = \"billing\" }", show(v))
	}
	out := make(map[string]string, len(t))
	for _, k := range slices.Sorted(maps.Keys(t)) {
		if out[k], ok = t[k].(string); !ok {
			return nil, fmt.Errorf("has %s = %s: it must be a string, in quotes", k, show(t[k]))
		}
	}
	return out, nil
}}

// tables is the kind of lists of tables, each with the same settings. An empty list
// parses as nil.
func tables[T any](fields func(*T) []field) kind[[]T] {
	return kind[[]T]{name: "tables", parse: func(v any) ([]T, error) {
		list, ok := v.([]any)
		if !ok {
			return nil, fmt.Errorf("is %s: it must be a list of tables, such as [{ … }, { … }]", show(v))
		}
		var out []T
		var errs []error
		for i, e := range list {
			t, ok := e.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("has %s as its element %d: all must be tables", show(e), i+1)
			}
			out = append(out, *new(T))
			errs = append(errs, fill(i, t, fields(&out[i]))...)
		}
		return out, errors.Join(errs...)
	}}
}

// fill reads the i-th table of a list.
func fill(i int, t map[string]any, fields []field) (errs []error) {
	for _, key := range slices.Sorted(maps.Keys(t)) {
		at := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		if at < 0 {
			errs = append(errs, &elementError{i, key, fmt.Sprintf("has %s in its element %d, which %s", key, i+1, unknown(key, t[key], fields))})
			continue
		}
		if err := fields[at].set(t[key]); err != nil {
			errs = append(errs, &elementError{i, key, fmt.Sprintf("has an element %d whose %s %v", i+1, key, err)})
		}
	}
	return errs
}

// elementError is a fault of one element of a list of tables.
type elementError struct {
	index int    // from 0
	key   string // in it; empty: the element as a whole
	text  string
}

func (e *elementError) Error() string { return e.text }

// show renders a value of the file for an error text.
func show(v any) string {
	switch t := v.(type) {
	case string:
		if len(t) > 64 {
			t = t[:64] + "…"
		}
		return strconv.Quote(t)
	case map[string]any:
		return "a table"
	case []any:
		return "a list"
	}
	return fmt.Sprint(v)
}
