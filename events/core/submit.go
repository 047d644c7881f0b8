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
	if c.DedupKey == "" && s.cr.SubmitOptions == nil {
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
	if s.cr.SubmitOptions != nil && s.cr.ScoreMS != nil {
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
	if !s.c.checked {
		if err := s.c.Check(events.MaxParamsCeiling, s.now); err != nil {
			return err
		}
	}
	if s.c.ID.IsZero() && s.c.NewID.IsZero() {
		return events.Refuse(events.CodeInternal, "the submission came with no fresh id")
	}
	cr := &events.Created{Priority: events.PriorityDefault, Intake: s.c.Intake, Provenance: s.c.Provenance, Tenant: s.c.Tenant,
		DedupKey: s.c.DedupKey, IdempotencyKey: s.c.IdempotencyKey, Trace: s.c.Trace}
	s.cr = cr
	if s.c.Priority != nil {
		cr.Priority = *s.c.Priority
	}
	if cr.Params = s.c.Params; len(cr.Params) > s.set.MaxParams {
		return events.Refuse(events.CodeTooLarge, "the params document has %d bytes, the limit is %d: store it elsewhere and submit a reference to it, or raise max_params_bytes", len(cr.Params), s.set.MaxParams)
	}
	var err error
	if cr.AvailableAt, err = s.availableAt(s.c.AvailableAt, s.c.Delay); err != nil {
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
		t := termsOf(cr)
		t.OwnTimeout, t.OwnAttempts = s.c.Timeout != 0, s.c.MaxAttempts != 0
	}
	timeout, attempts = cmp.Or(s.c.Timeout, timeout), cmp.Or(s.c.MaxAttempts, attempts)
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
	if g := valueOf(s.set.GroupKey(), cr.Tenant, cr.Labels); g != "" {
		termsOf(cr).Group = g
	}
	return nil
}

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

// terms records what a submission says beyond the plain.
func (s *submission) terms() error {
	window := time.Duration(s.set.DedupWindowMS) * time.Millisecond
	if s.c.DedupWindow != nil {
		window = *s.c.DedupWindow
	}
	if s.c.DedupKey != "" && window.Milliseconds() > 0 {
		termsOf(s.cr).DedupWindowMS = window.Milliseconds()
	}
	if err := s.expiry(); err != nil {
		return err
	}
	if ms := s.c.Estimate.Milliseconds(); ms > 0 {
		termsOf(s.cr).EstimateMS = ms
	}
	if len(s.c.After) > 0 {
		t := termsOf(s.cr)
		t.After, t.AfterPolicy = slices.Clone(s.c.After), cmp.Or(s.c.AfterPolicy, events.AfterCancel)
	}
	if s.parent != nil {
		t := termsOf(s.cr)
		t.Parent, t.Spawn = s.parent.ID, s.spawn
	}
	return s.judged()
}

func (s *submission) expiry() error {
	at := s.c.ExpiresAt.UTC().Round(0)
	switch {
	case s.c.ExpiresAt.IsZero():
		return nil
	case !at.After(s.cr.AvailableAt):
		return events.Refuse(events.CodeBadTime, "the item would expire at %s, before it may run at %s: it would never run", at.Format(time.RFC3339), s.cr.AvailableAt.Format(time.RFC3339))
	case at.Year() < 1970:
		return events.Refuse(events.CodeBadTime, "expires_at is %s: give a time from 1970 on", at.Format(time.RFC3339))
	}
	termsOf(s.cr).ExpiresAt = at
	return nil
}

// judged records what the host has said of a submission.
func (s *submission) judged() error {
	if s.c.Score != nil {
		if *s.c.Score < -events.MaxDelay || *s.c.Score > events.MaxDelay {
			return events.Refuse(events.CodeBadRequest, "the score %s is outside ten years", *s.c.Score)
		}
		ms := s.c.Score.Milliseconds()
		termsOf(s.cr).ScoreMS = &ms
	}
	if s.c.Verdict == nil {
		return nil
	}
	if !s.c.Verdict.Policy.Valid() {
		return events.Refuse(events.CodeBadRequest, "the dedup hook's verdict %q is none of %s, %s, %s, %s", events.Clip(string(s.c.Verdict.Policy), 64), events.DedupMerge, events.DedupDistinct, events.DedupSupersede, events.DedupDefer)
	}
	v := *s.c.Verdict
	v.Policy = cmp.Or(v.Policy, events.DedupMerge)
	v.Source, v.Reason = events.Shorten(v.Source, events.MaxNameLen), events.Shorten(v.Reason, events.MaxNameLen)
	termsOf(s.cr).Verdict = &v
	return nil
}

// upstream is what a submission comes after.
type upstream struct {
	waits []events.ID  // those that have not ended, each once, in the order given
	bad   *events.Item // the first that has ended dead or cancelled
}

func (s *submission) upstream() (upstream, error) {
	var up upstream
	seen := make(map[events.ID]bool, len(s.c.After))
	for _, id := range s.c.After {
		it, err := s.canonical(id)
		if err != nil {
			return up, err
		}
		if it == nil {
			return up, events.Refuse(events.CodeNotFound, "there is no item %s to come after: check the id, and submit what comes first before", id)
		}
		if seen[it.ID] {
			continue
		}
		seen[it.ID] = true
		switch {
		case live(it.State):
			if blocked, err := s.waitsForParent(it.ID); err != nil {
				return up, err
			} else if blocked {
				return up, events.Refuse(events.CodeBadRequest, "the item can't come after %s, which waits for its parent %s: they would wait for each other for ever", it.ID, s.parent.ID)
			}
			up.waits = append(up.waits, it.ID)
		case endedBadly(it) && up.bad == nil:
			up.bad = it
		}
	}
	return up, nil
}

// badEnd is the end of an item because of the end of one that it waits for.
func (d *decider) badEnd(it, up *events.Item, policy events.AfterPolicy) []events.Event {
	reason, how := "upstream_"+up.State.String(), "is "+up.State.String()
	if up.State == events.StateCompleted {
		reason, how = "upstream_failed", "is a batch with items that have failed"
	}
	if policy == events.AfterDead {
		return d.dead(it, &events.Dead{Reason: reason, Attempts: it.Attempt, Error: "item " + up.ID.String() + ", which it comes after, " + how, By: up.ID})
	}
	return []events.Event{d.cancelled(it, reason, up.ID)}
}

// maxBlockWalk bounds the items that are looked at to find out whether one
// waits for another. Beyond, it counts as if it did.
const maxBlockWalk = 2000

// waitsForParent reports whether an item is the parent of what is submitted, or
// waits for it, through however many others: what is submitted must not wait
// for such a one, since the parent waits for it. Only a spawn can close such a
// ring: nothing waits yet for what is submitted otherwise.
func (d *decider) waitsForParent(id events.ID) (bool, error) {
	if d.parent == nil {
		return false, nil
	}
	seen := map[events.ID]bool{id: true}
	for queue := []events.ID{id}; len(queue) > 0; queue = queue[1:] {
		if queue[0] == d.parent.ID || len(seen) > maxBlockWalk {
			return true, nil
		}
		it, err := d.state.Item(queue[0])
		if err != nil {
			return false, err
		}
		if it == nil || it.State != events.StateWaiting {
			continue
		}
		r := relationsOf(it)
		next := r.Waits
		if r.Spawned && r.InParts() { // not listed here: only the way up is looked at
			if below, err := d.parentIsBelow(it.ID); below || err != nil {
				return true, err
			}
		}
		if r.Spawned {
			next = slices.Concat(next, r.Children)
		}
		for _, n := range next {
			if !seen[n] {
				seen[n] = true
				queue = append(queue, n)
			}
		}
	}
	return false, nil
}

// maxParents bounds the items that are looked at above one.
const maxParents = 100

// parentIsBelow reports whether an item has spawned the parent of what is
// submitted, through however many others.
func (d *decider) parentIsBelow(id events.ID) (bool, error) {
	at := d.parent
	for range maxParents {
		up := relationsOf(at).Parent
		if up.IsZero() || up == id {
			return up == id, nil
		}
		var err error
		if at, err = d.state.Item(up); at == nil || err != nil {
			return false, err
		}
	}
	return true, nil
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
