package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Patch holds the settings of a type that the file sets, by their dotted names:
// "capacity", "backoff.max", "per_priority.9.timeout". A value is written as in
// the file, or is of the type that [events.TypeSettings] has; a
// duration may be a [time.Duration]. The policy of a failure code, "codes.CODE", is one setting, an
// [events.CodePolicy].
type Patch map[string]any

// typeSetting is a row of the table of the settings of types.
type typeSetting struct {
	key, kind, def, doc string
	read                func(v any) (any, error) // as the file writes it
	own                 func(v any) (any, error) // as a [Patch] has it
	put                 func(s *events.TypeSettings, v any)
}

// row makes the setting that ref finds in the settings of a type.
func row[T any](key string, k kind[T], ref func(*events.TypeSettings) *T, doc string) typeSetting {
	d := unsetSettings()
	return typeSetting{key: key, kind: k.name, def: k.text(*ref(&d)), doc: doc,
		read: func(v any) (any, error) { return k.read(v) },
		own:  func(v any) (any, error) { return k.own(v) },
		put:  func(s *events.TypeSettings, v any) { *ref(s) = v.(T) },
	}
}

// unset replaces the default in the documentation.
func (r typeSetting) unset(def string) typeSetting {
	r.def = def
	return r
}

// unsetSettings returns the settings of a type for which nobody has set any.
func unsetSettings() events.TypeSettings {
	s, protected := events.UnsetTypeSettings(), events.ProtectedTypeSettings()
	s.Circuit.Consecutive, s.MaxQueued = protected.Circuit.Consecutive, protected.MaxQueued
	return s
}

const day = 24 * time.Hour

