package events

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// What a [RateLimit] counts, and when; and what makes a group. A label's name
// stands behind PerLabel.
const (
	PerType    = "type"
	PerTenant  = "tenant"
	PerLabel   = "label:"
	PerNone    = "none" // of GroupBy only
	AtSubmit   = "submit"
	AtDispatch = "dispatch"
)

// Bounds of the limits' settings.
const (
	MaxMaxQueued     = 1_000_000_000
	DefaultMaxQueued = 1_000_000 // of a type that sets none
	MaxGroupCapacity = MaxCapacity
	MaxStepSources   = 100
	MaxRateN         = 1_000_000                 // per interval, and of a burst
	MaxRatePerMS     = 1000                      // of N for each millisecond of the interval
	MaxRateInterval  = 31 * 24 * time.Hour       // of a rate limit
	MaxRateRefill    = 10 * 365 * 24 * time.Hour // from an empty bucket to a full one
	MaxPoolSlots     = 100_000
	MaxPoolWeight    = 1000
	MaxPoolName      = 63
)

// GroupKey returns what makes the type's groups: [PerTenant], [PerNone], or a label.
func (s TypeSettings) GroupKey() string {
	if s.GroupBy == "" {
		return PerTenant
	}
	return s.GroupBy
}

// Weight returns the type's share of its pool.
func (s TypeSettings) Weight() int { return max(s.PoolWeight, 1) }

// ValueOf returns what a submission or an item has for a key ([PerTenant], or a label's),
// empty for nothing.
func ValueOf(key, tenant string, labels map[string]string) string {
	if key == PerTenant {
		return tenant
	}
	if name, ok := strings.CutPrefix(key, PerLabel); ok {
		return labels[name]
	}
	return ""
}

func checkKey(key string) error {
	name, label := strings.CutPrefix(key, PerLabel)
	switch {
	case key == PerTenant:
	case !label:
		return fmt.Errorf("is %q: it must be %s or %sNAME", Clip(key, 80), PerTenant, PerLabel)
	case name == "" || len(name) > MaxLabelLen || strings.ContainsAny(name, "=,") || !utf8.ValidString(name):
		return fmt.Errorf("is %q: a label's name has 1 to %d bytes, without = and ,", Clip(key, 80), MaxLabelLen)
	}
	return nil
}

func (s TypeSettings) validateLimits() (errs []error) {
	check := func(name string, v, hi int) {
		if v < 0 || v > hi {
			errs = append(errs, fmt.Errorf("%s is %d: it must be 0 to %d", name, v, hi))
		}
	}
	check("max_queued", s.MaxQueued, MaxMaxQueued)
	check("group_capacity", s.GroupCapacity, MaxGroupCapacity)
	check("pool_weight", s.PoolWeight, MaxPoolWeight)
	if s.Pool != "" {
		errs = append(errs, checkPoolName(s.Pool)...)
	}
	if g := s.GroupKey(); g != PerNone {
		if err := checkKey(g); err != nil {
			errs = append(errs, fmt.Errorf("group_by %w, or %s", err, PerNone))
		}
	} else if s.GroupCapacity > 0 {
		errs = append(errs, fmt.Errorf("group_capacity is %d, but group_by is %s: without groups, set capacity", s.GroupCapacity, PerNone))
	}
	errs = append(errs, validateSteps(s.QueueSteps, s.MaxQueued)...)
	return append(errs, s.validateRates()...)
}

func checkPoolName(name string) []error {
	if !words(name, "_-") || len(name) > MaxPoolName {
		return []error{fmt.Errorf("pool is %q: a pool's name is at most %d characters of a-z and 0-9 with single - or _ between", Clip(name, 80), MaxPoolName)}
	}
	return nil
}

func validateSteps(steps []QueueStep, most int) (errs []error) {
	if n := len(steps); n > MaxQueueSteps {
		return []error{fmt.Errorf("queue_steps has %d steps: at most %d", n, MaxQueueSteps)}
	}
	over := -1
	for i, st := range steps {
		at := fmt.Sprintf("queue_steps[%d]", i)
		switch {
		case st.Over <= over || st.Over > MaxMaxQueued:
			errs = append(errs, fmt.Errorf("%s.over is %d: it must be 0 to %d and above the step before", at, st.Over, MaxMaxQueued))
		case most > 0 && st.Over >= most:
			errs = append(errs, fmt.Errorf("%s.over is %d, max_queued %d: the step would never count", at, st.Over, most))
		}
		over = st.Over
		if st.MinPriority > MaxPriority {
			errs = append(errs, fmt.Errorf("%s.min_priority is %d: it must be 0 to %d", at, st.MinPriority, MaxPriority))
		}
		if st.MinPriority == 0 && len(st.Sources) == 0 {
			errs = append(errs, fmt.Errorf("%s says nothing: give min_priority or sources", at))
		}
		if n := len(st.Sources); n > MaxStepSources {
			errs = append(errs, fmt.Errorf("%s.sources has %d: at most %d", at, n, MaxStepSources))
		}
		for _, src := range st.Sources {
			if src == "" || len(src) > MaxNameLen || !utf8.ValidString(src) {
				errs = append(errs, fmt.Errorf("%s.sources has %q: a source has 1 to %d bytes of UTF-8", at, Clip(src, 80), MaxNameLen))
			}
		}
	}
	return errs
}

