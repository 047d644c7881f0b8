package events

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"
)

// submit decides a submission: a repeat of what is there, an item merged into
// the one that holds its dedup key, or a queued item.
func (d *decider) submit(c *Submit) (Decision, error) {
	if dec, done, err := d.repeated(c); done || err != nil {
		return dec, err
	}
	if c.Type == BatchType {
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
	evs := make([]Event, 0, 3)
	if !known {
		if len(d.s.types) >= MaxTypes {
			return Decision{}, tooManyTypes(c.Type)
		}
		evs = append(evs, d.configured(c.Type, SourceDefault, set))
	}
	it := &Item{ID: id, Type: c.Type}
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
func (d *decider) queued(cr *Created) *Queued {
	q := &Queued{Reason: "submitted", OrderAt: d.now, AvailableAt: cr.AvailableAt}
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
			return Decision{}, false, Refuse(CodeIDConflict, "the id %s belongs to an item with other content: choose a new id", c.ID)
		}
		if it != nil {
			dec, err := d.repeat(c, it.ID)
			return dec, true, err
		}
	}
	if c.Intake.MsgID != "" {
		held, has, err := d.s.Key(KeyRef{KeyMsgID, c.Type, c.Intake.MsgID}, d.now)
		if err != nil {
			return Decision{}, false, err
		}
		if has && held.Until.After(d.published(c)) {
			dec, err := d.repeat(c, held.ID)
			return dec, true, err
		}
	}
	if c.IdempotencyKey != "" {
		held, has, err := d.s.Key(KeyRef{KeyIdempotency, c.Type, c.IdempotencyKey}, d.now)
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
func (d *decider) repeat(c *Submit, of ID) (Decision, error) {
	dec := Decision{ID: of, Repeat: true}
	if c.Intake.Seq != 0 {
		dec.Events = d.reject(Reject{Type: c.Type, Rejected: Rejected{
			Code: string(CodeDuplicate), Message: "repeats item " + of.String(), Of: of, Intake: c.Intake,
		}}).Events
	}
	return dec, nil
}

// created checks a submission and fills in the type's defaults.
func (d *decider) created(c *Submit, set TypeSettings) (*Created, error) {
	if !c.checked {
		if err := c.Check(MaxParamsCeiling, d.now); err != nil {
			return nil, err
		}
	}
	if c.ID.IsZero() && c.NewID.IsZero() {
		return nil, Refuse(CodeInternal, "the submission came with no fresh id")
	}
	cr := &Created{Priority: PriorityDefault, Intake: c.Intake, Provenance: c.Provenance, Tenant: c.Tenant,
		DedupKey: c.DedupKey, IdempotencyKey: c.IdempotencyKey, Trace: c.Trace}
	if c.Priority != nil {
		cr.Priority = *c.Priority
	}
	if cr.Params = c.Params; len(cr.Params) > set.MaxParams {
		return nil, Refuse(CodeTooLarge, "the params document has %d bytes, the limit is %d: store it elsewhere and submit a reference to it, or raise max_params_bytes", len(cr.Params), set.MaxParams)
	}
	var err error
	if cr.AvailableAt, err = d.availableAt(c.AvailableAt, c.Delay); err != nil {
		return nil, err
	}
	if cr.Capabilities, err = capabilities(c.Capabilities); err != nil {
		return nil, err
	}
	if cr.Labels, err = labels(c.Labels); err != nil {
		return nil, err
	}
	timeout, attempts, _ := set.For(cr.Priority)
	if c.Timeout != 0 || c.MaxAttempts != 0 {
		if cr.Terms == nil {
			cr.Terms = new(Terms)
		}
		cr.OwnTimeout, cr.OwnAttempts = c.Timeout != 0, c.MaxAttempts != 0
	}
	timeout, attempts = cmp.Or(c.Timeout, timeout), cmp.Or(c.MaxAttempts, attempts)
	cr.TimeoutMS, cr.MaxAttempts = timeout.Milliseconds(), attempts
	if err := d.terms(c, set, cr); err != nil {
		return nil, err
	}
	if c.IdempotencyKey != "" {
		cr.IdempotencyUntil = d.now.Add(IdempotencyWindow)
	}
	if c.Intake.MsgID != "" {
		cr.Intake.MsgIDUntil = d.published(c).Add(MsgIDWindow)
	}
	cr.group(set)
	return cr, nil
}

func (c *Submit) checkNames() error {
	for _, f := range []struct {
		field, v string
		limit    int
	}{
		{"dedup_key", c.DedupKey, MaxKeyLen}, {"idempotency_key", c.IdempotencyKey, MaxKeyLen}, {"message id", c.Intake.MsgID, MaxKeyLen},
		{"source", c.Provenance.Source, MaxNameLen}, {"trigger", c.Provenance.Trigger, MaxNameLen},
		{"tenant", c.Tenant, MaxNameLen}, {"traceparent", c.Trace, MaxTraceLen},
	} {
		if _, err := name(f.field, f.v, f.limit); err != nil {
			return err
		}
	}
	return nil
}

// capabilities returns them sorted, each once.
func capabilities(in []string) ([]string, error) {
	if len(in) == 0 {
		return nil, nil
	}
	if len(in) > MaxCapabilities {
		return nil, Refuse(CodeTooLarge, "%d capabilities are given: at most %d are allowed", len(in), MaxCapabilities)
	}
	for _, c := range in {
		if !words(c, "-") || len(c) > MaxCapabilityLen {
			return nil, Refuse(CodeBadRequest, "invalid capability %q: use at most %d characters of a-z and 0-9 with single - between them", clip(c, 80), MaxCapabilityLen)
		}
	}
	out := slices.Clone(in)
	slices.Sort(out)
	out = slices.Compact(out)
	if n := len(LaneOf(out)); n > MaxLaneLen {
		return nil, Refuse(CodeTooLarge, "the capabilities have %d bytes together: at most %d are allowed", n, MaxLaneLen)
	}
	return out, nil
}

// labels checks them and returns a copy: the submitter's map is not ours.
func labels(in map[string]string) (map[string]string, error) {
	if len(in) == 0 {
		return nil, nil // not an empty map, which the log doesn't tell from none
	}
	if len(in) > MaxLabels {
		return nil, Refuse(CodeTooLarge, "%d labels are given: at most %d are allowed", len(in), MaxLabels)
	}
	for _, k := range slices.Sorted(maps.Keys(in)) { // in order, so that the refusal is the same each time
		v := in[k]
		if k == "" || strings.ContainsAny(k, "=,") {
			return nil, Refuse(CodeBadRequest, "invalid label key %q: it must not be empty, and have no = and no comma", clip(k, 80))
		}
		if _, err := name("a label's key", k, MaxLabelLen); err != nil {
			return nil, err
		}
		if _, err := name("label "+k, v, MaxLabelLen); err != nil {
			return nil, err
		}
	}
	return maps.Clone(in), nil
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
