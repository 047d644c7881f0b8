package events

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Backoff sets the wait before a retry: Initial × Factor^(attempt-1), at
// most Max, lengthened by up to Jitter (a fraction of it).
type Backoff struct {
	Initial Duration `json:"initial_ms"`
	Factor  float64  `json:"factor"`
	Max     Duration `json:"max_ms"`
	Jitter  float64  `json:"jitter"`
}

// TypeSettings are a type's settings, all filled in.
type TypeSettings struct {
	Capacity    int      `json:"capacity"` // items dispatched or running at most
	Lease       Duration `json:"lease_ms"` // a run ends after so long without a word from its worker; for ack types, the ack-wait
	Timeout     Duration `json:"timeout_ms"`
	MaxAttempts Attempt  `json:"max_attempts"`
	Backoff     Backoff  `json:"backoff"`
	AgeStep     Duration `json:"age_step_ms"` // waiting this long equals one priority
	MaxParams   int      `json:"max_params_bytes"`
	// PerPriority overrides some settings for items of a priority.
	PerPriority map[Priority]PriorityOverride `json:"per_priority,omitempty"`

	// Of what follows, the zero value is the default.
	DedupPolicy DedupPolicy           `json:"dedup_policy,omitempty"`
	DedupWindow Duration              `json:"dedup_window_ms,omitzero"` // a key stays taken so long after completion
	Codes       map[string]CodePolicy `json:"codes,omitempty"`          // laid over the built-in ones
	PoisonAfter int                   `json:"poison_after,omitempty"`   // lost leases until an item is dead; 0: DefaultPoisonAfter
	Circuit     CircuitSettings       `json:"circuit,omitzero"`
	MaxQueued   int                   `json:"max_queued,omitempty"` // items queued or waiting; 0: no limit
	QueueSteps  []QueueStep           `json:"queue_steps,omitempty"`
	Rates       []RateLimit           `json:"rates,omitempty"`
	Pool        string                `json:"pool,omitempty"`        // whose slots the type's runs take as well
	PoolWeight  int                   `json:"pool_weight,omitempty"` // its share of the pool when it is contended; 0: 1
	// GroupBy says what makes a group, among which the items of a priority take
	// turns: tenant (the default), label:NAME, or none.
	GroupBy       string    `json:"group_by,omitempty"`
	GroupCapacity int       `json:"group_capacity,omitempty"` // items of one group that run at once; 0: no limit
	Retain        Retention `json:"retain,omitzero"`
	Protocol      Protocol  `json:"protocol,omitempty"` // how items reach their workers: offer (the default) or ack
	// AssignBy says which worker with a free slot is assigned an item: most_free (the
	// default), round_robin, or, for tenant and label:NAME, the same worker for all
	// items with the same value, chosen by a hash.
	AssignBy string `json:"assign_by,omitempty"`

	// TimeoutSet and MaxAttemptsSet say that somebody chose these two values,
	// though it be the default: then no built-in policy of a failure code
	// changes them.
	TimeoutSet     bool `json:"timeout_set,omitempty"`
	MaxAttemptsSet bool `json:"max_attempts_set,omitempty"`
}

// PriorityOverride holds the settings that a priority may have of its own. Nil fields follow
// the type.
type PriorityOverride struct {
	Timeout     *Duration `json:"timeout_ms,omitempty"`
	MaxAttempts *Attempt  `json:"max_attempts,omitempty"`
	Backoff     *Backoff  `json:"backoff,omitempty"`
}

// ProtectedTypeSettings returns the settings that an engine's configuration begins
// with: the defaults, with a circuit and a queue limit. The settings of a type are
// recorded when it becomes known; logs from before these existed have neither.
func ProtectedTypeSettings() TypeSettings {
	s := DefaultTypeSettings()
	s.Circuit.Consecutive = DefaultConsecutive
	s.MaxQueued = DefaultMaxQueued
	return s
}

// DefaultTypeSettings returns the settings of a type that neither the log nor a
// configuration mentions: nothing limits it but its capacity.
func DefaultTypeSettings() TypeSettings {
	return TypeSettings{
		Capacity:    MaxCapacity,
		Lease:       DurationOf(DefaultLease),
		Timeout:     DurationOf(DefaultTimeout),
		MaxAttempts: DefaultMaxAttempts,
		Backoff:     Backoff{Initial: DurationOf(time.Second), Factor: 2, Max: DurationOf(30 * time.Second), Jitter: 0.3},
		AgeStep:     DurationOf(DefaultAgeStep),
		MaxParams:   MaxParamsBytes,
	}
}

