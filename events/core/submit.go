package core

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

// QueueFullRetryAfter is the pause proposed with a refusal for a full queue.
const QueueFullRetryAfter = 5 * time.Second

// Submit asks for a new item.
type Submit struct {
	Type     events.Type
	Params   json.RawMessage  // any JSON document; empty means null
	ID       events.ID        // chosen by the submitter; zero: NewID is used
	NewID    events.ID        // fresh
	By       string           // who submits it, as the access layer knows; empty: nobody is known
	Priority *events.Priority // nil: PriorityDefault

	DedupKey       string
	IdempotencyKey string
	AvailableAt    time.Time      // at most one of AvailableAt and Delay
	Delay          time.Duration  // from the time of the decision
	MaxAttempts    events.Attempt // 0: the type's
	Timeout        time.Duration  // 0: the type's
	Capabilities   []string
	Tenant         string
	Labels         map[string]string
	Provenance     events.Provenance
	Trace          string
	Intake         events.Intake // set when it came by the intake stream
	// PublishedAt is the time it came into the intake stream; zero: not known.
	PublishedAt time.Time

	After       []events.ID // items that must end first
	AfterPolicy events.AfterPolicy
	DedupPolicy events.DedupPolicy // empty: the type's
	DedupWindow *time.Duration     // nil: the type's
	ExpiresAt   time.Time
	Rejected    events.Seq      // its rejected event, if it was rejected before: it must still be kept
	Batch       events.ID       // the batch that it belongs to
	Estimate    time.Duration   // how long a run is likely to take; 0: not said
	Score       *time.Duration  // the host's: how far ahead of its time of submission its place is; nil: the built-in order
	Verdict     *events.Verdict // the host's dedup hook's
	Signal      *FirstSignal    // nil: none; not of a child

	checked bool // by Check
}

func (c Submit) decide(d *decider) (Decision, error) {
	decide := d.submit
	if !c.Batch.IsZero() {
		decide = d.submitMember
	}
	dec, err := decide(&c)
	if err == nil && c.Signal != nil {
		dec, err = d.startOrWake(dec, *c.Signal)
	}
	dec.by(c.By)
	return dec, err
}

// submission is a Submit on its way to a decision.
type submission struct {
	*decider
	c   Submit           // a copy, which stays on the stack where a pointer would not
	typ *events.TypeInfo // of the submission's type, with the defaults for a new one
	it  events.Item      // the item, with only its id and type set
	cr  *events.Created  // the payload of its created event
	evs []events.Event   // of the decision so far
}

