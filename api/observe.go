package api

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/events/policy"
)

// Label values.
const (
	codeOther = "other" // of failures and rejections: a code that is not the engine's own
	stateNew  = "none"  // an item that does not exist yet
	moreTries = "more"  // than attemptsTold
)

// attemptsTold is how many attempts have a label of their own.
const attemptsTold = 5

// observer counts what items go through: from state to state, how long each
// stage took, what failed and died. It is fed by one goroutine at a time.
type observer struct {
	from events.Seq // events up to here are not counted

	transitions, attempts, failures, retries, dead, rejections *prometheus.CounterVec
	queued, claimed, running, whole                            *prometheus.HistogramVec

	types map[events.Type]*typeObserver
	// Of the batch: the items in it, by id.
	lives []life
	index map[events.ID]int32
}

// typeObserver has a type's counters at hand, as they are needed.
type typeObserver struct {
	transitions [events.NumStates][events.NumStates]prometheus.Counter
	queued      [int(events.MaxPriority) + 1]prometheus.Observer
	claimed     prometheus.Observer
	running     [events.NumKinds]prometheus.Observer
	whole       [events.NumStates]prometheus.Observer
	attempts    [attemptsTold + 2]prometheus.Counter
}

// life is where an item is in the midst of a batch.
type life struct {
	state            events.ItemState
	code             string // of the failure that the batch has for it
	priority         events.Priority
	createdAt, since time.Time // since: when it entered its state (queued: or became due)
}

func newObserver(vec func(string, string, ...string) *prometheus.CounterVec, histogram func(string, string, []float64, ...string) *prometheus.HistogramVec) *observer {
	seconds := prometheus.ExponentialBuckets(1e-3, 4, 12) // to 70 minutes
	o := &observer{
		types: map[events.Type]*typeObserver{}, index: map[events.ID]int32{},
		transitions: vec("transitions_total", "Items that went from a state to another (none: they did not exist).", "type", "from", "to"),
		attempts:    vec("attempts_total", "Runs that were claimed, by the number of the attempt: 1 to 5, more.", "type", "attempt"),
		failures:    vec("failures_total", "Attempts that failed, by code: those of docs/reference/ERRORS.md that the engine knows (lease_expired, timeout, killed, panic, error, network, …), other for any that a worker has made up.", "type", "code"),
		retries:     vec("retries_total", "Items queued again after a failed attempt, by the code of its failure (as in failures_total).", "type", "code"),
		dead:        vec("dead_total", "Items that died, by reason: exhausted, not_retryable, poisoned, child_dead, children_not_made, upstream_dead.", "type", "reason"),
		rejections:  vec("rejections_total", "Submissions that became no item, by the code of the refusal (duplicate: a repeat of what was accepted).", "code"),
		queued:      histogram("queued_seconds", "Time that an item waited for a claim: from when it was queued, or due if that was later.", seconds, "type", "priority"),
		claimed:     histogram("claimed_seconds", "Time from an item's claim to the start of its run.", prometheus.ExponentialBuckets(5e-4, 4, 9), "type"),
		running:     histogram("run_seconds", "Time from the start of a run to its end, by what ended it: completed, failed, released, snoozed, spawned, cancelled.", seconds, "type", "outcome"),
		whole:       histogram("item_seconds", "Time from an item's creation to its end: completed, dead, cancelled, merged.", prometheus.ExponentialBuckets(1e-3, 4, 14), "type", "outcome"),
	}
	for _, code := range rejectionCodes {
		o.rejections.WithLabelValues(string(code)) // from 0 on, as begin says
	}
	return o
}