// For returns the timeout, attempts and backoff of items of priority p.
func (s TypeSettings) For(p Priority) (timeout time.Duration, attempts Attempt, b Backoff) {
	timeout, attempts, b = s.Timeout.Duration, s.MaxAttempts, s.Backoff
	if o, ok := s.PerPriority[p]; ok {
		if o.Timeout != nil {
			timeout = o.Timeout.Duration
		}
		if o.MaxAttempts != nil {
			attempts = *o.MaxAttempts
		}
		if o.Backoff != nil {
			b = *o.Backoff
		}
	}
	return timeout, attempts, b
}

// Validate reports every setting that is out of bounds, joined.
func (s TypeSettings) Validate() error {
	var errs []error
	check := func(name string, v, lo, hi int64) {
		if v < lo || v > hi {
			errs = append(errs, fmt.Errorf("%s is %d: it must be %d to %d", name, v, lo, hi))
		}
	}
	check("capacity", int64(s.Capacity), 1, MaxCapacity)
	check("lease_ms", s.Lease.Milliseconds(), MinLease.Milliseconds(), MaxLease.Milliseconds())
	check("timeout_ms", s.Timeout.Milliseconds(), 1, MaxTimeout.Milliseconds())
	check("max_attempts", int64(s.MaxAttempts), 1, MaxAttemptsCeiling)
	check("age_step_ms", s.AgeStep.Milliseconds(), 1, MaxDelay.Milliseconds())
	check("max_params_bytes", int64(s.MaxParams), 2, MaxParamsCeiling)
	errs = append(errs, s.Backoff.validate("backoff")...)
	errs = append(errs, s.Retain.validate()...)
	for _, p := range slices.Sorted(maps.Keys(s.PerPriority)) {
		o := s.PerPriority[p]
		at := fmt.Sprintf("priority %d: ", p)
		check(at+"priority", int64(p), 0, int64(MaxPriority))
		if o.Timeout != nil {
			check(at+"timeout_ms", o.Timeout.Milliseconds(), 1, MaxTimeout.Milliseconds())
		}
		if o.MaxAttempts != nil {
			check(at+"max_attempts", int64(*o.MaxAttempts), 1, MaxAttemptsCeiling)
		}
		if o.Backoff != nil {
			errs = append(errs, o.Backoff.validate(at+"backoff")...)
		}
	}
	errs = append(errs, s.validateProtection()...)
	errs = append(errs, s.validateDedup()...)
	errs = append(errs, s.validateLimits()...)
	errs = append(errs, s.validateProtocol()...)
	errs = append(errs, s.validateAssignBy()...)
	return errors.Join(errs...)
}

func (b Backoff) validate(name string) (errs []error) {
	const day = 24 * time.Hour
	if b.Initial.Duration < 0 || b.Initial.Duration > day {
		errs = append(errs, fmt.Errorf("%s.initial_ms is %d: it must be 0 to %d", name, b.Initial.Milliseconds(), day.Milliseconds()))
	}
	if b.Max.Duration < b.Initial.Duration || b.Max.Duration > day {
		errs = append(errs, fmt.Errorf("%s.max_ms is %d: it must be initial_ms (%d) to %d", name, b.Max.Milliseconds(), b.Initial.Milliseconds(), day.Milliseconds()))
	}
	if !(b.Factor >= 1 && b.Factor <= 100) {
		errs = append(errs, fmt.Errorf("%s.factor is %g: it must be 1 to 100", name, b.Factor))
	}
	if !(b.Jitter >= 0 && b.Jitter <= 1) {
		errs = append(errs, fmt.Errorf("%s.jitter is %g: it must be 0 to 1", name, b.Jitter))
	}
	return errs
}

// The sources of a type's settings.
const (
	SourceDefault = "default"
	SourceFile    = "file"
	SourceAPI     = "api"
)

// How long ended items are kept where nothing is set.
const (
	DefaultRetain     = 24 * time.Hour
	DefaultRetainDead = 30 * 24 * time.Hour
)

