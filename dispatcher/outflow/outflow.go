// Package outflow measures how fast items leave the queue, to tell whom it refuses when
// to come again.
package outflow

import (
	"errors"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Bounds of a full queue's retry-after, and the span over which its outflow is measured.
const (
	minFullRetry = time.Second
	maxFullRetry = time.Minute
	outflowSpan  = 10 * time.Second
)

// Meter measures how many items leave the queue, in the present span and in the one
// before.
type Meter struct {
	since     time.Time
	now, last int
}

func (o *Meter) roll(now time.Time) {
	switch past := now.Sub(o.since); {
	case past >= 2*outflowSpan:
		o.since, o.now, o.last = now, 0, 0
	case past >= outflowSpan:
		o.since, o.now, o.last = o.since.Add(outflowSpan), 0, o.now
	}
}

// Left notes that n items have left the queue.
func (o *Meter) Left(n int, now time.Time) {
	o.roll(now)
	o.now += n
}

// RetryAfter sets a full queue's refusal to the time in which one item leaves at the
// present rate. While none leaves, the core's own value stays.
func (o *Meter) RetryAfter(err error, now time.Time) {
	var refused *events.Error
	if !errors.As(err, &refused) || refused.Code != events.CodeQueueFull {
		return
	}
	if o.roll(now); o.now+o.last == 0 {
		return
	}
	span := outflowSpan + now.Sub(o.since)
	refused.RetryAfter = min(max(span/time.Duration(o.now+o.last), minFullRetry), maxFullRetry)
}
