package core

import (
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Check refuses a submission that no state would admit: everything about it that
// can be judged without one. It is the only place for these rules. Whoever takes
// submissions in calls it before they reach the loop; for a submission that was
// checked, Decide judges only what depends on the state. maxParams bounds the params
// in bytes; with a zero now, how far ahead moments lie is left unchecked. The error
// is an [*events.Error].
func (c *Submit) Check(maxParams int, now time.Time) error {
	if _, err := events.ParseType(string(c.Type)); err != nil {
		return events.Refuse(events.CodeBadType, "%v", err)
	}
	params, err := CheckParams(c.Params, maxParams)
	if err != nil {
		return err
	}
	if c.Priority != nil && *c.Priority > events.MaxPriority {
		return events.BadPriority(*c.Priority)
	}
	if err := CheckDue(c.AvailableAt, c.Delay, now); err != nil {
		return err
	}
	if c.MaxAttempts < 0 || c.MaxAttempts > events.MaxAttemptsCeiling {
		return events.Refuse(events.CodeBadRequest, "max_attempts is %d: it must be 1 to %d, or left out", c.MaxAttempts, events.MaxAttemptsCeiling)
	}
	if c.Timeout != 0 && (c.Timeout < time.Millisecond || c.Timeout > events.MaxTimeout) {
		return events.Refuse(events.CodeBadTime, "the timeout is %s: it must be 1ms to %s, or left out", c.Timeout, events.MaxTimeout)
	}
	if err := c.checkNames(); err != nil {
		return err
	}
	if _, err := events.CheckCapabilities(c.Capabilities); err != nil {
		return err
	}
	if _, err := events.CheckLabels(c.Labels); err != nil {
		return err
	}
	if err := c.checkTerms(now); err != nil {
		return err
	}
	c.Params, c.checked = params, true
	return nil
}

// checkTerms checks what a submission says of other items and of its own end.
func (c *Submit) checkTerms(now time.Time) error {
	if !c.DedupPolicy.Valid() {
		return events.Refuse(events.CodeBadRequest, "unknown dedup_policy %q: use %s, %s, %s or %s", events.Clip(string(c.DedupPolicy), 64), events.DedupMerge, events.DedupDistinct, events.DedupSupersede, events.DedupDefer)
	}
	if w := c.DedupWindow; w != nil && (*w < 0 || *w > events.MaxDedupWindow) {
		return events.Refuse(events.CodeBadTime, "the dedup window is %s: it must be 0 to %s, or left out", *w, time.Duration(events.MaxDedupWindow))
	}
	if c.Estimate < 0 || c.Estimate > events.MaxTimeout {
		return events.Refuse(events.CodeBadTime, "the estimated duration is %s: it must be 1ms to %s, or left out", c.Estimate, events.MaxTimeout)
	}
	switch c.AfterPolicy {
	case "", events.AfterCancel, events.AfterDead, events.AfterRun:
	default:
		return events.Refuse(events.CodeBadRequest, "unknown after_policy %q: use %s, %s or %s", events.Clip(string(c.AfterPolicy), 64), events.AfterCancel, events.AfterDead, events.AfterRun)
	}
	if len(c.After) > events.MaxAfter {
		return events.Refuse(events.CodeTooLarge, "the item comes after %d others: at most %d are allowed; let a few items wait for them, and this one for those", len(c.After), events.MaxAfter)
	}
	if at := c.ExpiresAt; at.Year() > 9999 || !now.IsZero() && at.After(now.Add(events.MaxDelay)) {
		return events.Refuse(events.CodeBadTime, "expires_at is beyond ten years: choose an earlier time, or leave it out")
	}
	return nil
}

// CheckParams refuses params that are no JSON document, are nested too deep, or have
// more than limit bytes. It returns them without the blanks around them, and null
// for none. The error is an [*events.Error].
func CheckParams(params json.RawMessage, limit int) (json.RawMessage, error) {
	return events.CheckDocument("the params document", params, limit, "store it elsewhere and submit a reference to it")
}

// CheckDue refuses a due time, given as a moment or as a delay, that is out of
// bounds, and both at once. With a zero now, how far ahead the moment lies is left
// unchecked. The error is an [*events.Error].
func CheckDue(at time.Time, delay time.Duration, now time.Time) error {
	switch {
	case !at.IsZero() && delay != 0:
		return events.Refuse(events.CodeBadTime, "both available_at and a delay are given: give one of them")
	case delay < 0:
		return events.Refuse(events.CodeBadTime, "the delay is negative (%s): leave it out to make the item available at once", delay)
	case delay > events.MaxDelay:
		return events.Refuse(events.CodeBadTime, "the delay of %s is beyond ten years: choose an earlier time", delay)
	case at.Year() > 9999, !now.IsZero() && at.After(now.Add(events.MaxDelay)):
		return events.Refuse(events.CodeBadTime, "available_at is beyond ten years: choose an earlier time")
	}
	return nil
}