// For returns how long an item is kept once it has ended in a terminal state.
func (r Retention) For(state ItemState) time.Duration {
	switch state {
	case StateDead:
		return cmp.Or(r.Dead.Duration, DefaultRetainDead)
	case StateCancelled:
		return cmp.Or(r.Cancelled.Duration, DefaultRetain)
	case StateMerged:
		return cmp.Or(r.Merged.Duration, DefaultRetain)
	}
	return cmp.Or(r.Completed.Duration, DefaultRetain)
}

func (r Retention) validate() (errs []error) {
	for _, f := range []struct {
		name string
		d    Duration
	}{{"completed_ms", r.Completed}, {"dead_ms", r.Dead}, {"cancelled_ms", r.Cancelled}, {"merged_ms", r.Merged}} {
		if f.d.Duration < 0 || f.d.Duration > MaxDelay {
			errs = append(errs, fmt.Errorf("retain.%s is %d: it must be 1 to %d, or 0 for the default", f.name, f.d.Milliseconds(), MaxDelay.Milliseconds()))
		}
	}
	return errs
}

// UnsetTypeSettings says what a setting of a type does that is not set: each zero
// value that stands for a default has that default in its place. What has no
// default (a limit, a rate) stays zero.
func UnsetTypeSettings() TypeSettings {
	s := DefaultTypeSettings()
	s.DedupPolicy, s.PoisonAfter, s.PoolWeight, s.GroupBy, s.AssignBy = DedupMerge, DefaultPoisonAfter, 1, PerTenant, AssignMostFree
	s.Circuit = s.Circuit.WithDefaults()
	keep := func(state ItemState) Duration { return DurationOf(Retention{}.For(state)) }
	s.Retain = Retention{Completed: keep(StateCompleted), Dead: keep(StateDead), Cancelled: keep(StateCancelled), Merged: keep(StateMerged)}
	return s
}

// Protocol says how the items of a type reach their workers.
type Protocol string

// The protocols.
const (
	// ProtocolOffer, which a type's settings spell as the empty string, has workers
	// register, offer room, run what they are sent, and report how it ended.
	ProtocolOffer Protocol = "offer"
	// ProtocolAck lets any JetStream consumer be a worker: how it answers the
	// message says how the run ended. See docs/guides/ACK.md.
	ProtocolAck Protocol = "ack"
)

// UnmarshalText implements encoding.TextUnmarshaler. The default has one
// spelling only, so that settings that say the same are the same.
func (p *Protocol) UnmarshalText(b []byte) error {
	*p = Protocol(b).Canonical()
	return nil
}

// Canonical returns p as settings hold it: the default is the empty string.
func (p Protocol) Canonical() Protocol {
	if p == ProtocolOffer {
		return ""
	}
	return p
}

// Ack reports whether the type is an ack type: its items go to a JetStream consumer, whose
// workers answer with nothing but JetStream's acks.
func (s TypeSettings) Ack() bool { return s.Protocol == ProtocolAck }

func (s TypeSettings) validateProtocol() []error {
	switch s.Protocol {
	case "", ProtocolOffer, ProtocolAck:
		return nil
	}
	return []error{fmt.Errorf("protocol is %q: it must be %s or %s", Clip(string(s.Protocol), 64), ProtocolOffer, ProtocolAck)}
}

// The values of [TypeSettings.AssignBy] beside [PerTenant] and [PerLabel].
const (
	AssignMostFree   = "most_free" // also spelled as the empty string
	AssignRoundRobin = "round_robin"
)

func (s TypeSettings) validateAssignBy() []error {
	switch s.AssignBy {
	case "", AssignMostFree, AssignRoundRobin:
		return nil
	}
	switch err := checkKey(s.AssignBy); {
	case err == nil:
		return nil
	case strings.HasPrefix(s.AssignBy, PerLabel):
		return []error{fmt.Errorf("assign_by %w", err)}
	default:
		return []error{fmt.Errorf("assign_by %w, or %s or %s", err, AssignMostFree, AssignRoundRobin)}
	}
}

// ackPrefix begins the name that stands for all workers of an ack type. No worker that
// registers can have it: its id has no colon.
const ackPrefix = "ack:"

// AckWorker returns the name under which the runs of an ack type are recorded: the server
// does not say which of the processes that share the consumer had the message.
func AckWorker(t Type) WorkerID { return WorkerID(ackPrefix + string(t)) }

// Ack reports whether w stands for the workers of an ack type.
func (w WorkerID) Ack() bool { return strings.HasPrefix(string(w), ackPrefix) }
