package config

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Patch is the settings of a type that the file names; nil fields are not
// named.
type Patch struct {
	Capacity    *int
	Lease       *time.Duration
	AgeStep     *time.Duration
	MaxParams   *int64 // bytes
	PoisonAfter *int
	Circuit     CircuitPatch
	Codes       map[string]CodePatch // by failure code
	DedupPolicy *events.DedupPolicy
	Protocol    *events.Protocol
	DedupWindow *time.Duration
	Retain      RetainPatch
	Run         RunPatch
	Limits      LimitsPatch
	PerPriority map[events.Priority]RunPatch
}

// RetainPatch is the part of a Patch that says how long ended items are kept.
type RetainPatch struct {
	Completed *time.Duration
	Dead      *time.Duration
	Cancelled *time.Duration
	Merged    *time.Duration
}

// RunPatch is the part of a Patch that a priority may have of its own.
type RunPatch struct {
	Timeout     *time.Duration
	MaxAttempts *int
	Backoff     BackoffPatch
}

// BackoffPatch is the part of a backoff that the file names.
type BackoffPatch struct {
	Initial *time.Duration
	Factor  *float64
	Max     *time.Duration
	Jitter  *float64
}

// Apply returns base with the patch's settings laid over it; base is left as
// it is. A backoff named for a priority is completed from the type's.
func (p Patch) Apply(base events.TypeSettings) events.TypeSettings {
	s := base
	put(&s.Capacity, p.Capacity)
	putMS(&s.LeaseMS, p.Lease)
	putMS(&s.AgeStepMS, p.AgeStep)
	if p.MaxParams != nil {
		s.MaxParams = int(*p.MaxParams)
	}
	put(&s.DedupPolicy, p.DedupPolicy)
	put(&s.Protocol, p.Protocol)
	putMS(&s.DedupWindowMS, p.DedupWindow)
	putMS(&s.Retain.CompletedMS, p.Retain.Completed)
	putMS(&s.Retain.DeadMS, p.Retain.Dead)
	putMS(&s.Retain.CancelledMS, p.Retain.Cancelled)
	putMS(&s.Retain.MergedMS, p.Retain.Merged)
	if putMS(&s.TimeoutMS, p.Run.Timeout); p.Run.Timeout != nil {
		s.TimeoutSet = true
	}
	if p.Run.MaxAttempts != nil {
		s.MaxAttempts, s.MaxAttemptsSet = events.Attempt(*p.Run.MaxAttempts), true
	}
	s.Backoff = p.Run.Backoff.apply(s.Backoff)
	p.applyProtection(&s)
	p.Limits.apply(&s)
	if len(p.PerPriority) == 0 {
		return s
	}
	s.PerPriority = maps.Clone(base.PerPriority)
	if s.PerPriority == nil {
		s.PerPriority = make(map[events.Priority]events.PriorityOverride, len(p.PerPriority))
	}
	for prio, r := range p.PerPriority {
		s.PerPriority[prio] = r.override(s.PerPriority[prio], s.Backoff)
	}
	return s
}

func (r RunPatch) override(o events.PriorityOverride, typeBackoff events.Backoff) events.PriorityOverride {
	if r.Timeout != nil {
		ms := r.Timeout.Milliseconds()
		o.TimeoutMS = &ms
	}
	if r.MaxAttempts != nil {
		n := events.Attempt(*r.MaxAttempts)
		o.MaxAttempts = &n
	}
	if r.Backoff != (BackoffPatch{}) {
		base := typeBackoff
		if o.Backoff != nil {
			base = *o.Backoff
		}
		b := r.Backoff.apply(base)
		o.Backoff = &b
	}
	return o
}

func (b BackoffPatch) apply(base events.Backoff) events.Backoff {
	putMS(&base.InitialMS, b.Initial)
	put(&base.Factor, b.Factor)
	putMS(&base.MaxMS, b.Max)
	put(&base.Jitter, b.Jitter)
	return base
}

// Empty reports whether the patch names nothing.
func (p Patch) Empty() bool { return len(p.Named()) == 0 }

