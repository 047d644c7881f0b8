package dispatcher

import (
	"errors"
	"time"

	"github.com/streamwright/streamwright/events"
)

// The bounds of the retry-after of a full queue, and the span over which its
// drain is measured.
const (
	minFullRetry = time.Second
	maxFullRetry = time.Minute
	drainSpan    = 10 * time.Second
)

// drain measures how many items leave the queue: in the present span, and in
// the one before. Owned by the loop.
type drain struct {
	since     time.Time
	now, last int
}

func (d *drain) roll(now time.Time) {
	switch past := now.Sub(d.since); {
	case past >= 2*drainSpan:
		d.since, d.now, d.last = now, 0, 0
	case past >= drainSpan:
		d.since, d.now, d.last = d.since.Add(drainSpan), 0, d.now
	}
}

func (d *drain) left(n int, now time.Time) {
	d.roll(now)
	d.now += n
}

// retryAfter gives a refusal for a full queue the time in which an item leaves
// at the present rate. While none does, the core's own stays.
func (d *drain) retryAfter(err error, now time.Time) {
	var refused *events.Error
	if !errors.As(err, &refused) || refused.Code != events.CodeQueueFull {
		return
	}
	if d.roll(now); d.now+d.last == 0 {
		return
	}
	span := drainSpan + now.Sub(d.since)
	refused.RetryAfter = min(max(span/time.Duration(d.now+d.last), minFullRetry), maxFullRetry)
}
