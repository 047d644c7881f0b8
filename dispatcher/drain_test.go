package dispatcher

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

func TestRetryAfterFollowsTheDrain(t *testing.T) {
	var d drain
	now := simStart
	ask := func() time.Duration {
		e := events.Refuse(events.CodeQueueFull, "full")
		e.RetryAfter = core.QueueFullRetryAfter
		d.retryAfter(e, now)
		return e.RetryAfter
	}
	if got := ask(); got != core.QueueFullRetryAfter {
		t.Fatalf("nothing has left: %s", got)
	}
	d.left(4, now)
	now = now.Add(drainSpan)
	if got := ask(); got != drainSpan/4 {
		t.Fatalf("four in ten seconds: %s", got)
	}
	d.left(1000, now)
	if got := ask(); got != minFullRetry {
		t.Fatalf("a hundred a second: %s", got)
	}
	now = now.Add(2 * drainSpan)
	if got := ask(); got != core.QueueFullRetryAfter {
		t.Fatalf("that was long ago: %s", got)
	}
	other := events.Refuse(events.CodeUnavailable, "no")
	if d.retryAfter(other, now); other.RetryAfter != 0 {
		t.Fatal("another refusal was changed")
	}
}
