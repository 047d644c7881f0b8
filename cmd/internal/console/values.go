package console

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
)

// The functions below decode the values of flags: each returns what
// [pflag.FlagSet.Func] calls with a value. It sets dst, to zero for an empty
// value, or returns an error that says what to write instead.

// Value decodes with parse. If parse fails, its error says what to write.
func Value[T any](dst *T, parse func(string) (T, error)) func(string) error {
	return func(s string) error {
		var v T
		var err error
		if s != "" {
			v, err = parse(s)
		}
		if err == nil {
			*dst = v
		}
		return err
	}
}

// parsed decodes with a parser of package events.
func parsed[T any](dst *T, parse func(string) (T, error)) func(string) error {
	return Value(dst, func(s string) (T, error) {
		v, err := parse(s)
		if err != nil { // "what is wrong: what to do"
			err = errors.New(err.Error()[strings.LastIndex(err.Error(), ": ")+2:])
		}
		return v, err
	})
}

// Positive decodes a whole number above 0.
func Positive(dst *int) func(string) error {
	return Value(dst, func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			err = errors.New("use a whole number, 1 or more")
		}
		return n, err
	})
}

// Duration decodes a duration above 0.
func Duration(dst *time.Duration) func(string) error {
	return Value(dst, func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			err = errors.New("use a duration above 0, such as 500ms, 90s, 5m or 1h30m")
		}
		return d, err
	})
}

// Time decodes a time in RFC 3339.
func Time(dst *time.Time) func(string) error {
	return Value(dst, func(s string) (time.Time, error) {
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			err = errors.New("use a time such as 2030-01-31T08:00:00Z")
		}
		return t, err
	})
}

// Moment decodes a time, or how long ago it was.
func Moment(dst *time.Time) func(string) error { return Value(dst, ParseMoment) }

// ParseMoment reads a time, or how long ago it was.
func ParseMoment(s string) (time.Time, error) {
	if ago, err := time.ParseDuration(s); err == nil && ago >= 0 {
		return time.Now().Add(-ago), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		err = errors.New("use 10m (ago), 2h or a time such as 2030-01-31T08:00:00Z")
	}
	return t, err
}

// Priority decodes a priority: a number, or low, medium or high.
func Priority(dst *int) func(string) error {
	return parsed(dst, func(s string) (int, error) {
		p, err := events.ParsePriority(s)
		return streamwright.PriorityOf(int(p)), err
	})
}

// State decodes the name of an item's state.
func State(dst *string) func(string) error {
	return parsed(dst, func(s string) (string, error) {
		_, err := events.ParseItemState(s)
		return s, err
	})
}

// ID decodes the id of an item.
func ID(dst *string) func(string) error {
	return Value(dst, func(s string) (string, error) {
		_, err := events.ParseID(s)
		if err != nil {
			err = errors.New("use a work id, a ULID such as 01JD3V6YB2M4C9W8ZK5T7QXRNE")
		}
		return s, err
	})
}

// IDs collects the ids of items, from repeated flags or between commas.
func IDs(dst *[]string) func(string) error {
	return func(s string) error { return collect(dst, s, ID) }
}

// WorkerID decodes the id of a worker.
func WorkerID(dst *events.WorkerID) func(string) error { return parsed(dst, events.ParseWorkerID) }

// Choice decodes one of some words.
func Choice[T ~string](dst *T, of ...T) func(string) error {
	return Value(dst, func(s string) (T, error) {
		if !slices.Contains(of, T(s)) {
			return "", fmt.Errorf("use %s", oneOf(of))
		}
		return T(s), nil
	})
}

// Choices collects some of the words, from repeated flags or between commas.
func Choices[T ~string](dst *[]T, of ...T) func(string) error {
	return func(s string) error {
		return collect(dst, s, func(v *T) func(string) error { return Choice(v, of...) })
	}
}

// collect decodes values between commas.
func collect[T any](dst *[]T, s string, one func(*T) func(string) error) error {
	if s == "" { // such as an unset variable of a script: none
		return nil
	}
	for part := range strings.SplitSeq(s, ",") {
		var v T
		if err := one(&v)(part); err != nil {
			return err
		}
		*dst = append(*dst, v)
	}
	return nil
}

// oneOf lists words to choose from: "a, b or c".
func oneOf[T ~string](of []T) string {
	words := make([]string, len(of))
	for i, word := range of {
		words[i] = string(word)
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Pairs collects values under their names, from flags of the form NAME=VALUE. In
// an error the form is written as here.
func Pairs(dst *map[string]string, form string) func(string) error {
	return func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return fmt.Errorf("use %s", form)
		}
		if *dst == nil {
			*dst = map[string]string{}
		}
		(*dst)[name] = value
		return nil
	}
}

// Pair decodes name=value, which stays as it is.
func Pair(dst *string) func(string) error {
	return Value(dst, func(s string) (string, error) {
		if !strings.Contains(s, "=") {
			return "", errors.New("use key=value")
		}
		return s, nil
	})
}
