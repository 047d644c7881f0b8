package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a machine may have none
)

// MaxLen bounds an expression, and a zone's name, in bytes.
const MaxLen = 256

// EveryPrefix begins the expression of an interval, such as "@every 5m".
const EveryPrefix = "@every "

// spec is a parsed expression: a bit for each value that matches.
type spec struct {
	minute, hour, dom, month, dow uint64
	anyDOM, anyDOW                bool
	loc                           *time.Location
}

type fieldSpec struct {
	name   string
	lo, hi int
	names  []string // of the values from lo on
}

var fieldSpecs = [5]fieldSpec{
	{name: "minute", lo: 0, hi: 59},
	{name: "hour", lo: 0, hi: 23},
	{name: "day of the month", lo: 1, hi: 31},
	{name: "month", lo: 1, hi: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of the week", lo: 0, hi: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

var words = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

// parse reads an expression. Its errors name the field.
func parse(expr string, loc *time.Location) (*spec, error) {
	if len(expr) > MaxLen {
		return nil, fmt.Errorf("the expression has %d bytes: at most %d", len(expr), MaxLen)
	}
	full := strings.TrimSpace(expr)
	if strings.HasPrefix(full, "@") {
		w, ok := words[strings.ToLower(full)]
		if !ok {
			return nil, fmt.Errorf("%q is no word for a time: use @hourly, @daily, @weekly, @monthly, @yearly, or @every with a duration such as 5m", full)
		}
		full = w
	}
	if strings.HasPrefix(full, "TZ=") || strings.HasPrefix(full, "CRON_TZ=") {
		return nil, fmt.Errorf("%q has a time zone in it: give that as the zone", full)
	}
	parts := strings.Fields(full)
	if len(parts) != len(fieldSpecs) {
		why := ""
		if len(parts) == len(fieldSpecs)+1 {
			why = " (there is none for seconds: use an interval)"
		}
		return nil, fmt.Errorf("%q has %s: it must have 5, minute hour day-of-month month day-of-week%s", full, count(len(parts)), why)
	}
	s := &spec{loc: loc, anyDOM: isAny(parts[2]), anyDOW: isAny(parts[4])}
	for i, to := range []*uint64{&s.minute, &s.hour, &s.dom, &s.month, &s.dow} {
		set, err := fieldSpecs[i].parse(parts[i])
		if err != nil {
			return nil, fmt.Errorf("the field %s, %q: %w", fieldSpecs[i].name, parts[i], err)
		}
		*to = set
	}
	if s.dow&(1<<7) != 0 {
		s.dow |= 1
	}
	return s, nil
}

func isAny(field string) bool { return field == "*" || field == "?" }

// parse reads a field: a list of terms.
func (f fieldSpec) parse(text string) (set uint64, err error) {
	for _, term := range strings.Split(text, ",") {
		bits, err := f.term(term)
		if err != nil {
			return 0, err
		}
		set |= bits
	}
	return set, nil
}

// term reads "*", "7", "1-5", and each of them with "/2" behind it. A step
// behind a single value goes from there to the end, as in other crons.
func (f fieldSpec) term(term string) (set uint64, err error) {
	from, stepText, stepped := strings.Cut(term, "/")
	step := 1
	if stepped {
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 || step > f.hi-f.lo+1 {
			return 0, fmt.Errorf("the step %q must be 1 to %d", stepText, f.hi-f.lo+1)
		}
	}
	lo, hi := f.lo, f.hi
	if f.hi == 7 {
		hi = 6 // 7 is only another name of 0
	}
	if !isAny(from) {
		first, last, ranged := strings.Cut(from, "-")
		if lo, err = f.value(first); err != nil {
			return 0, err
		}
		switch {
		case ranged:
			if hi, err = f.value(last); err != nil {
				return 0, err
			}
		case !stepped:
			hi = lo
		}
	}
	if lo > hi {
		return 0, fmt.Errorf("the range %s goes backwards: write it as two, such as 22-23,0-4", from)
	}
	for v := lo; v <= hi; v += step {
		set |= 1 << v
	}
	return set, nil
}

func (f fieldSpec) value(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.lo + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || text[0] == '+' || text[0] == '-' {
		if f.names != nil {
			return 0, fmt.Errorf("%q is no value: use %d to %d, or %s and so on", text, f.lo, f.hi, f.names[0])
		}
		return 0, fmt.Errorf("%q is no value: use %d to %d", text, f.lo, f.hi)
	}
	if n < f.lo || n > f.hi {
		return 0, fmt.Errorf("%d is outside %d to %d", n, f.lo, f.hi)
	}
	return n, nil
}

// everyHour reports whether the expression goes by real time.
func (s *spec) everyHour() bool { return bits.OnesCount64(s.hour) == 24 }

// day reports whether a day matches.
func (s *spec) day(t time.Time) bool {
	dom, dow := s.dom&(1<<t.Day()) != 0, s.dow&(1<<int(t.Weekday())) != 0
	if s.anyDOM || s.anyDOW {
		return dom && dow
	}
	return dom || dow
}

// Zone finds a time zone by its IANA name, such as Europe/Berlin; the empty
// name is UTC. "Local" is refused: it would be another zone on another machine.
func Zone(name string) (*time.Location, error) {
	if len(name) > MaxLen {
		return nil, fmt.Errorf("the zone's name has %d bytes: at most %d", len(name), MaxLen)
	}
	loc, err := time.LoadLocation(name)
	if err != nil || strings.EqualFold(name, "local") {
		return nil, fmt.Errorf("%q is no time zone: use an IANA name such as Europe/Berlin, or UTC", name)
	}
	return loc, nil
}

// ParseEvery reads "@every 5m"; ok is false if the expression is no interval.
func ParseEvery(expr string) (every time.Duration, ok bool, err error) {
	text, ok := strings.CutPrefix(strings.TrimSpace(expr), EveryPrefix)
	if !ok {
		return 0, false, nil
	}
	every, err = time.ParseDuration(strings.TrimSpace(text))
	if err != nil {
		return 0, true, fmt.Errorf("%q is no duration: write it as 90s, 5m or 1h30m", text)
	}
	return every, true, nil
}

func count(fields int) string {
	if fields == 1 {
		return "1 field"
	}
	return fmt.Sprintf("%d fields", fields)
}