// typeSettings holds all settings of a type except those by failure code and by
// priority. A dot stands for a table.
var typeSettings = []typeSetting{
	row("capacity", integer[int](1, events.MaxCapacity), func(s *events.TypeSettings) *int { return &s.Capacity }, "items of the type dispatched or running at once"),
	row("lease", millis(events.MinLease, events.MaxLease), func(s *events.TypeSettings) *events.Duration { return &s.Lease }, "how long a worker may be silent before its item is given to another; a run keeps the lease that it began with"),
	row("age_step", millis(time.Millisecond, events.MaxDelay), func(s *events.TypeSettings) *events.Duration { return &s.AgeStep }, "an item that has waited this long ranks as one of the next higher priority"),
	row("max_params", size[int](2, events.MaxParamsCeiling), func(s *events.TypeSettings) *int { return &s.MaxParams }, "bound of a submission's params"),
	row("dedup_policy", choice(events.DedupMerge, events.DedupDistinct, events.DedupSupersede, events.DedupDefer), func(s *events.TypeSettings) *events.DedupPolicy { return &s.DedupPolicy }, "what becomes of a submission whose dedup key is taken: `merge`, `distinct`, `supersede`, `defer`"),
	row("dedup_window", millis(0, events.MaxDedupWindow), func(s *events.TypeSettings) *events.Duration { return &s.DedupWindow }, "how long a dedup key stays taken after completion; at most 30 days"),
	row("protocol", protocol, func(s *events.TypeSettings) *events.Protocol { return &s.Protocol }, "how items reach their workers: `offer`, or `ack` for any JetStream consumer ([ACK.md](../guides/ACK.md))").unset("offer"),
	row("assign_by", text.that(alone("assign_by", func(s *events.TypeSettings) *string { return &s.AssignBy })), func(s *events.TypeSettings) *string { return &s.AssignBy }, "which worker with a free slot is [assigned](../guides/WORKERS.md#assigned-items) an item: the one with the `most_free` slots, each in its turn (`round_robin`), or the same one for all items of a `tenant` or with the same `label:NAME`"),
	row("retain.completed", retention, func(s *events.TypeSettings) *events.Duration { return &s.Retain.Completed }, "how long an item is kept once it has completed"),
	row("retain.dead", retention, func(s *events.TypeSettings) *events.Duration { return &s.Retain.Dead }, "how long once it is dead"),
	row("retain.cancelled", retention, func(s *events.TypeSettings) *events.Duration { return &s.Retain.Cancelled }, "how long once it is cancelled"),
	row("retain.merged", retention, func(s *events.TypeSettings) *events.Duration { return &s.Retain.Merged }, "how long once it was merged into another"),
	row("timeout", millis(time.Millisecond, events.MaxTimeout), func(s *events.TypeSettings) *events.Duration { return &s.Timeout }, "how long an attempt may run"),
	row("max_attempts", integer[events.Attempt](1, events.MaxAttemptsCeiling), func(s *events.TypeSettings) *events.Attempt { return &s.MaxAttempts }, "attempts before an item is dead"),
	row("backoff.initial", millis(0, day), func(s *events.TypeSettings) *events.Duration { return &s.Backoff.Initial }, "wait before the first retry"),
	row("backoff.factor", number(1, 100), func(s *events.TypeSettings) *float64 { return &s.Backoff.Factor }, "by how much each further wait is longer"),
	row("backoff.max", millis(0, day), func(s *events.TypeSettings) *events.Duration { return &s.Backoff.Max }, "the longest wait"),
	row("backoff.jitter", number(0, 1), func(s *events.TypeSettings) *float64 { return &s.Backoff.Jitter }, "the part of a wait by which it is lengthened at random, 0 to 1"),
	row("poison_after", integer[int](1, events.MaxPoisonAfter), func(s *events.TypeSettings) *int { return &s.PoisonAfter }, "leases that an item may lose, its worker having died or gone silent, before it is dead as `poisoned`"),
	row("circuit.consecutive", integer[int](0, events.MaxCircuitRuns), func(s *events.TypeSettings) *int { return &s.Circuit.Consecutive }, fmt.Sprintf("failures in a row that open the circuit, at most %d; 0: they don't", events.MaxCircuitRuns)),
	row("circuit.ratio", number(0, 1), func(s *events.TypeSettings) *float64 { return &s.Circuit.Ratio }, "share of failures in the window that opens it, above 0 to 1; 0: it doesn't. Without `consecutive` and `ratio` there is no circuit"),
	row("circuit.window", millis(2*time.Millisecond, events.MaxCircuitWindow), func(s *events.TypeSettings) *events.Duration { return &s.Circuit.Window }, "the time over which the ratio is taken, at most 24h"),
	row("circuit.min_runs", integer[int](0, events.MaxCircuitRuns), func(s *events.TypeSettings) *int { return &s.Circuit.MinRuns }, "runs that must have ended in the window before the ratio counts"),
	row("circuit.cooldown", millis(time.Millisecond, day), func(s *events.TypeSettings) *events.Duration { return &s.Circuit.Cooldown }, "how long it stays open; doubled each time that it opens in a row"),
	row("circuit.max_cooldown", millis(time.Millisecond, day), func(s *events.TypeSettings) *events.Duration { return &s.Circuit.MaxCooldown }, "up to this, at most 24h"),
	row("circuit.probes", integer[int](0, events.MaxCircuitProbes), func(s *events.TypeSettings) *int { return &s.Circuit.Probes }, fmt.Sprintf("runs at once that try it when it is half open, and successes that close it, at most %d", events.MaxCircuitProbes)),
	row("circuit.count_no_retry", truth, func(s *events.TypeSettings) *bool { return &s.Circuit.CountNoRetry }, "failures that are not retried count too"),
	row("max_queued", integer[int](0, events.MaxMaxQueued), func(s *events.TypeSettings) *int { return &s.MaxQueued }, "items queued or waiting beyond which a submission is refused (`queue_full`); 0: no limit"),
	row("queue_steps", steps, func(s *events.TypeSettings) *[]events.QueueStep { return &s.QueueSteps }, stepsDoc).unset("none"),
	row("rates", rates, func(s *events.TypeSettings) *[]events.RateLimit { return &s.Rates }, "rate limits, a table each: `n` per `interval`, up to `burst` at once (unset: `n` at submit; at dispatch never more than `n` in any interval), `per` `type`, `tenant` or `label:NAME`, `at` `submit` (refused with `rate_limited`) or `dispatch` (waits)").unset("none"),
	row("pool", text.that(alone("pool", func(s *events.TypeSettings) *string { return &s.Pool })), func(s *events.TypeSettings) *string { return &s.Pool }, "a pool of `[pools]`, one of whose slots each run takes as well").unset("none"),
	row("pool_weight", integer[int](0, events.MaxPoolWeight), func(s *events.TypeSettings) *int { return &s.PoolWeight }, "the type's share of its pool, among items of one priority, when that is contended; if no type of the pool sets one, they go by priority and time alone"),
	row("group_by", text.that(alone("group_by", func(s *events.TypeSettings) *string { return &s.GroupBy })), func(s *events.TypeSettings) *string { return &s.GroupBy }, "what makes the groups that take turns and that limits per key go by: `tenant`, `label:NAME` or `none`"),
	row("group_capacity", integer[int](0, events.MaxGroupCapacity), func(s *events.TypeSettings) *int { return &s.GroupCapacity }, "items of one group that run at once").unset("no limit"),
}