// feed counts a batch.
func (o *observer) feed(c *core.Changes) {
	if c.Meta.Applied <= o.from {
		return
	}
	o.lives = o.lives[:0]
	clear(o.index)
	for i := range c.Items {
		id := idOf(&c.Items[i])
		if _, known := o.index[id]; !known { // an item that was pruned and created anew is there twice
			o.index[id] = int32(len(o.lives))
			o.lives = append(o.lives, lifeOf(c.Items[i].Old))
		}
	}
	for i := range c.History {
		ev := &c.History[i]
		if at, ok := o.index[ev.ID]; ok {
			o.event(&o.lives[at], ev, ev.Seq > o.from)
		}
	}
	for i := range c.Rejected {
		if r := &c.Rejected[i]; r.Body != nil && r.Seq > o.from {
			o.rejections.WithLabelValues(rejectionCode(r.Body.Code)).Inc()
		}
	}
	for _, t := range c.Forgotten {
		o.forget(t)
	}
}

// forget drops the counters of a type that is gone: names come and go, and there
// is no bound to how many there ever were.
func (o *observer) forget(t events.Type) {
	delete(o.types, t)
	labels := prometheus.Labels{"type": string(t)}
	for _, v := range [...]*prometheus.CounterVec{o.transitions, o.attempts, o.failures, o.retries, o.dead} {
		v.DeletePartialMatch(labels)
	}
	for _, v := range [...]*prometheus.HistogramVec{o.queued, o.claimed, o.running, o.whole} {
		v.DeletePartialMatch(labels)
	}
}

func idOf(c *core.ItemChange) events.ID {
	if c.New != nil {
		return c.New.ID
	}
	return c.Old.ID
}

