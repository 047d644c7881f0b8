package core

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

func (c Submit) decide(d *decider) (Decision, error) {
	if !c.Batch.IsZero() {
		return d.submitMember(&c)
	}
	return d.submit(&c)
}

// submit decides a submission: a repeat of what is there, an item merged into
// the one that holds its dedup key, or a queued item.
func (d *decider) submit(c *Submit) (Decision, error) {
	if dec, done, err := d.repeated(c); done || err != nil {
		return dec, err
	}
	if c.Type == events.BatchType {
		return Decision{}, errBatchType
	}
	if err := d.checkAllowed(c.Type); err != nil {
		return Decision{}, err
	}
	set, known := d.s.Settings(c.Type)
	created, err := d.created(c, set)
	if err != nil {
		return Decision{}, err
	}
	id := c.ID
	if id.IsZero() {
		id = c.NewID
	} else {
		created.Digest = c.digest()
	}
	evs := make([]events.Event, 0, 3)
	if !known {
		if len(d.s.types) >= events.MaxTypes {
			return Decision{}, tooManyTypes(c.Type)
		}
		evs = append(evs, d.configured(c.Type, events.SourceDefault, set))
	}
	it := &events.Item{ID: id, Type: c.Type}
	evs = append(evs, d.event(it, created))
	if c.DedupKey == "" && created.Terms == nil {
		if err := d.admit(c.Type, created, set); err != nil {
			return Decision{}, err
		}
		return Decision{ID: id, Events: append(evs, d.event(it, d.queued(created)))}, nil
	}
	return d.placed(c, it, set, created, evs)
}

// queued is how a submission that waits for nothing goes on.
func (d *decider) queued(cr *events.Created) *events.Queued {
	q := &events.Queued{Reason: "submitted", OrderAt: d.now, AvailableAt: cr.AvailableAt}
	if !q.AvailableAt.IsZero() {
		q.OrderAt = q.AvailableAt
	}
	if cr.Terms != nil && cr.ScoreMS != nil {
		q.OrderAt = d.now.Add(-time.Duration(*cr.ScoreMS) * time.Millisecond)
	}
	return q
}

// repeated finds out whether the submission repeats one that was accepted: by
// its message id, its work id, or its idempotency key.
func (d *decider) repeated(c *Submit) (Decision, bool, error) {
	if !c.ID.IsZero() {
		it, err := d.s.Item(c.ID)
		if err != nil {
			return Decision{}, false, err
		}
		if it != nil && it.Digest != c.digest() {
			return Decision{}, false, events.Refuse(events.CodeIDConflict, "the id %s belongs to an item with other content: choose a new id", c.ID)
		}
		if it != nil {
			dec, err := d.repeat(c, it.ID)
			return dec, true, err
		}
	}
	if c.Intake.MsgID != "" {
		held, has, err := d.s.Key(events.KeyRef{Kind: events.KeyMsgID, Type: c.Type, Key: c.Intake.MsgID}, d.now)
		if err != nil {
			return Decision{}, false, err
		}
		if has && held.Until.After(d.published(c)) {
			dec, err := d.repeat(c, held.ID)
			return dec, true, err
		}
	}
	if c.IdempotencyKey != "" {
		held, has, err := d.s.Key(events.KeyRef{Kind: events.KeyIdempotency, Type: c.Type, Key: c.IdempotencyKey}, d.now)
		if err != nil {
			return Decision{}, false, err
		}
		if has {
			dec, err := d.repeat(c, held.ID)
			return dec, true, err
		}
	}
	return Decision{}, false, nil
}

// published is when a submission came into the intake stream. The server's clock
// may be ahead of the partition's: a time to come counts as now.
func (d *decider) published(c *Submit) time.Time {
	if at := c.PublishedAt; !at.IsZero() && at.Before(d.now) {
		return at
	}
	return d.now
}

// repeat answers a repeated submission. One that came by the intake stream
// leaves an event, so that the log says which messages have been answered.
func (d *decider) repeat(c *Submit, of events.ID) (Decision, error) {
	dec := Decision{ID: of, Repeat: true}
	if c.Intake.Seq != 0 {
		dec.Events = d.reject(Reject{Type: c.Type, Rejected: events.Rejected{
			Code: string(events.CodeDuplicate), Message: "repeats item " + of.String(), Of: of, Intake: c.Intake,
		}}).Events
	}
	return dec, nil
}