var retention = millis(time.Millisecond, events.MaxDelay)

// protocol is a protocol. Settings spell the default in one way.
var protocol = kind[events.Protocol]{name: "string", parse: func(v any) (p events.Protocol, err error) {
	if p, err = choice(events.ProtocolOffer, events.ProtocolAck).parse(v); err == nil {
		err = p.UnmarshalText([]byte(p))
	}
	return p, err
}}

// alone checks a setting by itself, as package events does.
func alone[T any](key string, ref func(*events.TypeSettings) *T) func(T) error {
	return func(v T) error {
		s := events.DefaultTypeSettings()
		*ref(&s) = v
		if err := s.Validate(); err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), key+" "))
		}
		return nil
	}
}

// workerCircuitSettings holds the settings of [worker_circuit], kept in a type's
// circuit.
var workerCircuitSettings = []typeSetting{
	row("consecutive", integer[int](0, events.MaxWorkerFailures).that(func(n int) error {
		if n < 0 || n == 1 || n > events.MaxWorkerFailures {
			return fmt.Errorf("is %d: it must be 2 to %d, or 0 for no circuit", n, events.MaxWorkerFailures)
		}
		return nil
	}), func(s *events.TypeSettings) *int { return &s.Circuit.Consecutive }, fmt.Sprintf("different items in a row that a worker fails, while others complete some, until it gets none for a while: 2 to %d, 0 for no circuit", events.MaxWorkerFailures)).unset(strconv.Itoa(events.DefaultWorkerCircuit().Consecutive)),
	row("cooldown", millis(time.Millisecond, day), func(s *events.TypeSettings) *events.Duration { return &s.Circuit.Cooldown }, "for how long, at most 24h; doubled each time in a row"),
	row("max_cooldown", millis(time.Millisecond, day), func(s *events.TypeSettings) *events.Duration { return &s.Circuit.MaxCooldown }, "up to this, at most 24h").unset(FormatDuration(events.DefaultWorkerMaxCooldown)),
	row("probes", integer[int](0, events.MaxCircuitProbes), func(s *events.TypeSettings) *int { return &s.Circuit.Probes }, fmt.Sprintf("runs at once that try it then, and successes that let it work again, at most %d", events.MaxCircuitProbes)).unset(strconv.Itoa(events.DefaultWorkerCircuit().Probes)),
}

// codeFields returns the settings of a failure code.
func codeFields(c *events.CodePolicy) []field {
	return []field{
		at("no_retry", &c.NoRetry, truth, false, "a failure with this code is final"),
		zero("max_attempts", &c.MaxAttempts, integer[events.Attempt](1, events.MaxAttemptsCeiling), "the type's", "attempts before an item that fails so is dead, unless its submission says"),
		zero("delay_factor", &c.DelayFactor, number(0.01, events.MaxDelayFactor), "1", "by how much the wait before a retry is longer"),
		zero("timeout_factor", &c.TimeoutFactor, number(1, events.MaxTimeoutFactor), "1", "by how much the next attempt may take longer"),
		zero("timeout_max", &c.TimeoutMax, millis(time.Millisecond, events.MaxTimeout), "1h", "up to which the timeout grows"),
	}
}

const (
	codesTable    = "codes."
	priorityTable = "per_priority."
)

// retainSettings returns the rows of the table retain, which [retention] has for
// all types.
func retainSettings() []typeSetting { return inTable(typeSettings, "retain.") }