func (s TypeSettings) validateRates() (errs []error) {
	if n := len(s.Rates); n > MaxRates {
		return []error{fmt.Errorf("rates has %d limits: at most %d", n, MaxRates)}
	}
	seen := map[string]bool{}
	for i, r := range s.Rates {
		at := fmt.Sprintf("rates[%d]", i)
		for _, err := range r.validate() {
			errs = append(errs, fmt.Errorf("%s.%w", at, err))
		}
		if r.At == AtDispatch && r.Per != PerType && r.Per != s.GroupKey() {
			errs = append(errs, fmt.Errorf("%s.per is %q: at dispatch a limit is per type, or per the type's group_by, which is %s; at submit, per any key", at, Clip(r.Per, 80), Clip(s.GroupKey(), 80)))
		}
		key := r.Key("")
		if seen[key] {
			errs = append(errs, fmt.Errorf("%s has the per, at and interval of another: keep one of them", at))
		}
		seen[key] = true
	}
	return errs
}

// Validate reports everything about the limit that is out of bounds, joined.
func (r RateLimit) Validate() error { return errors.Join(r.validate()...) }

func (r RateLimit) validate() (errs []error) {
	if r.Per != PerType {
		if err := checkKey(r.Per); err != nil {
			errs = append(errs, fmt.Errorf("per %w, or %s", err, PerType))
		}
	}
	if r.At != AtSubmit && r.At != AtDispatch {
		errs = append(errs, fmt.Errorf("at is %q: it must be %s or %s", Clip(r.At, 80), AtSubmit, AtDispatch))
	}
	ms := r.Interval.Milliseconds()
	if most := MaxRateInterval.Milliseconds(); ms < 1 || ms > most {
		return append(errs, fmt.Errorf("interval_ms is %d: it must be 1 to %d", ms, most))
	}
	if hi := min(MaxRateN, MaxRatePerMS*ms); int64(r.N) < 1 || int64(r.N) > hi {
		return append(errs, fmt.Errorf("n is %d: it must be 1 to %d in such an interval", r.N, hi))
	}
	if r.Burst < 0 || r.Burst > MaxRateN {
		return append(errs, fmt.Errorf("burst is %d: it must be 0 to %d", r.Burst, MaxRateN))
	}
	if hi := int64(MaxRateRefill / r.Step()); int64(r.AtOnce()) > hi {
		errs = append(errs, fmt.Errorf("burst is %d: it must be at most %d, or it would take more than ten years to fill", r.Burst, hi))
	}
	return errs
}

// Validate reports every limit of the engine that is out of bounds, joined.
func (l Limits) Validate() error {
	var errs []error
	if l.MaxQueued < 0 || l.MaxQueued > MaxMaxQueued {
		errs = append(errs, fmt.Errorf("max_queued is %d: it must be 0 to %d", l.MaxQueued, MaxMaxQueued))
	}
	if d := l.TimeToStart(); d < MinStartTimeout || d > MaxStartTimeout {
		errs = append(errs, fmt.Errorf("start_timeout is %s: it must be %s to %s", d, MinStartTimeout, MaxStartTimeout))
	}
	errs = append(errs, validateSteps(l.QueueSteps, l.MaxQueued)...)
	if n := len(l.Pools); n > MaxPools {
		errs = append(errs, fmt.Errorf("there are %d pools: at most %d", n, MaxPools))
	}
	for _, name := range slices.Sorted(maps.Keys(l.Pools)) {
		errs = append(errs, checkPoolName(name)...)
		if n := l.Pools[name].Slots; n < 1 || n > MaxPoolSlots {
			errs = append(errs, fmt.Errorf("pools.%s.slots is %d: it must be 1 to %d", name, n, MaxPoolSlots))
		}
	}
	return errors.Join(errs...)
}

// Key names the limit's state for a value of what it is per; empty for a limit
// per type. After a change of N or Burst the present state stays in use.
func (r RateLimit) Key(value string) string {
	return r.At + " " + strconv.FormatInt(r.Interval.Milliseconds(), 10) + " " + r.Per + "=" + value
}

// unsetBurst is the share of N, one in so many, that a limit at dispatch lets
// through at once beside the first, unless Burst says how many. It makes up for
// runs that begin a little late.
const unsetBurst = 20

// extra returns how many of N an unset burst sets aside.
func (r RateLimit) extra() int {
	if r.At != AtDispatch || r.Burst != 0 {
		return 0
	}
	return r.N / unsetBurst
}

// AtOnce returns how many fit through at once. In any interval at most N +
// burst - 1 get through, with the step of a set burst. A limit at dispatch whose
// burst is not set has 1 + extra, and a step that is so much longer that never
// more than N runs begin in any interval.
func (r RateLimit) AtOnce() int {
	switch {
	case r.Burst != 0:
		return r.Burst
	case r.At == AtDispatch:
		return 1 + r.extra()
	}
	return r.N
}

// Step returns the time that one through takes of the bucket, rounded up.
func (r RateLimit) Step() time.Duration {
	n := time.Duration(max(r.N-r.extra(), 1))
	return (r.Interval.Duration + n - 1) / n
}
