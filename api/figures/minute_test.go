package figures

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

func batch(at time.Time, bodies ...events.Body) *core.Changes {
	c := &core.Changes{Meta: events.Meta{LastAt: at}}
	for _, b := range bodies {
		c.History = append(c.History, events.Event{Type: "email", At: at, Body: b})
	}
	return c
}

func TestMinute(t *testing.T) {
	f, now := newRig(), start
	f.Begin(now.Add(-time.Hour))
	f.Feed(batch(now.Add(-2*time.Minute), &events.Created{}, &events.Completed{Duration: events.Millis(9000)}))
	for i := range 60 {
		f.Feed(batch(now.Add(time.Duration(i-59)*time.Second), &events.Created{}, &events.Queued{}))
	}
	f.Feed(batch(now, &events.Completed{Duration: events.Millis(200)}, &events.Completed{Duration: events.Millis(400)}, &events.Failed{Duration: events.Millis(900)}, &events.Released{}, &events.Snoozed{}, &events.Replayed{}, &events.Dead{}))
	want := Tally{Submitted: 60, Arrived: 63, Completed: 2, Failed: 1, Dead: 1, RunTime: 600 * time.Millisecond, AllRunTime: 1500 * time.Millisecond}
	if got := f.Minute("email", now); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := f.Span(now); got != 59*time.Second {
		t.Errorf("the span is %v", got)
	}
	if got := f.MeanRun("email", now); got != 500*time.Millisecond {
		t.Errorf("mean run %v", got)
	}
	later := now.Add(30 * time.Second)
	if got := f.Minute("email", later); got.Submitted != 30 || got.Completed != 2 {
		t.Errorf("half a minute later: %+v", got)
	}
	later = now.Add(time.Minute)
	if got := f.Minute("email", later); got != (Tally{}) {
		t.Errorf("a minute later: %+v", got)
	}
	if got := f.MeanRun("email", later); got <= 0 || got > 9*time.Second {
		t.Errorf("with no run in the last minute, the mean run is %v", got)
	}
	if got := f.Minute("other", now); got != (Tally{}) {
		t.Errorf("of a type that has nothing: %+v", got)
	}
}

func TestSpanOfAYoungEngine(t *testing.T) {
	f, now := newRig(), start
	f.Begin(now)
	for after, want := range map[time.Duration]time.Duration{0: time.Second, 10 * time.Second: 10 * time.Second, 59*time.Second + 500*time.Millisecond: 59*time.Second + 500*time.Millisecond, time.Hour + 250*time.Millisecond: 59*time.Second + 250*time.Millisecond} {
		if got := f.Span(now.Add(after)); got != want {
			t.Errorf("after %v the span is %v, want %v", after, got, want)
		}
	}
}

func BenchmarkFeedTallies(b *testing.B) {
	f, c := newRig(), batch(start, &events.Created{}, &events.Queued{}, &events.Claimed{}, &events.Running{}, &events.Completed{Duration: events.Millis(5)})
	for b.Loop() {
		f.Feed(c)
	}
}
