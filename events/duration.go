package events

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/streamwright/streamwright/events/quickjson"
)

// Duration is a [time.Duration] that JSON has in whole milliseconds, rounded up: a
// positive one never becomes 0.
type Duration struct{ time.Duration }

// Millis returns a Duration of n milliseconds, or the longest that there is.
func Millis(n int64) Duration {
	return Duration{time.Duration(min(max(n, -quickjson.MaxMillis), quickjson.MaxMillis)) * time.Millisecond}
}

// DurationOf returns d rounded up to whole milliseconds.
func DurationOf(d time.Duration) Duration { return Millis(Duration{d}.Milliseconds()) }

// Milliseconds returns d as JSON has it: unlike [time.Duration.Milliseconds], rounded up.
func (d Duration) Milliseconds() int64 {
	ms := d.Duration.Milliseconds()
	if d.Duration > time.Duration(ms)*time.Millisecond && ms < quickjson.MaxMillis {
		ms++
	}
	return ms
}

// IsZero reports whether d is 0.
func (d Duration) IsZero() bool { return d == Duration{} }

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, d.Milliseconds(), 10), nil
}

// UnmarshalJSON implements json.Unmarshaler. A number beyond the longest Duration is
// CodeBadTime; for what is no whole number the error is that of encoding/json.
func (d *Duration) UnmarshalJSON(data []byte) error {
	ms := d.Milliseconds() // null leaves it
	if err := json.Unmarshal(data, &ms); err != nil {
		return err
	}
	if ms < -quickjson.MaxMillis || ms > quickjson.MaxMillis {
		return Refuse(CodeBadTime, "a duration of %d ms is too long: give at most 292 years", ms)
	}
	*d = Millis(ms)
	return nil
}