// Named lists the settings that the patch names, as the file spells them:
// "capacity", "backoff.max_ms", "per_priority.8.timeout_ms".
func (p Patch) Named() []string {
	var names []string
	add := func(name string, set bool) {
		if set {
			names = append(names, name)
		}
	}
	add("capacity", p.Capacity != nil)
	add("lease_ms", p.Lease != nil)
	add("age_step_ms", p.AgeStep != nil)
	add("max_params_bytes", p.MaxParams != nil)
	add("dedup_policy", p.DedupPolicy != nil)
	add("dedup_window_ms", p.DedupWindow != nil)
	add("protocol", p.Protocol != nil)
	add("retain.completed_ms", p.Retain.Completed != nil)
	add("retain.dead_ms", p.Retain.Dead != nil)
	add("retain.cancelled_ms", p.Retain.Cancelled != nil)
	add("retain.merged_ms", p.Retain.Merged != nil)
	p.Run.named("", add)
	p.namedProtection(add)
	p.Limits.named(add)
	for _, prio := range slices.Sorted(maps.Keys(p.PerPriority)) {
		p.PerPriority[prio].named("per_priority."+strconv.Itoa(int(prio))+".", add)
	}
	return names
}

func (r RunPatch) named(at string, add func(string, bool)) {
	add(at+"timeout_ms", r.Timeout != nil)
	add(at+"max_attempts", r.MaxAttempts != nil)
	add(at+"backoff.initial_ms", r.Backoff.Initial != nil)
	add(at+"backoff.factor", r.Backoff.Factor != nil)
	add(at+"backoff.max_ms", r.Backoff.Max != nil)
	add(at+"backoff.jitter", r.Backoff.Jitter != nil)
}

// Conflicts lists the settings that the file names and that wanted would set
// to something else, as in Named. A request that conflicts is refused with
// set_in_file.
func (p Patch) Conflicts(wanted events.TypeSettings) []string {
	var names []string
	for _, one := range p.split() {
		if !reflect.DeepEqual(one.Apply(wanted), wanted) {
			names = append(names, one.Named()...)
		}
	}
	return names
}

// split makes one patch of each setting. A backoff stays whole: its parts are
// one setting of a type.
func (p Patch) split() []Patch {
	var out []Patch
	add := func(q Patch) {
		if !q.Empty() {
			out = append(out, q)
		}
	}
	add(Patch{Capacity: p.Capacity})
	add(Patch{Lease: p.Lease})
	add(Patch{AgeStep: p.AgeStep})
	add(Patch{MaxParams: p.MaxParams})
	add(Patch{DedupPolicy: p.DedupPolicy})
	add(Patch{DedupWindow: p.DedupWindow})
	add(Patch{Protocol: p.Protocol})
	add(Patch{Retain: RetainPatch{Completed: p.Retain.Completed}})
	add(Patch{Retain: RetainPatch{Dead: p.Retain.Dead}})
	add(Patch{Retain: RetainPatch{Cancelled: p.Retain.Cancelled}})
	add(Patch{Retain: RetainPatch{Merged: p.Retain.Merged}})
	for _, r := range p.Run.split() {
		add(Patch{Run: r})
	}
	p.splitProtection(add)
	for _, l := range p.Limits.split() {
		add(Patch{Limits: l})
	}
	for _, prio := range slices.Sorted(maps.Keys(p.PerPriority)) {
		for _, r := range p.PerPriority[prio].split() {
			add(Patch{PerPriority: map[events.Priority]RunPatch{prio: r}})
		}
	}
	return out
}

func (r RunPatch) split() []RunPatch {
	return []RunPatch{{Timeout: r.Timeout}, {MaxAttempts: r.MaxAttempts}, {Backoff: r.Backoff}}
}

func put[T any](dst, v *T) {
	if v != nil {
		*dst = *v
	}
}

func putMS(dst *int64, v *time.Duration) {
	if v != nil {
		*dst = v.Milliseconds()
	}
}
