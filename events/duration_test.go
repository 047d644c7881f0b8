package events_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

func TestDurationIsMillisecondsInJSON(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1: "1", time.Millisecond: "1", time.Millisecond + 1: "2", time.Minute: "60000",
		-1: "0", -time.Millisecond: "-1", -time.Millisecond - 1: "-1",
		math.MaxInt64: "9223372036854", math.MinInt64: "-9223372036854",
	} {
		got, err := json.Marshal(events.Duration{Duration: d})
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", d, got, err, want)
		}
		var back events.Duration
		if err := json.Unmarshal(got, &back); err != nil || back != events.DurationOf(d) {
			t.Errorf("%s: read again as %s, %v", got, back, err)
		}
	}
}

func TestDurationRefuses(t *testing.T) {
	for _, doc := range []string{"9223372036855", "-9223372036855", "9223372036854775807"} {
		d := events.Millis(5)
		if err := json.Unmarshal([]byte(doc), &d); events.CodeOf(err) != events.CodeBadTime || d != events.Millis(5) {
			t.Errorf("%s: got %s, %v", doc, d, err)
		}
	}
	for _, doc := range []string{`"1s"`, "1.5", "1e3", "true", "{}", "9223372036854775808"} {
		var kind *json.UnmarshalTypeError
		var x struct{ T events.Duration }
		if err := json.Unmarshal([]byte(`{"T":`+doc+`}`), &x); !errors.As(err, &kind) || kind.Field != "T" {
			t.Errorf("%s: got %v", doc, err)
		}
	}
	d := events.Millis(5)
	if err := json.Unmarshal([]byte("null"), &d); err != nil || d != events.Millis(5) {
		t.Errorf("null: got %s, %v", d, err)
	}
}

func TestMillisIsBounded(t *testing.T) {
	if d := events.Millis(math.MaxInt64); d.Milliseconds() != math.MaxInt64/int64(time.Millisecond) {
		t.Errorf("got %s", d)
	}
	if d := events.Millis(math.MinInt64); d.Duration >= 0 {
		t.Errorf("got %s", d)
	}
}