// inTable returns the rows of a table, with their names in it.
func inTable(rows []typeSetting, table string) (in []typeSetting) {
	for _, r := range rows {
		if key, ok := strings.CutPrefix(r.key, table); ok {
			r.key = key
			in = append(in, r)
		}
	}
	return in
}

// prioritySettings returns the settings that a priority may have of its own.
func prioritySettings() []typeSetting {
	return slices.DeleteFunc(slices.Clone(typeSettings), func(r typeSetting) bool {
		return r.key != "timeout" && r.key != "max_attempts" && !strings.HasPrefix(r.key, "backoff.")
	})
}

// fields returns the fields of [defaults] and of a type's table, without retain,
// which [defaults] has elsewhere.
func (p *Patch) fields() []field {
	plain := slices.DeleteFunc(slices.Clone(typeSettings), func(r typeSetting) bool { return strings.HasPrefix(r.key, "retain.") })
	return append(p.rows("", plain), p.codes(), p.priorities())
}

// rows returns the fields of settings whose names in the patch begin with at.
func (p *Patch) rows(at string, settings []typeSetting) (fields []field) {
	seen := map[string]bool{}
	for _, r := range settings {
		table, _, nested := strings.Cut(r.key, ".")
		switch {
		case !nested:
			fields = append(fields, p.field(at+r.key, r))
		case !seen[table]:
			seen[table] = true
			fields = append(fields, fixed(table, "", p.rows(at+table+".", inTable(settings, table+"."))))
		}
	}
	return fields
}

func (p *Patch) field(name string, r typeSetting) field {
	return field{key: r.key, kind: r.kind, def: r.def, doc: r.doc,
		get: func() any { return (*p)[name] },
		set: func(v any) error {
			x, err := r.read(v)
			if err == nil || !reflect.ValueOf(x).IsZero() {
				p.set(name, x)
			}
			return err
		},
		check: func() error {
			v, ok := (*p)[name]
			if !ok {
				return nil
			}
			_, err := r.own(v)
			return err
		},
	}
}

func (p *Patch) set(name string, v any) {
	if *p == nil {
		*p = Patch{}
	}
	(*p)[name] = v
}

// below returns the settings whose names begin with at, by the rest of them.
func (p Patch) below(at string) map[string]any {
	below := map[string]any{}
	for name, v := range p {
		if key, ok := strings.CutPrefix(name, at); ok {
			below[key] = v
		}
	}
	return below
}

func (p *Patch) codes() field {
	return field{key: "codes", kind: "table", each: "failure code", name: "CODE",
		doc:   "how failures with a code are retried, in place of the built-in policy (see [PROTECTION.md](../guides/PROTECTION.md)): " + keysOf(codeFields(new(events.CodePolicy))),
		get:   func() any { return p.below(codesTable) },
		names: func() []string { return slices.Sorted(maps.Keys(p.below(codesTable))) },
		table: func(code string) ([]field, error) {
			if err := events.CheckFailureCode(code); err != nil {
				return nil, err
			}
			policy, _ := (*p)[codesTable+code].(events.CodePolicy)
			return append(codeFields(&policy), field{set: func(any) error { p.set(codesTable+code, policy); return nil }}), nil
		},
	}
}

func (p *Patch) priorities() field {
	return field{key: "per_priority", kind: "table", each: "priority",
		doc: "what items of one priority have differently: `timeout`, `max_attempts`, `backoff`",
		get: func() any { return p.below(priorityTable) },
		names: func() (names []string) {
			for name := range p.below(priorityTable) {
				n, _, _ := strings.Cut(name, ".")
				names = append(names, n)
			}
			slices.Sort(names)
			return slices.Compact(names)
		},
		table: func(key string) ([]field, error) {
			if _, err := parsePriority(key); err != nil {
				return nil, err
			}
			return p.rows(priorityTable+key+".", prioritySettings()), nil
		},
	}
}

func parsePriority(key string) (events.Priority, error) {
	n, err := strconv.Atoi(key)
	if err != nil || n < 0 || n > int(events.MaxPriority) || strconv.Itoa(n) != key {
		return 0, fmt.Errorf("%q is no priority: use 0 to %d", key, events.MaxPriority)
	}
	return events.Priority(n), nil
}

