package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Pool is slots that the types which name it share.
type Pool struct{ Slots int }

// LimitsPatch is the part of a Patch that limits a type.
type LimitsPatch struct {
	MaxQueued     *int
	QueueSteps    *[]events.QueueStep
	Rates         *[]events.RateLimit
	Pool          *string
	PoolWeight    *int
	GroupBy       *string
	GroupCapacity *int
}

// EngineLimits are the limits that decisions look at.
func (c Config) EngineLimits() events.Limits {
	l := events.Limits{MaxQueued: c.Limits.MaxQueued, QueueSteps: c.Limits.QueueSteps, Pools: make(map[string]events.Pool, len(c.Pools)), WorkerCircuit: c.WorkerCircuitSettings(), StartTimeout: c.Workers.StartTimeout}
	if len(c.Limits.Types) > 0 {
		l.Types = make(map[events.Type]bool, len(c.Limits.Types)+len(c.Types))
		for _, t := range c.Limits.Types {
			l.Types[events.Type(t)] = true
		}
		for t := range c.Types {
			l.Types[t] = true
		}
	}
	for name, p := range c.Pools {
		l.Pools[name] = events.Pool{Slots: p.Slots}
	}
	return l
}

func (l LimitsPatch) apply(s *events.TypeSettings) {
	put(&s.MaxQueued, l.MaxQueued)
	putList(&s.QueueSteps, l.QueueSteps)
	putList(&s.Rates, l.Rates)
	put(&s.Pool, l.Pool)
	put(&s.PoolWeight, l.PoolWeight)
	put(&s.GroupBy, l.GroupBy)
	put(&s.GroupCapacity, l.GroupCapacity)
}

// putList sets a list; an empty one is none.
func putList[T any](dst *[]T, v *[]T) {
	if v == nil {
		return
	}
	if *dst = *v; len(*v) == 0 {
		*dst = nil
	}
}

func (l LimitsPatch) named(add func(string, bool)) {
	add("max_queued", l.MaxQueued != nil)
	add("queue_steps", l.QueueSteps != nil)
	add("rates", l.Rates != nil)
	add("pool", l.Pool != nil)
	add("pool_weight", l.PoolWeight != nil)
	add("group_by", l.GroupBy != nil)
	add("group_capacity", l.GroupCapacity != nil)
}

// split makes one patch of each setting.
func (l LimitsPatch) split() []LimitsPatch {
	return []LimitsPatch{{MaxQueued: l.MaxQueued}, {QueueSteps: l.QueueSteps}, {Rates: l.Rates}, {Pool: l.Pool}, {PoolWeight: l.PoolWeight},
		{GroupBy: l.GroupBy}, {GroupCapacity: l.GroupCapacity}}
}

// check reports what is wrong with each setting that is named, by its key. What
// holds between them is checked with the type's settings as a whole.
func (l LimitsPatch) check(c *checker, at string) {
	for _, one := range l.split() {
		var name string
		one.named(func(n string, set bool) {
			if set {
				name = n
			}
		})
		s := events.DefaultTypeSettings()
		switch name {
		case "":
			continue
		case "rates": // a limit at dispatch fits some group_by: see checkType
			one.checkRates(c, at+".rates")
			continue
		}
		one.apply(&s)
		c.settings(at+"."+name, name, s.Validate())
	}
}

func (l LimitsPatch) checkRates(c *checker, key string) {
	for i, r := range *l.Rates {
		if err := r.Validate(); err != nil {
			text := strings.ReplaceAll(err.Error(), "\n", "; ")
			field, _, _ := strings.Cut(text, " ")
			c.failIn(key, i, field, "has an element %d whose %s", i+1, text)
		}
	}
}

// settings reports the faults of a setting of a type, as package events finds
// them, under its key in the file.
func (c *checker) settings(key, name string, err error) {
	if err == nil {
		return
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		text, _ := strings.CutPrefix(line, name)
		var i int
		var field string
		if n, _ := fmt.Sscanf(text, "[%d].%s ", &i, &field); n > 0 {
			c.failIn(key, i, field, "%s", text)
			continue
		}
		c.failf(key, "%s", strings.TrimSpace(text))
	}
}

// checkLimits reports what is wrong with the engine's own limits, and with
// pools that are named and not there.
func (c Config) checkLimits(ch *checker) {
	l := c.EngineLimits()
	l.StartTimeout = 0 // checked with [workers]
	steps := l
	steps.MaxQueued, steps.Pools, l.QueueSteps = 0, nil, nil
	ch.settings("limits.queue_steps", "queue_steps", steps.Validate())
	l.Pools = nil
	ch.settings("limits.max_queued", "max_queued", l.Validate())
	if whole := (events.Limits{MaxQueued: c.Limits.MaxQueued, QueueSteps: c.Limits.QueueSteps}); !hasKey(ch.errs, "limits") {
		ch.settings("limits.queue_steps", "queue_steps", whole.Validate())
	}
	ch.in("pools", int64(len(c.Pools)), 0, events.MaxPools)
	for _, name := range slices.Sorted(maps.Keys(c.Pools)) {
		one := events.Limits{Pools: map[string]events.Pool{name: {Slots: c.Pools[name].Slots}}}
		ch.settings("pools."+name, "pools."+name+".", one.Validate())
	}
	c.checkPool(ch, "defaults", c.Defaults)
	for _, name := range c.TypeNames() {
		c.checkPool(ch, "types."+string(name), c.Types[name].Patch)
	}
}

