package events

import "time"

// failed records a failure and what follows from it: a retry, or the end, and
// what it does to the circuits.
func (d *decider) failed(it *Item, c Fail) Decision {
	set, _ := d.s.Settings(it.Type)
	policy := set.CodePolicy(c.Code)
	limit, _ := set.attemptLimit(it, c.Code)
	f := &Failed{
		Error: text(c.Error, MaxErrorText), Code: c.Code, Retryable: c.Retryable && !policy.NoRetry, DurationMS: d.since(it.StartedAt),
		MaxAttempts: max(limit, it.Attempt),
	}
	evs := make([]Event, 0, 2)
	evs = append(evs, d.runEvent(it, f))
	die := func(reason string) []Event {
		return append(evs, d.dead(it, &Dead{Reason: reason, Attempts: it.Attempt, Error: f.Error, Code: f.Code})...)
	}
	switch {
	case f.Code == FailLeaseExpired && it.LeasesLost+1 >= set.poisonAfter():
		evs = die("poisoned")
	case !f.Retryable:
		evs = die("not_retryable")
	case it.Attempt >= limit:
		evs = die("exhausted")
	default:
		evs = append(evs, d.event(it, d.retry(it, c, set, policy)))
	}
	return Decision{ID: it.ID, Events: append(evs, d.circuitsAfter(it, f)...)}
}

// retry queues an item for its next attempt. The first retry after a lost lease
// is at once: the item is not known to be at fault.
func (d *decider) retry(it *Item, c Fail, set TypeSettings, policy CodePolicy) *Queued {
	q := &Queued{Reason: "retry", OrderAt: it.OrderAt}
	if t := set.nextTimeout(it, c.Code); t != it.Timeout {
		q.TimeoutMS = t.Milliseconds()
	}
	wait := c.RetryAfter
	if wait == 0 && (c.Code != FailLeaseExpired || it.Attempt > 1) {
		_, _, backoff := set.For(it.Priority)
		var jitter time.Duration
		wait, jitter = policy.delay(backoff, it.Attempt, c.Random)
		q.JitterMS = jitter.Milliseconds()
	}
	if wait > 0 {
		q.AvailableAt = d.now.Add(wait)
	}
	return q
}