// keysOf lists the keys of a table for the documentation.
func keysOf(fields []field) string {
	var keys []string
	for _, f := range fields {
		keys = append(keys, "`"+f.key+"`")
	}
	return strings.Join(keys, ", ")
}

// Named lists the settings of the patch: in the order of the documentation, then
// those by failure code, then those by priority.
func (p Patch) Named() (names []string) {
	add := func(at string, rows []typeSetting) {
		for _, r := range rows {
			if _, ok := p[at+r.key]; ok {
				names = append(names, at+r.key)
			}
		}
	}
	add("", typeSettings)
	for _, code := range slices.Sorted(maps.Keys(p.below(codesTable))) {
		names = append(names, codesTable+code)
	}
	for n := range events.MaxPriority + 1 {
		add(priorityTable+strconv.Itoa(int(n))+".", prioritySettings())
	}
	return names
}

// Apply returns base with the patch's settings laid over it, and leaves base as it
// is. The policy of a failure code takes the place of the one in base as a whole.
// A backoff that is set for a priority in part is completed from the type's. It
// skips a setting that Validate refuses.
func (p Patch) Apply(base events.TypeSettings) events.TypeSettings {
	s := base
	s.Codes, s.PerPriority = maps.Clone(base.Codes), maps.Clone(base.PerPriority)
	lay(typeSettings, p, &s)
	if _, ok := p["timeout"]; ok {
		s.TimeoutSet = true
	}
	if _, ok := p["max_attempts"]; ok {
		s.MaxAttemptsSet = true
	}
	for code, v := range p.below(codesTable) {
		if policy, ok := v.(events.CodePolicy); ok {
			if s.Codes == nil {
				s.Codes = map[string]events.CodePolicy{}
			}
			s.Codes[code] = policy
		}
	}
	for n := range events.MaxPriority + 1 {
		if set := Patch(p.below(priorityTable + strconv.Itoa(int(n)) + ".")); len(set) > 0 {
			if s.PerPriority == nil {
				s.PerPriority = map[events.Priority]events.PriorityOverride{}
			}
			s.PerPriority[n] = set.override(s.PerPriority[n], s.Backoff)
		}
	}
	return s
}

// lay puts the values of a patch into settings.
func lay(rows []typeSetting, p Patch, s *events.TypeSettings) {
	for _, r := range rows {
		if v, ok := p[r.key]; ok {
			if x, err := r.own(v); err == nil {
				r.put(s, x)
			}
		}
	}
}

// override returns o with the patch's settings laid over it; typeBackoff completes a
// backoff.
func (p Patch) override(o events.PriorityOverride, typeBackoff events.Backoff) events.PriorityOverride {
	s := events.TypeSettings{Backoff: typeBackoff}
	if o.Backoff != nil {
		s.Backoff = *o.Backoff
	}
	lay(prioritySettings(), p, &s)
	if _, ok := p["timeout"]; ok {
		o.Timeout = &s.Timeout
	}
	if _, ok := p["max_attempts"]; ok {
		o.MaxAttempts = &s.MaxAttempts
	}
	if len(p.below("backoff.")) > 0 {
		o.Backoff = &s.Backoff
	}
	return o
}

// Conflicts lists the settings of the patch that wanted would change, as in Named.
// A request that conflicts is refused with set_in_file.
func (p Patch) Conflicts(wanted events.TypeSettings) (names []string) {
	for _, name := range p.Named() {
		if one := (Patch{name: p[name]}); !reflect.DeepEqual(one.Apply(wanted), wanted) {
			names = append(names, name)
		}
	}
	return names
}

// Setting describes a setting of a type.
type Setting struct {
	Name    string // dotted, as in engine.toml and `types set`
	Kind    string // duration, size, integer, number, boolean, string, tables, table
	Default string // for people
}

// TypeSettings lists the settings of a type. Those by priority and those by failure
// code are one each, a table.
func TypeSettings() (list []Setting) {
	for _, r := range typeSettings {
		list = append(list, Setting{r.key, r.kind, r.def})
	}
	var p Patch
	for _, f := range []field{p.codes(), p.priorities()} {
		list = append(list, Setting{f.key, f.kind, f.def})
	}
	return list
}