func (c Config) checkPool(ch *checker, at string, p Patch) {
	if p.Limits.Pool == nil || *p.Limits.Pool == "" {
		return
	}
	if _, ok := c.Pools[*p.Limits.Pool]; !ok {
		ch.failf(at+".pool", "is %q, and there is no such pool: add [pools.%s] with slots", *p.Limits.Pool, *p.Limits.Pool)
	}
}

func (l *LimitsPatch) fields() []field {
	return []field{
		optional("max_queued", integer[int], &l.MaxQueued, strconv.Itoa(events.DefaultMaxQueued), "items queued or waiting beyond which a submission is refused (`queue_full`); 0: no limit"),
		optional("queue_steps", steps, &l.QueueSteps, "none", stepsDoc),
		optional("rates", rates, &l.Rates, "none", "rate limits, a table each: `n` per `interval_ms`, up to `burst` at once (unset: `n` at submit; at dispatch never more than `n` in any interval), `per` `type`, `tenant` or `label:NAME`, `at` `submit` (refused with `rate_limited`) or `dispatch` (waits)"),
		optional("group_by", text, &l.GroupBy, events.PerTenant, "what makes the groups that take turns and that limits per key go by: `tenant`, `label:NAME` or `none`"),
		optional("group_capacity", integer[int], &l.GroupCapacity, "no limit", "items of one group that run at once"),
		optional("pool", text, &l.Pool, "none", "a pool of `[pools]`, one of whose slots each run takes as well"),
		optional("pool_weight", integer[int], &l.PoolWeight, "1", "the type's share of its pool, among items of one priority, when that is contended; if no type of the pool sets one, they go by priority and time alone"),
	}
}

const stepsDoc = "what is still accepted as the queue grows, a table each, in rising order: where more than `over` items would wait, only those of `min_priority` and above or from one of `sources`"

func steps(key string, dst *[]events.QueueStep, def, doc string) field {
	return tables(key, dst, def, doc, func(s *events.QueueStep) []field {
		return []field{integer("over", &s.Over, "", ""), priority("min_priority", &s.MinPriority), texts("sources", &s.Sources, "", "")}
	})
}

func rates(key string, dst *[]events.RateLimit, def, doc string) field {
	return tables(key, dst, def, doc, func(r *events.RateLimit) []field {
		var every time.Duration
		interval := duration("interval_ms", &every, "", "")
		read := interval.set
		interval.set = func(v any) error {
			if err := read(v); err != nil {
				return err
			}
			r.IntervalMS = every.Milliseconds()
			return nil
		}
		return []field{text("per", &r.Per, "", ""), text("at", &r.At, "", ""), integer("n", &r.N, "", ""), interval, integer("burst", &r.Burst, "", "")}
	})
}

func priority(key string, dst *events.Priority) field {
	n := new(int)
	f := integer(key, n, "", "")
	read := f.set
	f.set = func(v any) error {
		if err := read(v); err != nil {
			return err
		}
		if *n < 0 || *n > int(events.MaxPriority) {
			return fmt.Errorf("is %d: it must be 0 to %d", *n, events.MaxPriority)
		}
		*dst = events.Priority(*n)
		return nil
	}
	return f
}

// tables is a list of tables, each with the same keys.
func tables[T any](key string, dst *[]T, def, doc string, of func(*T) []field) field {
	return field{key: key, kind: "tables", def: def, doc: doc, get: getter(dst), set: func(v any) error {
		list, ok := v.([]any)
		if !ok {
			return fmt.Errorf("is %s: it must be a list of tables, such as [{ … }, { … }]", show(v))
		}
		out := make([]T, len(list))
		var errs []error
		for i, e := range list {
			t, ok := e.(map[string]any)
			if !ok {
				return fmt.Errorf("has %s as its element %d: all must be tables", show(e), i+1)
			}
			errs = append(errs, fill(i, t, of(&out[i]))...)
		}
		*dst = out
		return errors.Join(errs...)
	}}
}

// fill reads the i-th table of a list.
func fill(i int, t map[string]any, fields []field) (errs []error) {
	for _, key := range slices.Sorted(maps.Keys(t)) {
		at := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		if at < 0 {
			errs = append(errs, &elementError{i, key, fmt.Sprintf("has %s in its element %d, which is no setting: %s", key, i+1, suggest(key, fields))})
			continue
		}
		if err := fields[at].set(t[key]); err != nil {
			errs = append(errs, &elementError{i, key, fmt.Sprintf("has an element %d whose %s %v", i+1, key, err)})
		}
	}
	return errs
}

func (c *Config) poolFields(key string) ([]field, error) {
	p := new(Pool)
	fields := []field{integer("slots", &p.Slots, "", "runs at once of the types that name the pool, together")}
	return after(fields, func() {
		if c.Pools == nil {
			c.Pools = map[string]Pool{}
		}
		c.Pools[key] = *p
	}), nil
}