// submit decides a submission in these steps: is it a repeat, is it valid, does
// it duplicate another item, is there room for it, must it wait?
func (d *decider) submit(c *Submit) (Decision, error) {
	s := submission{decider: d, c: *c}
	if dec, err := s.repeated(); dec.Repeat || err != nil {
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
	if c.DedupKey != "" || s.cr.SubmitOptions != nil {
		return s.place()
	}
	if err := s.admit(); err != nil {
		return Decision{}, err
	}
	return s.ends(s.queued()), nil
}

// ends returns the decision whose last event is the item's b.
func (s *submission) ends(b events.Body) Decision {
	return Decision{ID: s.it.ID, Events: append(s.evs, s.event(&s.it, b))}
}

// repeated answers a submission that repeats an accepted one, with a Repeat. If
// it came by the intake stream, an event says that its message is answered.
func (s *submission) repeated() (Decision, error) {
	of, differs, err := s.original()
	if of.IsZero() || err != nil {
		return Decision{}, err
	}
	dec := Decision{ID: of, Repeat: true, ContentDiffers: differs}
	repeats := "repeats item " + of.String()
	if differs {
		repeats += ", with other content (content_differs)"
	}
	if s.c.Intake.Seq != 0 || s.c.Intake.Site != "" {
		dec.Events = s.reject(Reject{Type: s.c.Type, Rejected: events.Rejected{
			Code: string(events.CodeDuplicate), Message: repeats, Of: of, Intake: s.c.Intake,
		}}).Events
	}
	return dec, nil
}

// original returns the item that a submission has made already, by its work id,
// its message id, or its idempotency key; zero for none. differs is set if an
// idempotency key leads to one of other content.
func (s *submission) original() (of events.ID, differs bool, err error) {
	if s.c.ID.IsZero() {
		return s.byKeys()
	}
	it, err := s.state.Item(s.c.ID)
	if err != nil {
		return events.ID{}, false, err
	}
	if it == nil {
		return s.byKeys()
	}
	same, err := s.repeats(it)
	if err == nil && !same {
		err = events.Refuse(events.CodeIDConflict, "the id %s belongs to an item with other content: choose a new id", it.ID)
	}
	if err != nil {
		return events.ID{}, false, err
	}
	return it.ID, false, nil
}

// repeats reports whether the submission has the content of an item that has its id. If
// the engine has chosen the id there is no digest, and what a life does not change
// is compared.
func (s *submission) repeats(it *events.Item) (bool, error) {
	c := &s.c
	if it.Digest != "" {
		return it.Digest == c.digest(), nil
	}
	caps, err := events.CheckCapabilities(c.Capabilities)
	if err != nil {
		return false, err
	}
	if it.Type != c.Type || it.DedupKey != c.DedupKey || it.IdempotencyKey != c.IdempotencyKey || it.Tenant != c.Tenant || it.Provenance != c.Provenance ||
		!slices.Equal(it.Capabilities, caps) || !maps.Equal(it.Labels, c.Labels) || relationsOf(it).Parent != c.Batch {
		return false, nil
	}
	params, err := s.state.Params(it.ID)
	said := bytes.TrimSpace(c.Params)
	return bytes.Equal(bytes.TrimSpace(params), said) || len(said) == 0 && string(params) == "null", err
}

// byKeys is original for what has no id, or a new one.
func (s *submission) byKeys() (of events.ID, differs bool, err error) {
	c := &s.c
	if c.Intake.MsgID != "" {
		held, has, err := s.state.Key(events.KeyRef{Kind: events.KeyMsgID, Type: c.Type, Key: c.Intake.MsgID}, s.now)
		if err != nil || has && held.Until.After(s.published()) {
			return held.ID, false, err
		}
	}
	if c.IdempotencyKey != "" {
		held, has, err := s.state.Key(events.KeyRef{Kind: events.KeyIdempotency, Type: c.Type, Key: c.IdempotencyKey}, s.now)
		if err != nil || has {
			return held.ID, has && held.Digest != s.contentAsOf(held.Until.Add(-events.IdempotencyWindow)), err
		}
	}
	return events.ID{}, false, nil
}

// contentAsOf returns the digest of what the submission would have come to at a time,
// empty if it would have been refused.
func (s *submission) contentAsOf(at time.Time) string {
	then := *s.decider
	then.now, then.due = at, at
	again := submission{decider: &then, c: s.c}
	again.typ, _ = s.state.info(s.c.Type)
	if again.create() != nil {
		return ""
	}
	if !s.c.Batch.IsZero() {
		termsOf(again.cr).Parent = s.c.Batch
	}
	return contentDigest(s.c.Type, again.cr)
}

// published returns when a submission came into the intake stream. The server's
// clock may be ahead of the partition's: a time to come counts as now.
func (s *submission) published() time.Time {
	if at := s.c.PublishedAt; !at.IsZero() && at.Before(s.now) {
		return at
	}
	return s.now
}

func typeAllowed(l *events.Limits, t events.Type) bool { return l.Types == nil || l.Types[t] }

// checkAllowed refuses a type that the configuration does not list.
func (d *decider) checkAllowed(t events.Type) error {
	if typeAllowed(&d.state.limits, t) {
		return nil
	}
	return events.Refuse(events.CodeTypeNotAllowed, "type %s is not one of those that this engine serves: check its spelling, or add it to types under [limits] in engine.toml", t)
}

// begin checks the submission and makes its created event, behind the
// type_configured event of a new type.
func (s *submission) begin() error {
	if s.c.Rejected != 0 {
		if err := s.mustKeep(s.c.Rejected); err != nil {
			return err
		}
	}
	var known bool
	s.typ, known = s.state.info(s.c.Type)
	if err := s.create(); err != nil {
		return err
	}
	s.it = events.Item{ID: s.c.ID, Type: s.c.Type}
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
		s.evs = append(s.evs, s.configured(s.c.Type, events.SourceDefault, s.typ.Settings))
	}
	s.evs = append(s.evs, s.event(&s.it, s.cr))
	return nil
}

func tooManyTypes(t events.Type) error {
	return events.Refuse(events.CodeTooManyTypes, "type %s would be the %dth: an engine serves %d types; put variants of one kind of work into params or labels instead of the type", t, events.MaxTypes+1, events.MaxTypes)
}