func lifeOf(it *events.Item) (l life) {
	if it == nil {
		return l
	}
	l = life{state: it.State, priority: it.Priority, createdAt: it.CreatedAt}
	switch it.State {
	case events.StateQueued:
		l.since = later(it.QueuedAt, it.AvailableAt)
	case events.StateClaimed:
		l.since = it.ClaimedAt
	case events.StateRunning:
		l.since = it.StartedAt
	}
	return l
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// event moves an item on, and (count) counts that.
func (o *observer) event(l *life, ev *events.Event, count bool) {
	to, moves := events.Next(l.state, ev.Kind)
	if !moves {
		return // carried, pruned: nothing has happened to the item
	}
	from, since := l.state, l.since
	l.state = to
	if from != to || ev.Kind == events.KindRescheduled {
		l.enter(ev, from)
	}
	if !count || from == to {
		return
	}
	t := o.of(ev.Type)
	t.move(o, ev.Type, from, to).Inc()
	took := max(ev.At.Sub(since), 0).Seconds()
	switch {
	case to == events.StateClaimed:
		t.waited(o, ev.Type, l.priority).Observe(took)
		t.attempt(o, ev).Inc()
	case from == events.StateClaimed && to == events.StateRunning:
		t.claim(o, ev.Type).Observe(took)
	case from == events.StateRunning:
		t.ran(o, ev).Observe(took)
	}
	if to.Terminal() {
		t.ended(o, ev.Type, to).Observe(max(ev.At.Sub(l.createdAt), 0).Seconds())
	}
	o.reasons(l, ev)
}

// enter notes since when an item is in its state.
func (l *life) enter(ev *events.Event, from events.ItemState) {
	if from != events.StateQueued || ev.Kind != events.KindRescheduled {
		l.since = ev.At
	}
	switch b := ev.Body.(type) {
	case *events.Created:
		l.createdAt, l.priority = ev.At, b.Priority
	case *events.Queued:
		l.since = later(ev.At, b.AvailableAt)
	case *events.Snoozed:
		l.since = later(ev.At, b.AvailableAt)
	case *events.Replayed:
		l.priority = b.Priority
	case *events.Rescheduled:
		l.priority, l.since = b.Priority, later(l.since, b.AvailableAt)
	}
}

// reasons counts why something failed, or goes on.
func (o *observer) reasons(l *life, ev *events.Event) {
	switch b := ev.Body.(type) {
	case *events.Failed:
		l.code = failureCode(b.Code)
		o.failures.WithLabelValues(string(ev.Type), l.code).Inc()
	case *events.Queued:
		if l.code != "" { // the retry is part of the failure's decision
			o.retries.WithLabelValues(string(ev.Type), l.code).Inc()
		}
		l.code = ""
	case *events.Dead:
		o.dead.WithLabelValues(string(ev.Type), b.Reason).Inc()
	}
}

// knownFailures are the codes that the engine has a retry policy for.
var knownFailures = policy.BuiltinCodes()

// failureCode is a code, if it is the engine's own.
func failureCode(code string) string {
	switch code {
	case events.FailPanic, events.FailError:
		return code
	}
	if _, known := knownFailures[code]; known {
		return code
	}
	return codeOther
}

// rejectionCodes are the engine's own.
var rejectionCodes = []events.Code{events.CodeBadRequest, events.CodeBadParams, events.CodeTooLarge, events.CodeBadType, events.CodeBadPriority, events.CodeBadID,
	events.CodeBadTime, events.CodeBadHeader, events.CodeIDConflict, events.CodeDuplicate, events.CodeNotFound, events.CodeWrongState,
	events.CodeTooManyTypes, events.CodeTypeNotAllowed, events.CodeQueueFull, events.CodeRateLimited, events.CodeQuotaExceeded, events.CodeForbidden, events.CodeUnavailable, events.CodeInternal}

// rejectionCode is the code of a refusal; what a host's dedup hook has
// made up, or a later engine has written, is other.
func rejectionCode(code string) string {
	if slices.Contains(rejectionCodes, events.Code(code)) {
		return code
	}
	return codeOther
}

// deadReasons are those of events.Dead.
var deadReasons = []string{"exhausted", "not_retryable", "poisoned", "child_dead", "upstream_dead"}

// begin has a type's deaths counted from 0 on: Prometheus can't tell that a
// counter has grown whose first sample is of after that, as when many items die at
// once. It may be called by any goroutine, and again.
func (o *observer) begin(t events.Type) {
	for _, reason := range deadReasons {
		o.dead.WithLabelValues(string(t), reason)
	}
}

func (o *observer) of(t events.Type) *typeObserver {
	if to := o.types[t]; to != nil {
		return to
	}
	to := &typeObserver{}
	o.types[t] = to
	return to
}

func (t *typeObserver) move(o *observer, typ events.Type, from, to events.ItemState) prometheus.Counter {
	c := &t.transitions[from][to]
	if *c == nil {
		*c = o.transitions.WithLabelValues(string(typ), stateName(from), stateName(to))
	}
	return *c
}

func stateName(s events.ItemState) string {
	if s == events.StateNone {
		return stateNew
	}
	return s.String()
}

func (t *typeObserver) waited(o *observer, typ events.Type, p events.Priority) prometheus.Observer {
	h := &t.queued[p]
	if *h == nil {
		*h = o.queued.WithLabelValues(string(typ), strconv.Itoa(int(p)))
	}
	return *h
}

func (t *typeObserver) claim(o *observer, typ events.Type) prometheus.Observer {
	if t.claimed == nil {
		t.claimed = o.claimed.WithLabelValues(string(typ))
	}
	return t.claimed
}

func (t *typeObserver) ran(o *observer, ev *events.Event) prometheus.Observer {
	h := &t.running[ev.Kind]
	if *h == nil {
		*h = o.running.WithLabelValues(string(ev.Type), ev.Kind.String())
	}
	return *h
}

func (t *typeObserver) ended(o *observer, typ events.Type, as events.ItemState) prometheus.Observer {
	h := &t.whole[as]
	if *h == nil {
		*h = o.whole.WithLabelValues(string(typ), as.String())
	}
	return *h
}

func (t *typeObserver) attempt(o *observer, ev *events.Event) prometheus.Counter {
	n := min(int(max(ev.Attempt, 1)), attemptsTold+1)
	c := &t.attempts[n]
	if *c == nil {
		label := strconv.Itoa(n)
		if n > attemptsTold {
			label = moreTries
		}
		*c = o.attempts.WithLabelValues(string(ev.Type), label)
	}
	return *c
}
