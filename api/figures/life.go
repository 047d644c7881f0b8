package figures

import (
	"slices"
	"strconv"
	"strings"
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

// attemptsTold is the number of attempts with a label of their own.
const attemptsTold = 5

// vectors are the metrics of items' lives: the ways from state to state, how long
// each stage took, what failed and died.
type vectors struct {
	transitions, attempts, failures, retries, dead, recoveries, dispatched, expired *prometheus.CounterVec   // by type
	queued, claimed, running, whole                                                 *prometheus.HistogramVec // by type
	rejections, causes                                                              *prometheus.CounterVec

	most int                  // types with histograms of their own
	own  map[events.Type]bool // those that have them
}

// TypesTogether is the label of all types without histograms of their own; no type has
// this name.
const TypesTogether = "(others)"

// label returns the type's label in histograms: its name for the first types that are
// used.
func (v *vectors) label(t events.Type) string {
	if !v.own[t] {
		if len(v.own) >= v.most {
			return TypesTogether
		}
		v.own[t] = true
	}
	return string(t)
}

// handles are a type's metrics, as they are needed: to find one by its labels
// takes longer.
type handles struct {
	transitions [events.NumStates][events.NumStates]prometheus.Counter
	attempts    [attemptsTold + 2]prometheus.Counter
	queued      [levels]prometheus.Observer
	claimed     prometheus.Observer
	running     [events.NumKinds]prometheus.Observer
	whole       [events.NumStates]prometheus.Observer
}

// held returns the metric in a slot, which find fills at its first use.
func held[M any](slot *M, find func() M) M {
	if any(*slot) == nil {
		*slot = find()
	}
	return *slot
}

// life is an item's standing within a batch.
type life struct {
	state            events.ItemState
	code             string // of the failure that the batch has for it
	priority         events.Priority
	createdAt, since time.Time // since: when it entered its state (queued: or became due)
}

func newVectors(counter func(string, string, ...string) *prometheus.CounterVec, histogram func(string, string, []float64, ...string) *prometheus.HistogramVec) vectors {
	seconds := prometheus.ExponentialBuckets(1e-3, 4, 12) // to 70 minutes
	v := vectors{
		most: events.MaxTypes, own: map[events.Type]bool{},
		transitions: counter("transitions_total", "Items that went from a state to another (none: they did not exist).", "type", "from", "to"),
		attempts:    counter("attempts_total", "Runs that were claimed, by the number of the attempt: 1 to 5, more.", "type", "attempt"),
		failures:    counter("failures_total", "Attempts that failed, by code: those of docs/reference/ERRORS.md that the engine knows (lease_expired, timeout, killed, panic, error, network, …), other for any that a worker has made up.", "type", "code"),
		retries:     counter("retries_total", "Items queued again after a failed attempt, by the code of its failure (as in failures_total).", "type", "code"),
		dead:        counter("dead_total", "Items that died, by reason: "+strings.Join(events.DeadReasons(), ", ")+".", "type", "reason"),
		rejections:  counter("rejections_total", "Submissions that became no item, by the code of the refusal (duplicate: a repeat of what was accepted).", "code"),
		causes:      counter("causes_noted_total", "Causes of death that were new, or grew fast (why: new, growing).", "why"),
		recoveries:  counter("recoveries_total", "What the engine has repaired, by cause: lease_expired, timeout, not_started, unclaimed, worker_gone, dispatch_lost.", "type", "cause"),
		dispatched:  counter("dispatched_total", "Items sent to a run subject.", "type"),
		expired:     counter("leases_expired_total", "Runs whose worker was silent for a lease.", "type"),
		queued:      histogram("queued_seconds", "Time that an item waited for a claim: from when it was queued, or due if that was later.", seconds, "type", "priority"),
		claimed:     histogram("claimed_seconds", "Time from an item's claim to the start of its run.", prometheus.ExponentialBuckets(5e-4, 4, 9), "type"),
		running:     histogram("run_seconds", "Time from the start of a run to its end, by what ended it: completed, failed, released, snoozed, parked, spawned, cancelled.", seconds, "type", "outcome"),
		whole:       histogram("item_seconds", "Time from an item's creation to its end: completed, dead, cancelled, merged.", prometheus.ExponentialBuckets(1e-3, 4, 14), "type", "outcome"),
	}
	// From 0 on, as Zero says.
	for _, code := range rejectionCodes {
		v.rejections.WithLabelValues(string(code))
	}
	for _, why := range []string{events.CauseNew, events.CauseGrowing} {
		v.causes.WithLabelValues(why)
	}
	return v
}

// Zero has a type's deaths counted from 0 on: Prometheus can't tell that a
// counter has grown whose first sample comes after that, as when many items die
// at once. It may be called again.
func (f *Figures) Zero(t events.Type) {
	for _, reason := range events.DeadReasons() {
		f.dead.WithLabelValues(string(t), reason)
	}
}

// forget drops the metrics of a type that is gone: names come and go, and there
// is no bound to how many there ever were.
func (v *vectors) forget(t events.Type) {
	delete(v.own, t)
	labels := prometheus.Labels{"type": string(t)}
	for _, c := range [...]*prometheus.CounterVec{v.transitions, v.attempts, v.failures, v.retries, v.dead, v.recoveries, v.dispatched, v.expired} {
		c.DeletePartialMatch(labels)
	}
	for _, h := range [...]*prometheus.HistogramVec{v.queued, v.claimed, v.running, v.whole} {
		h.DeletePartialMatch(labels)
	}
}

// others counts what a batch says that is about no item.
func (f *Figures) others(c *core.Changes) {
	for i := range c.Rejected {
		if r := &c.Rejected[i]; r.Body != nil && r.Seq > f.from {
			f.rejections.WithLabelValues(rejectionCode(r.Body.Code)).Inc()
		}
	}
	for i := range c.Noted {
		if b, ok := c.Noted[i].Body.(*events.CauseNoted); ok && c.Noted[i].Seq > f.from {
			f.causes.WithLabelValues(b.Why).Inc()
		}
	}
}

// enter notes the items of a batch as they were before it.
func (f *Figures) enter(c *core.Changes) {
	f.lives = f.lives[:0]
	clear(f.index)
	if c.Meta.Applied <= f.from {
		return // none of it is counted
	}
	for i := range c.Items {
		it := c.Items[i].New
		if it == nil {
			it = c.Items[i].Old
		}
		if _, known := f.index[it.ID]; !known { // an item that was pruned and created anew is there twice
			f.index[it.ID] = int32(len(f.lives))
			f.lives = append(f.lives, lifeOf(c.Items[i].Old))
		}
	}
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

// step moves an item on, and counts that.
func (f *Figures) step(t *typeFigures, l *life, ev *events.Event) {
	to, moves := events.Next(l.state, ev.Kind)
	if !moves {
		return // carried, pruned: nothing has happened to the item
	}
	from, since := l.state, l.since
	l.state = to
	if from != to || ev.Kind == events.KindRescheduled {
		l.enter(ev, from)
	}
	if ev.Seq <= f.from || from == to {
		return
	}
	typ, took := string(ev.Type), max(ev.At.Sub(since), 0).Seconds()
	held(&t.transitions[from][to], func() prometheus.Counter {
		return f.transitions.WithLabelValues(typ, stateName(from), stateName(to))
	}).Inc()
	switch {
	case to == events.StateClaimed:
		held(&t.handles.queued[l.priority], func() prometheus.Observer {
			return f.queued.WithLabelValues(f.label(ev.Type), strconv.Itoa(int(l.priority)))
		}).Observe(took)
		attempt := min(int(max(ev.Attempt, 1)), attemptsTold+1)
		held(&t.attempts[attempt], func() prometheus.Counter { return f.attempts.WithLabelValues(typ, attemptName(attempt)) }).Inc()
	case from == events.StateClaimed && to == events.StateRunning:
		held(&t.claimed, func() prometheus.Observer { return f.claimed.WithLabelValues(f.label(ev.Type)) }).Observe(took)
	case from == events.StateRunning:
		held(&t.running[ev.Kind], func() prometheus.Observer { return f.running.WithLabelValues(f.label(ev.Type), ev.Kind.String()) }).Observe(took)
	}
	if to.Terminal() {
		held(&t.whole[to], func() prometheus.Observer { return f.whole.WithLabelValues(f.label(ev.Type), to.String()) }).Observe(max(ev.At.Sub(l.createdAt), 0).Seconds())
	}
	f.reasons(l, ev)
}

// enter notes since when an item is in its state.
func (l *life) enter(ev *events.Event, from events.ItemState) {
	if ev.Kind != events.KindRescheduled {
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
		if l.priority = b.Priority; from == events.StateQueued {
			l.since = later(l.since, b.AvailableAt)
		}
	}
}

// reasons counts why something failed, or continues.
func (f *Figures) reasons(l *life, ev *events.Event) {
	switch b := ev.Body.(type) {
	case *events.Failed:
		l.code = failureCode(b.Code)
		f.failures.WithLabelValues(string(ev.Type), l.code).Inc()
	case *events.Queued:
		if l.code != "" { // the retry is part of the failure's decision
			f.retries.WithLabelValues(string(ev.Type), l.code).Inc()
		}
		l.code = ""
	case *events.Dead:
		f.dead.WithLabelValues(string(ev.Type), b.Reason).Inc()
	}
}

// knownFailures are the codes that the engine has a retry policy for.
var knownFailures = policy.BuiltinCodes()

// failureCode returns a code if it is the engine's own, else other.
func failureCode(code string) string {
	if _, known := knownFailures[code]; known || code == events.FailPanic || code == events.FailError {
		return code
	}
	return codeOther
}

// rejectionCodes are the engine's own.
var rejectionCodes = []events.Code{events.CodeBadRequest, events.CodeBadParams, events.CodeTooLarge, events.CodeBadType, events.CodeBadPriority, events.CodeBadID,
	events.CodeBadTime, events.CodeBadHeader, events.CodeIDConflict, events.CodeDuplicate, events.CodeNotFound, events.CodeWrongState,
	events.CodeTooManyTypes, events.CodeTypeNotAllowed, events.CodeQueueFull, events.CodeRateLimited, events.CodeQuotaExceeded, events.CodeForbidden, events.CodeUnavailable, events.CodeInternal}

// rejectionCode returns the code of a refusal; a code that a host's dedup hook has
// made up, or a later engine has written, is other.
func rejectionCode(code string) string {
	if slices.Contains(rejectionCodes, events.Code(code)) {
		return code
	}
	return codeOther
}

func stateName(s events.ItemState) string {
	if s == events.StateNone {
		return stateNew
	}
	return s.String()
}

func attemptName(n int) string {
	if n > attemptsTold {
		return moreTries
	}
	return strconv.Itoa(n)
}
