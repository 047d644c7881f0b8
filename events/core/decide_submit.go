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

// submission is a Submit on its way to a decision.
type submission struct {
	*decider
	c   *Submit
	set events.TypeSettings // of its type
	// What it becomes: the item (of which only the id and the type are set), the
	// payload of its created event, and the events of the decision so far.
	it  *events.Item
	cr  *events.Created
	evs []events.Event
}

// submit decides a submission: a repeat of what is there, an item merged into
// the one that holds its dedup key, or a queued item.
func (d *decider) submit(c *Submit) (Decision, error) {
	s := submission{decider: d, c: c}
	if dec, done, err := s.repeated(); done || err != nil {
		return dec, err
	}
	if c.Type == events.BatchType {
		return Decision{}, errBatchType
	}
	if err := d.checkAllowed(c.Type); err != nil {
		return Decision{}, err
	}
	if err := s.begin(); err != nil {
		return Decision{}, err
	}
	if c.DedupKey == "" && s.cr.Terms == nil {
		if err := s.admit(); err != nil {
			return Decision{}, err
		}
		return Decision{ID: s.it.ID, Events: append(s.evs, d.event(s.it, s.queued()))}, nil
	}
	return s.place()
}

// begin checks the submission, and makes its created event, with that of its
// type in front if the type is new.
func (s *submission) begin() error {
	set, known := s.state.Settings(s.c.Type)
	s.set = set
	if err := s.create(); err != nil {
		return err
	}
	s.it = &events.Item{ID: s.c.ID, Type: s.c.Type}
	if s.it.ID.IsZero() {
		s.it.ID = s.c.NewID
	} else {
		s.cr.Digest = s.c.digest()
	}
	s.evs = make([]events.Event, 0, 3)
	if !known {
		if len(s.state.types) >= events.MaxTypes {
			return tooManyTypes(s.c.Type)
		}
		s.evs = append(s.evs, s.configured(s.c.Type, events.SourceDefault, s.set))
	}
	s.evs = append(s.evs, s.event(s.it, s.cr))
	return nil
}

// queued is how a submission that waits for nothing goes on.
func (s *submission) queued() *events.Queued {
	q := &events.Queued{Reason: "submitted", OrderAt: s.now, AvailableAt: s.cr.AvailableAt}
	if !q.AvailableAt.IsZero() {
		q.OrderAt = q.AvailableAt
	}
	if s.cr.Terms != nil && s.cr.ScoreMS != nil {
		q.OrderAt = s.now.Add(-time.Duration(*s.cr.ScoreMS) * time.Millisecond)
	}
	return q
}

// repeated finds out whether the submission repeats one that was accepted: by
// its message id, its work id, or its idempotency key.
func (s *submission) repeated() (Decision, bool, error) {
	if !s.c.ID.IsZero() {
		it, err := s.state.Item(s.c.ID)
		if err != nil {
			return Decision{}, false, err
		}
		if it != nil && it.Digest != s.c.digest() {
			return Decision{}, false, events.Refuse(events.CodeIDConflict, "the id %s belongs to an item with other content: choose a new id", s.c.ID)
		}
		if it != nil {
			dec, err := s.repeat(it.ID)
			return dec, true, err
		}
	}
	if s.c.Intake.MsgID != "" {
		held, has, err := s.state.Key(events.KeyRef{Kind: events.KeyMsgID, Type: s.c.Type, Key: s.c.Intake.MsgID}, s.now)
		if err != nil {
			return Decision{}, false, err
		}
		if has && held.Until.After(s.published()) {
			dec, err := s.repeat(held.ID)
			return dec, true, err
		}
	}
	if s.c.IdempotencyKey != "" {
		held, has, err := s.state.Key(events.KeyRef{Kind: events.KeyIdempotency, Type: s.c.Type, Key: s.c.IdempotencyKey}, s.now)
		if err != nil {
			return Decision{}, false, err
		}
		if has {
			dec, err := s.repeat(held.ID)
			return dec, true, err
		}
	}
	return Decision{}, false, nil
}