// create checks a submission and fills in the type's defaults.
func (s *submission) create() (err error) {
	c, set := &s.c, &s.typ.Settings
	if !c.checked {
		if err := c.Check(events.MaxParamsCeiling, s.now); err != nil {
			return err
		}
	}
	if c.ID.IsZero() && c.NewID.IsZero() {
		return events.Refuse(events.CodeInternal, "the submission came with no fresh id")
	}
	if len(c.Params) > set.MaxParams {
		return events.Refuse(events.CodeTooLarge, "the params document has %d bytes, the limit is %d: store it elsewhere and submit a reference to it, or raise max_params", len(c.Params), set.MaxParams)
	}
	cr := &events.Created{Params: c.Params, Priority: events.PriorityDefault, Intake: c.Intake, Provenance: c.Provenance, Tenant: c.Tenant,
		DedupKey: c.DedupKey, IdempotencyKey: c.IdempotencyKey, Trace: c.Trace}
	s.cr = cr
	if c.Priority != nil {
		cr.Priority = *c.Priority
	}
	if cr.AvailableAt, err = s.availableAt(c.AvailableAt, c.Delay); err != nil {
		return err
	}
	cr.Delayed = c.Delay > 0 && !cr.AvailableAt.IsZero()
	if cr.Capabilities, err = events.CheckCapabilities(c.Capabilities); err != nil {
		return err
	}
	if cr.Labels, err = events.CheckLabels(c.Labels); err != nil {
		return err
	}
	timeout, attempts, _ := set.For(cr.Priority)
	cr.Timeout, cr.MaxAttempts = events.DurationOf(cmp.Or(c.Timeout, timeout).Truncate(time.Millisecond)), cmp.Or(c.MaxAttempts, attempts)
	if c.IdempotencyKey != "" {
		cr.IdempotencyUntil = s.now.Add(events.IdempotencyWindow)
	}
	if c.Intake.MsgID != "" {
		cr.Intake.MsgIDUntil = s.published().Add(events.MsgIDWindow)
	}
	if err := s.terms(); err != nil {
		return err
	}
	return s.judged()
}

// availableAt resolves a due time: the zero time for at once.
func (d *decider) availableAt(at time.Time, delay time.Duration) (time.Time, error) {
	if err := events.CheckDue(at, delay, d.now); err != nil {
		return time.Time{}, err
	}
	if delay > 0 {
		at = d.now.Add(delay)
	}
	if !at.After(d.due) {
		return time.Time{}, nil
	}
	return at.UTC().Round(0), nil
}

// terms records the options of a submission that most leave out.
func (s *submission) terms() error {
	c, cr := &s.c, s.cr
	if c.Timeout != 0 || c.MaxAttempts != 0 {
		t := termsOf(cr)
		t.OwnTimeout, t.OwnAttempts = c.Timeout != 0, c.MaxAttempts != 0
	}
	window := s.typ.Settings.DedupWindow
	if c.DedupWindow != nil {
		window = events.DurationOf(*c.DedupWindow)
	}
	if c.DedupKey != "" && window.Duration > 0 {
		termsOf(cr).DedupWindow = window
	}
	if !c.ExpiresAt.IsZero() {
		at := c.ExpiresAt.UTC().Round(0)
		if !at.After(cr.AvailableAt) {
			return events.Refuse(events.CodeBadTime, "the item would expire at %s, before it may run at %s: it would never run", at.Format(time.RFC3339), cr.AvailableAt.Format(time.RFC3339))
		}
		if at.Year() < 1970 {
			return events.Refuse(events.CodeBadTime, "expires_at is %s: give a time from 1970 on", at.Format(time.RFC3339))
		}
		termsOf(cr).ExpiresAt = at
	}
	if c.Estimate > 0 {
		termsOf(cr).Estimate = events.DurationOf(c.Estimate)
	}
	if len(c.After) > 0 {
		t := termsOf(cr)
		t.After, t.AfterPolicy = slices.Clone(c.After), cmp.Or(c.AfterPolicy, events.AfterCancel)
	}
	if s.parent != nil {
		t := termsOf(cr)
		t.Parent, t.Spawn = s.parent.ID, s.spawn
	}
	if g := events.ValueOf(s.typ.Settings.GroupKey(), cr.Tenant, cr.Labels); g != "" {
		termsOf(cr).Group = g
	}
	return nil
}

// termsOf returns the payload's options, for writing.
func termsOf(cr *events.Created) *events.SubmitOptions {
	if cr.SubmitOptions == nil {
		cr.SubmitOptions = &events.SubmitOptions{}
	}
	return cr.SubmitOptions
}

