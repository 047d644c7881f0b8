package config

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Durations and sizes as people write them: in engine.toml, on the command line, and
// in errors.

const (
	durationHint = `a duration such as "30s", "1h30m" or "7d"`
	sizeHint     = `a size such as "512B", "256KiB", "8MiB" or "2GiB"`
)

var daysPattern = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([dy])(.*)$`)

// hoursOf are the hours of the units that [time.ParseDuration] doesn't know.
var hoursOf = map[string]time.Duration{"d": 24, "y": 365 * 24}

// ParseDuration reads a duration as [time.ParseDuration] does, which may begin with
// days, or years of 365 days: "7d", "1d12h", "5y". It must have a unit, and be a whole
// number of milliseconds.
func ParseDuration(text string) (time.Duration, error) {
	var days time.Duration
	rest := text
	if m := daysPattern.FindStringSubmatch(text); m != nil && !strings.HasPrefix(m[3], "-") && !strings.HasPrefix(m[3], "+") {
		hours, err := time.ParseDuration(m[1] + "h")
		if err != nil || hours > math.MaxInt64/hoursOf[m[2]] {
			return 0, errors.New("use " + durationHint)
		}
		days, rest = hoursOf[m[2]]*hours, m[3]
	}
	d := days
	if days == 0 || rest != "" {
		more, err := time.ParseDuration(rest)
		if err != nil || text == "0" || more > math.MaxInt64-days {
			return 0, errors.New("use " + durationHint)
		}
		d += more
	}
	if d%time.Millisecond != 0 {
		return 0, errors.New("use whole milliseconds")
	}
	return d, nil
}

// FormatDuration renders a duration as [ParseDuration] reads it, without units that
// are zero.
func FormatDuration(d time.Duration) string {
	if d < 0 {
		return "-" + FormatDuration(-d)
	}
	days := ""
	if n := d / day; n > 0 {
		days, d = strconv.FormatInt(int64(n), 10)+"d", d%day
		if d == 0 {
			return days
		}
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return days + s
}

var sizeUnits = []struct {
	suffix string
	shift  uint
}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"B", 0}}

// ParseSize reads a number of bytes with its unit: "256KiB", "2GiB", "512B".
func ParseSize(text string) (int64, error) {
	for _, u := range sizeUnits {
		num, found := strings.CutSuffix(text, u.suffix)
		if !found {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(num), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64>>u.shift {
			break
		}
		return n << u.shift, nil
	}
	return 0, errors.New("use " + sizeHint)
}

// FormatSize renders a number of bytes as [ParseSize] reads it.
func FormatSize(n int64) string {
	for _, u := range sizeUnits {
		if n != 0 && n%(1<<u.shift) == 0 {
			return strconv.FormatInt(n>>u.shift, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// unitOf returns the end of the JSON name of a setting of some kind.
func unitOf(kind string) string {
	switch kind {
	case "duration":
		return "_ms"
	case "size":
		return "_bytes"
	}
	return ""
}

var (
	apiFault  = regexp.MustCompile(`[a-z0-9_.]+_(ms|bytes)\b is -?[0-9]`)
	apiName   = regexp.MustCompile(`\b([a-z0-9_.]+)_(?:ms|bytes)\b`)
	apiNumber = regexp.MustCompile(`(^|[\s(])(-?[0-9]+)\b`)
)

// Spell rewrites an error of the API about settings, "lease_ms is 5: it must be 1000
// to 3600000", in the spelling of engine.toml: "lease is 5ms: it must be 1s to 1h".
func Spell(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		at := apiFault.FindStringSubmatchIndex(line)
		if at == nil {
			continue
		}
		render := func(n int64) string { return FormatDuration(time.Duration(n) * time.Millisecond) }
		if line[at[2]:at[3]] == "bytes" {
			render = FormatSize
		}
		fault := apiNumber.ReplaceAllStringFunc(apiName.ReplaceAllString(line[at[0]:], "$1"), func(s string) string {
			digits := strings.TrimLeft(s, " \t(")
			n, err := strconv.ParseInt(digits, 10, 64)
			if err != nil || n < -maxMS || n > maxMS {
				return s
			}
			return strings.TrimSuffix(s, digits) + render(n)
		})
		lines[i] = line[:at[0]] + fault
	}
	return strings.Join(lines, "\n")
}