// published is when a submission came into the intake stream. The server's clock
// may be ahead of the partition's: a time to come counts as now.
func (s *submission) published() time.Time {
	if at := s.c.PublishedAt; !at.IsZero() && at.Before(s.now) {
		return at
	}
	return s.now
}

// repeat answers a repeated submission. One that came by the intake stream
// leaves an event, so that the log says which messages have been answered.
func (s *submission) repeat(of events.ID) (Decision, error) {
	dec := Decision{ID: of, Repeat: true}
	if s.c.Intake.Seq != 0 {
		dec.Events = s.reject(Reject{Type: s.c.Type, Rejected: events.Rejected{
			Code: string(events.CodeDuplicate), Message: "repeats item " + of.String(), Of: of, Intake: s.c.Intake,
		}}).Events
	}
	return dec, nil
}

// create checks a submission and fills in the type's defaults.
func (s *submission) create() error {
	if _, err := events.ParseType(string(s.c.Type)); err != nil {
		return events.Refuse(events.CodeBadType, "%v", err)
	}
	if s.c.ID.IsZero() && s.c.NewID.IsZero() {
		return events.Refuse(events.CodeInternal, "the submission came with no fresh id")
	}
	cr := &events.Created{Priority: events.PriorityDefault, Intake: s.c.Intake, Provenance: s.c.Provenance, Tenant: s.c.Tenant,
		DedupKey: s.c.DedupKey, IdempotencyKey: s.c.IdempotencyKey, Trace: s.c.Trace}
	s.cr = cr
	if s.c.Priority != nil {
		if cr.Priority = *s.c.Priority; cr.Priority > events.MaxPriority {
			return events.BadPriority(cr.Priority)
		}
	}
	var err error
	if cr.Params, err = events.CheckDocument("the params document", s.c.Params, s.set.MaxParams, "store it elsewhere and submit a reference to it, or raise max_params_bytes"); err != nil {
		return err
	}
	if cr.AvailableAt, err = s.availableAt(s.c.AvailableAt, s.c.Delay); err != nil {
		return err
	}
	if err := s.c.checkNames(); err != nil {
		return err
	}
	if cr.Capabilities, err = events.CheckCapabilities(s.c.Capabilities); err != nil {
		return err
	}
	if cr.Labels, err = events.CheckLabels(s.c.Labels); err != nil {
		return err
	}
	timeout, attempts, _ := s.set.For(cr.Priority)
	if s.c.Timeout != 0 || s.c.MaxAttempts != 0 {
		if cr.Terms == nil {
			cr.Terms = new(events.Terms)
		}
		cr.OwnTimeout, cr.OwnAttempts = s.c.Timeout != 0, s.c.MaxAttempts != 0
	}
	timeout, attempts = cmp.Or(s.c.Timeout, timeout), cmp.Or(s.c.MaxAttempts, attempts)
	if timeout < time.Millisecond || timeout > events.MaxTimeout {
		return events.Refuse(events.CodeBadRequest, "the timeout %s is outside 1ms to %s", timeout, events.MaxTimeout)
	}
	if attempts < 1 || attempts > events.MaxAttemptsCeiling {
		return events.Refuse(events.CodeBadRequest, "max attempts %d is outside 1 to %d", attempts, events.MaxAttemptsCeiling)
	}
	cr.TimeoutMS, cr.MaxAttempts = timeout.Milliseconds(), attempts
	if err := s.terms(); err != nil {
		return err
	}
	if s.c.IdempotencyKey != "" {
		cr.IdempotencyUntil = s.now.Add(events.IdempotencyWindow)
	}
	if s.c.Intake.MsgID != "" {
		cr.Intake.MsgIDUntil = s.published().Add(events.MsgIDWindow)
	}
	recordGroup(cr, s.set)
	return nil
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
