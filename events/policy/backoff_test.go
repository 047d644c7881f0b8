package policy

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

func TestATimeoutGrowsUpToItsBound(t *testing.T) {
	p := events.CodePolicy{TimeoutFactor: 1.5}
	for now, want := range map[time.Duration]time.Duration{time.Minute: 90 * time.Second, 50 * time.Minute: time.Hour, 2 * time.Hour: 2 * time.Hour, time.Millisecond: time.Millisecond} {
		if got := growTimeout(p, now); got != want {
			t.Errorf("%s grows to %s, want %s", now, got, want)
		}
	}
}

func TestBackoffIsAlwaysANumber(t *testing.T) {
	for _, b := range []events.Backoff{{Factor: 100, Max: events.Millis(1000), Jitter: 1}, {Initial: events.Millis(1), Factor: 100, Max: events.Millis(86_400_000), Jitter: 1}, {Initial: events.Millis(1), Factor: 1, Max: events.Millis(1)}} {
		for after := range events.Attempt(events.MaxAttemptsCeiling) {
			if d, most := Delay(b, after, ^uint64(0)), 2*time.Duration(b.Max.Milliseconds())*time.Millisecond; d < 0 || d > most {
				t.Fatalf("%+v after attempt %d: %s", b, after, d)
			}
		}
	}
}
