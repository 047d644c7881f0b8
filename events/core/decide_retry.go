package core

import (
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/policy"
)

// failed records a failure and what follows from it: a retry, or the end, and
// what it does to the circuits.
func (d *decider) failed(it *events.Item, c Fail) Decision {
	set, _ := d.state.Settings(it.Type)
	forCode := policy.ForCode(set, c.Code)
	limit, _ := policy.AttemptLimit(set, it, c.Code)
	f := &events.Failed{
		Error: events.Shorten(c.Error, events.MaxErrorText), Code: c.Code, Retryable: c.Retryable && !forCode.NoRetry, DurationMS: d.since(it.StartedAt),
		MaxAttempts: max(limit, it.Attempt),
	}
	evs := make([]events.Event, 0, 2)
	evs = append(evs, d.runEvent(it, f))
	die := func(reason string) []events.Event {
		return append(evs, d.dead(it, &events.Dead{Reason: reason, Attempts: it.Attempt, Error: f.Error, Code: f.Code})...)
	}
	switch {
	case f.Code == events.FailLeaseExpired && it.LeasesLost+1 >= policy.PoisonAfter(set):
		evs = die("poisoned")
	case !f.Retryable:
		evs = die("not_retryable")
	case it.Attempt >= limit:
		evs = die("exhausted")
	default:
		evs = append(evs, d.event(it, d.retry(it, c, set, forCode)))
	}
	return Decision{ID: it.ID, Events: append(evs, d.circuitsAfter(it, f)...)}
}

// retry queues an item for its next attempt. The first retry after a lost lease
// is at once: the item is not known to be at fault.
func (d *decider) retry(it *events.Item, c Fail, set events.TypeSettings, forCode events.CodePolicy) *events.Queued {
	q := &events.Queued{Reason: "retry", OrderAt: it.OrderAt}
	if t := policy.NextTimeout(set, it, c.Code); t != it.Timeout {
		q.TimeoutMS = t.Milliseconds()
	}
	wait := c.RetryAfter
	if wait == 0 && (c.Code != events.FailLeaseExpired || it.Attempt > 1) {
		_, _, backoff := set.For(it.Priority)
		var jitter time.Duration
		wait, jitter = policy.RetryDelay(forCode, backoff, it.Attempt, c.Random)
		q.JitterMS = jitter.Milliseconds()
	}
	if wait > 0 {
		q.AvailableAt = d.now.Add(wait)
	}
	return q
}
