package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

func text(key string, dst *string, def, doc string) field {
	return field{key: key, kind: "string", def: def, doc: doc, get: getter(dst), set: func(v any) error {
		s, ok := v.(string)
		if !ok {
			return fmt.Errorf("is %s: it must be a string, in quotes", show(v))
		}
		*dst = s
		return nil
	}}
}

func choice[T ~string](key string, dst *T, def, doc string, of ...T) field {
	return field{key: key, kind: "string", def: def, doc: doc, get: getter(dst), set: func(v any) error {
		for _, o := range of {
			if v == string(o) {
				*dst = o
				return nil
			}
		}
		return fmt.Errorf("is %s: it must be %s", show(v), oneOf(of))
	}}
}

func oneOf[T ~string](of []T) string {
	q := make([]string, len(of))
	for i, o := range of {
		q[i] = strconv.Quote(string(o))
	}
	return strings.Join(q[:len(q)-1], ", ") + " or " + q[len(q)-1]
}

// boolean is a key whose false sets *unless.
func boolean(key string, unless *bool, def, doc string) field {
	return field{key: key, kind: "boolean", def: def, doc: doc, get: getter(unless), set: func(v any) error {
		b, ok := v.(bool)
		if !ok {
			return fmt.Errorf("is %s: it must be true or false", show(v))
		}
		*unless = !b
		return nil
	}}
}

func integer[T ~int | ~int64](key string, dst *T, def, doc string) field {
	return field{key: key, kind: "integer", def: def, doc: doc, get: getter(dst), set: func(v any) error {
		n, ok := v.(int64)
		if !ok || int64(T(n)) != n {
			return fmt.Errorf("is %s: it must be a whole number", show(v))
		}
		*dst = T(n)
		return nil
	}}
}

func float(key string, dst *float64, def, doc string) field {
	return field{key: key, kind: "number", def: def, doc: doc, get: getter(dst), set: func(v any) error {
		switch n := v.(type) {
		case float64:
			*dst = n
		case int64:
			*dst = float64(n)
		default:
			return fmt.Errorf("is %s: it must be a number", show(v))
		}
		return nil
	}}
}

func duration(key string, dst *time.Duration, def, doc string) field {
	return field{key: key, kind: "duration", def: def, doc: doc, get: getter(dst), set: func(v any) error {
		d, ok := parseDuration(v)
		if !ok {
			return fmt.Errorf("is %s: it must be a duration in quotes, such as \"30s\" or \"1h30m\", or a whole number of milliseconds", show(v))
		}
		if d%time.Millisecond != 0 {
			return fmt.Errorf("is %s: it must be whole milliseconds", show(v))
		}
		*dst = d
		return nil
	}}
}

// maxMS is the most milliseconds that a duration holds.
const maxMS = math.MaxInt64 / int64(time.Millisecond)

// parseDuration reads a duration with its unit, or a number of milliseconds.
func parseDuration(v any) (time.Duration, bool) {
	if ms, ok := v.(int64); ok {
		return time.Duration(ms) * time.Millisecond, ms >= -maxMS && ms <= maxMS
	}
	s, _ := v.(string)
	d, err := time.ParseDuration(s)
	return d, err == nil
}

// orOff lets a duration be "off", or 0s, which is negative in the value.
func orOff(f field, dst *time.Duration) field {
	set := f.set
	f.set = func(v any) error {
		if v == Off {
			*dst = -1
			return nil
		}
		err := set(v)
		if err == nil && *dst == 0 {
			*dst = -1
		}
		return err
	}
	return f
}

var sizeUnits = []struct {
	suffix string
	shift  uint
}{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}, {"B", 0}}

func size(key string, dst *int64, def, doc string) field {
	return field{key: key, kind: "size", def: def, doc: doc, get: getter(dst), set: func(v any) error {
		n, ok := parseSize(v)
		if !ok {
			return fmt.Errorf("is %s: it must be a number of bytes, or a size in quotes such as \"256KiB\", \"8MiB\", \"2GiB\"", show(v))
		}
		*dst = n
		return nil
	}}
}

func parseSize(v any) (int64, bool) {
	if n, ok := v.(int64); ok {
		return n, true
	}
	s, _ := v.(string)
	for _, u := range sizeUnits {
		num, found := strings.CutSuffix(s, u.suffix)
		if !found {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(num), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64>>u.shift {
			return 0, false
		}
		return n << u.shift, true
	}
	return 0, false
}

func texts(key string, dst *[]string, def, doc string) field {
	return field{key: key, kind: "strings", def: def, doc: doc, get: getter(dst), set: func(v any) error {
		list, ok := v.([]any)
		if !ok {
			return fmt.Errorf("is %s: it must be a list of strings, such as [\"cmd\", \"arg\"]", show(v))
		}
		out := make([]string, len(list))
		for i, e := range list {
			if out[i], ok = e.(string); !ok {
				return fmt.Errorf("has %s as its element %d: all must be strings", show(e), i+1)
			}
		}
		*dst = out
		return nil
	}}
}

// optional makes of a kind of field one whose absence can be told: *dst stays
// nil.
func optional[T any](key string, kind func(string, *T, string, string) field, dst **T, def, doc string) field {
	v := new(T)
	f := kind(key, v, def, doc)
	f.get = getter(dst) // a pointer: what it points to counts
	set := f.set
	f.set = func(in any) error {
		if err := set(in); err != nil {
			return err
		}
		*dst = v
		return nil
	}
	return f
}

// getter reads what a key has set.
func getter[T any](dst *T) func() any { return func() any { return *dst } }

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