// judged records the host's score and verdict.
func (s *submission) judged() error {
	if score := s.c.Score; score != nil {
		if *score < -events.MaxDelay || *score > events.MaxDelay {
			return events.Refuse(events.CodeBadRequest, "the score %s is outside ten years", *score)
		}
		termsOf(s.cr).Score = new(events.DurationOf(*score))
	}
	if s.c.Verdict == nil {
		return nil
	}
	v := *s.c.Verdict
	if !v.Policy.Valid() {
		return events.Refuse(events.CodeBadRequest, "the dedup hook's verdict %q is none of %s, %s, %s, %s", events.Clip(string(v.Policy), 64), events.DedupMerge, events.DedupDistinct, events.DedupSupersede, events.DedupDefer)
	}
	v.Policy = cmp.Or(v.Policy, events.DedupMerge)
	v.Source, v.Reason = events.Shorten(v.Source, events.MaxNameLen), events.Shorten(v.Reason, events.MaxNameLen)
	termsOf(s.cr).Verdict = &v
	return nil
}

// place decides where a submission goes that may be a duplicate, or may have
// to wait. It fills in the rest of the options of its created event.
func (s *submission) place() (Decision, error) {
	dup, err := s.duplicateOf()
	if err != nil {
		return Decision{}, err
	}
	if dup.of != nil && dup.policy == events.DedupMerge {
		return s.merged(dup), nil
	}
	if err := s.admit(); err != nil {
		return Decision{}, err
	}
	if err := s.recordPolicy(dup); err != nil {
		return Decision{}, err
	}
	up, err := s.upstream()
	if err != nil {
		return Decision{}, err
	}
	w := &events.Waiting{Reason: "after", For: up.waits}
	q := s.queued()
	if dup.of != nil && dup.policy != events.DedupDistinct {
		s.inPlaceOf(dup, w, q)
	}
	w.Left = len(w.For)
	policy := events.AfterCancel
	if s.cr.SubmitOptions != nil {
		policy = cmp.Or(s.cr.AfterPolicy, policy)
	}
	switch {
	case up.bad != nil && policy != events.AfterRun:
		w.Behind = events.ID{}
		dec := s.ends(w)
		dec.Events = append(dec.Events, s.badEnd(&s.it, up.bad, policy)...)
		return dec, nil
	case len(w.For) > 0:
		return s.ends(w), nil
	}
	return s.ends(q), nil
}

// queued returns the queued payload of a submission that waits for nothing.
func (s *submission) queued() *events.Queued {
	q := &events.Queued{Reason: "submitted", OrderAt: s.now, AvailableAt: s.cr.AvailableAt}
	if !q.AvailableAt.IsZero() {
		q.OrderAt = q.AvailableAt
	}
	if s.cr.SubmitOptions != nil && s.cr.Score != nil {
		q.OrderAt = s.now.Add(-s.cr.Score.Duration)
	}
	return q
}

// admit refuses a submission that makes a new item when a queue has no room
// for it or a rate limit is reached, else counts it against those. Repeats and
// merges make no new item and don't come here.
func (s *submission) admit() error {
	set := &s.typ.Settings
	if err := full("type "+string(s.c.Type), s.typ.Waiting(), set.MaxQueued, set.QueueSteps, s.cr); err != nil {
		return err
	}
	if l := &s.state.limits; l.MaxQueued > 0 || len(l.QueueSteps) > 0 {
		if err := full("the engine", s.state.Waiting(), l.MaxQueued, l.QueueSteps, s.cr); err != nil {
			return err
		}
	}
	if len(set.Rates) == 0 {
		return nil
	}
	taken, err := s.takeRates(s.c.Type, set, events.AtSubmit, func(per string) string { return events.ValueOf(per, s.cr.Tenant, s.cr.Labels) })
	if len(taken) > 0 {
		termsOf(s.cr).Rates = taken
	}
	return err
}

// full refuses one more item when so many wait already. Of the steps, the last
// that is exceeded counts.
func full(whose string, waiting int64, most int, steps []events.QueueStep, cr *events.Created) error {
	if most > 0 && waiting >= int64(most) {
		return queueFull("%s has %d items waiting, of at most %d: submit it again later", whose, waiting, most)
	}
	for _, st := range slices.Backward(steps) {
		if waiting < int64(st.Over) {
			continue
		}
		if st.MinPriority > 0 && cr.Priority >= st.MinPriority || slices.Contains(st.Sources, cr.Provenance.Source) {
			return nil
		}
		if st.MinPriority == 0 {
			return queueFull("%s has %s waiting: beyond %d only some sources may submit, and %q is none of them", whose, events.Count(waiting, "item"), st.Over, cr.Provenance.Source)
		}
		return queueFull("%s has %s waiting: beyond %d it takes only priority %d and above", whose, events.Count(waiting, "item"), st.Over, st.MinPriority)
	}
	return nil
}

func queueFull(format string, args ...any) error {
	e := events.Refuse(events.CodeQueueFull, format, args...)
	e.RetryAfter = QueueFullRetryAfter
	return e
}
