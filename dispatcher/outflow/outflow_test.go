package outflow

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

func TestRetryAfterFollowsTheOutflow(t *testing.T) {
	var o Meter
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	ask := func() time.Duration {
		e := events.Refuse(events.CodeQueueFull, "full")
		e.RetryAfter = core.QueueFullRetryAfter
		o.RetryAfter(e, now)
		return e.RetryAfter
	}
	if got := ask(); got != core.QueueFullRetryAfter {
		t.Fatalf("nothing has left: %s", got)
	}
	o.Left(4, now)
	now = now.Add(outflowSpan)
	if got := ask(); got != outflowSpan/4 {
		t.Fatalf("four in ten seconds: %s", got)
	}
	o.Left(1000, now)
	if got := ask(); got != minFullRetry {
		t.Fatalf("a hundred a second: %s", got)
	}
	now = now.Add(2 * outflowSpan)
	if got := ask(); got != core.QueueFullRetryAfter {
		t.Fatalf("that was long ago: %s", got)
	}
	other := events.Refuse(events.CodeUnavailable, "no")
	if o.RetryAfter(other, now); other.RetryAfter != 0 {
		t.Fatal("another refusal was changed")
	}
}
