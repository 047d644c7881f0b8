package core

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
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
	params, err := events.CheckParams(c.Params, maxParams)
	if err != nil {
		return err
	}
	if c.Priority != nil && *c.Priority > events.MaxPriority {
		return events.BadPriority(*c.Priority)
	}
	if err := events.CheckDue(c.AvailableAt, c.Delay, now); err != nil {
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
	if c.Signal != nil {
		if err := c.Signal.check(); err != nil {
			return err
		}
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
		return events.Refuse(events.CodeBadTime, "estimated_duration_ms is %d: it must be 1 to %d, or left out", c.Estimate.Milliseconds(), events.MaxTimeout.Milliseconds())
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
	if c.DedupKey == "" && (c.DedupPolicy != "" || c.DedupWindow != nil) {
		return events.Refuse(events.CodeBadRequest, "the submission has a dedup policy or window, but no dedup key: give it a dedup_key, or leave them out")
	}
	return nil
}

func (c *Submit) checkNames() error {
	for _, f := range []struct {
		field, v string
		limit    int
	}{
		{"dedup_key", c.DedupKey, events.MaxKeyLen}, {"idempotency_key", c.IdempotencyKey, events.MaxKeyLen}, {"message id", c.Intake.MsgID, events.MaxKeyLen},
		{"source", c.Provenance.Source, events.MaxNameLen}, {"trigger", c.Provenance.Trigger, events.MaxNameLen},
		{"tenant", c.Tenant, events.MaxNameLen}, {"traceparent", c.Trace, events.MaxTraceLen},
	} {
		if _, err := events.CheckText(f.field, f.v, f.limit); err != nil {
			return err
		}
	}
	return nil
}

// digest identifies the content of a submission, to tell a repeat from a
// conflict. It covers what the submitter said, not what became of it.
func (c *Submit) digest() string {
	body := bytes.TrimSpace(c.Params)
	if len(body) == 0 {
		body = []byte("null")
	}
	prio := int64(-1)
	if c.Priority != nil {
		prio = int64(*c.Priority)
	}
	var room [1024]byte // on the stack, enough for most
	b := room[:0]
	b = appendPart(b, string(c.Type))
	b = append(appendNumber(b, int64(len(body))), body...)
	for _, n := range [...]int64{prio, unixNano(c.AvailableAt), int64(c.Delay), int64(c.MaxAttempts), int64(c.Timeout)} {
		b = appendNumber(b, n)
	}
	for _, part := range [...]string{c.DedupKey, c.IdempotencyKey, c.Tenant, c.Provenance.Source, c.Provenance.Trigger} {
		b = appendPart(b, part)
	}
	b = c.digestSets(b)
	b = c.digestFlow(b)
	if !c.Batch.IsZero() {
		b = append(b, c.Batch[:]...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// contentDigest returns a digest of what a created event says of its submission's
// content. What its type or other items have decided is left out: the dedup policy and
// window, the group, the verdict. To change it, raise the format of the store, which
// holds it.
func contentDigest(t events.Type, b *events.Created) string {
	c := Submit{Type: t, Params: b.Params, Priority: &b.Priority, AvailableAt: b.AvailableAt, DedupKey: b.DedupKey, IdempotencyKey: b.IdempotencyKey,
		Capabilities: b.Capabilities, Tenant: b.Tenant, Labels: b.Labels, Provenance: b.Provenance}
	if o := b.SubmitOptions; o != nil {
		c.Batch, c.ExpiresAt, c.Estimate = o.Parent, o.ExpiresAt, o.Estimate.Duration
		if c.After = o.After; len(o.After) > 0 {
			c.AfterPolicy = o.AfterPolicy
		}
		if o.OwnAttempts {
			c.MaxAttempts = b.MaxAttempts
		}
		if o.OwnTimeout {
			c.Timeout = b.Timeout.Duration
		}
	}
	return c.digest()
}

// digestSets adds what has no order.
func (c *Submit) digestSets(b []byte) []byte {
	caps := c.Capabilities
	if len(caps) > 1 {
		caps = slices.Compact(slices.Sorted(slices.Values(caps)))
	}
	b = appendNumber(b, int64(len(caps)))
	for _, name := range caps {
		b = appendPart(b, name)
	}
	if len(c.Labels) == 0 {
		return b
	}
	for _, k := range slices.Sorted(maps.Keys(c.Labels)) {
		b = appendPart(appendPart(b, k), c.Labels[k])
	}
	return b
}

// digestFlow adds to a submission's digest what most leave out.
func (c *Submit) digestFlow(b []byte) []byte {
	if len(c.After) == 0 && c.AfterPolicy == "" && c.DedupPolicy == "" && c.DedupWindow == nil && c.ExpiresAt.IsZero() && c.Estimate == 0 {
		return b
	}
	b = appendNumber(b, int64(len(c.After)))
	for _, id := range c.After {
		b = append(b, id[:]...)
	}
	b = appendPart(appendPart(b, string(c.AfterPolicy)), string(c.DedupPolicy))
	window := int64(-1)
	if c.DedupWindow != nil {
		window = int64(*c.DedupWindow)
	}
	b = appendNumber(appendNumber(b, window), unixNano(c.ExpiresAt))
	if c.Estimate != 0 { // digests that are recorded already have none
		b = appendNumber(b, int64(c.Estimate))
	}
	return b
}

// appendPart appends a text with its length in front, so that no two lists of
// texts look alike.
func appendPart(b []byte, s string) []byte { return append(appendNumber(b, int64(len(s))), s...) }

func appendNumber(b []byte, n int64) []byte { return binary.AppendVarint(b, n) }

// unixNano is 0 for the zero time.
func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