// created checks a submission and fills in the type's defaults.
func (d *decider) created(c *Submit, set events.TypeSettings) (*events.Created, error) {
	if _, err := events.ParseType(string(c.Type)); err != nil {
		return nil, events.Refuse(events.CodeBadType, "%v", err)
	}
	if c.ID.IsZero() && c.NewID.IsZero() {
		return nil, events.Refuse(events.CodeInternal, "the submission came with no fresh id")
	}
	cr := &events.Created{Priority: events.PriorityDefault, Intake: c.Intake, Provenance: c.Provenance, Tenant: c.Tenant,
		DedupKey: c.DedupKey, IdempotencyKey: c.IdempotencyKey, Trace: c.Trace}
	if c.Priority != nil {
		if cr.Priority = *c.Priority; cr.Priority > events.MaxPriority {
			return nil, events.BadPriority(cr.Priority)
		}
	}
	var err error
	if cr.Params, err = events.CheckDocument("the params document", c.Params, set.MaxParams, "store it elsewhere and submit a reference to it, or raise max_params_bytes"); err != nil {
		return nil, err
	}
	if cr.AvailableAt, err = d.availableAt(c.AvailableAt, c.Delay); err != nil {
		return nil, err
	}
	if err := c.checkNames(); err != nil {
		return nil, err
	}
	if cr.Capabilities, err = events.CheckCapabilities(c.Capabilities); err != nil {
		return nil, err
	}
	if cr.Labels, err = events.CheckLabels(c.Labels); err != nil {
		return nil, err
	}
	timeout, attempts, _ := set.For(cr.Priority)
	if c.Timeout != 0 || c.MaxAttempts != 0 {
		if cr.Terms == nil {
			cr.Terms = new(events.Terms)
		}
		cr.OwnTimeout, cr.OwnAttempts = c.Timeout != 0, c.MaxAttempts != 0
	}
	timeout, attempts = cmp.Or(c.Timeout, timeout), cmp.Or(c.MaxAttempts, attempts)
	if timeout < time.Millisecond || timeout > events.MaxTimeout {
		return nil, events.Refuse(events.CodeBadRequest, "the timeout %s is outside 1ms to %s", timeout, events.MaxTimeout)
	}
	if attempts < 1 || attempts > events.MaxAttemptsCeiling {
		return nil, events.Refuse(events.CodeBadRequest, "max attempts %d is outside 1 to %d", attempts, events.MaxAttemptsCeiling)
	}
	cr.TimeoutMS, cr.MaxAttempts = timeout.Milliseconds(), attempts
	if err := d.terms(c, set, cr); err != nil {
		return nil, err
	}
	if c.IdempotencyKey != "" {
		cr.IdempotencyUntil = d.now.Add(events.IdempotencyWindow)
	}
	if c.Intake.MsgID != "" {
		cr.Intake.MsgIDUntil = d.published(c).Add(events.MsgIDWindow)
	}
	recordGroup(cr, set)
	return cr, nil
}

func (c *Submit) checkNames() error {
	for _, f := range []struct {
		field, v string
		limit    int
	}{
		{"dedup key", c.DedupKey, events.MaxKeyLen}, {"idempotency key", c.IdempotencyKey, events.MaxKeyLen}, {"message id", c.Intake.MsgID, events.MaxKeyLen},
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
	b := make([]byte, 0, 512+len(body))
	b = appendPart(b, string(c.Type))
	b = append(appendNumber(b, int64(len(body))), body...)
	for _, n := range [...]int64{prio, unixNano(c.AvailableAt), int64(c.Delay), int64(c.MaxAttempts), int64(c.Timeout)} {
		b = appendNumber(b, n)
	}
	for _, part := range [...]string{c.DedupKey, c.IdempotencyKey, c.Tenant, c.Provenance.Source, c.Provenance.Trigger} {
		b = appendPart(b, part)
	}
	caps := slices.Compact(slices.Sorted(slices.Values(c.Capabilities)))
	b = appendNumber(b, int64(len(caps)))
	for _, name := range caps {
		b = appendPart(b, name)
	}
	for _, k := range slices.Sorted(maps.Keys(c.Labels)) {
		b = appendPart(appendPart(b, k), c.Labels[k])
	}
	b = c.digestFlow(b)
	if !c.Batch.IsZero() {
		b = append(b, c.Batch[:]...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
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
