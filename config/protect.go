package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/streamwright/streamwright/events"
)

// CodePatch is the retry policy of a failure code, as far as the file names it;
// what it leaves out follows the type.
type CodePatch struct {
	NoRetry       bool
	MaxAttempts   *int
	DelayFactor   *float64
	TimeoutFactor *float64
	TimeoutMax    *time.Duration
}

// CircuitPatch is the part of a circuit that the file names.
type CircuitPatch struct {
	Consecutive  *int
	Ratio        *float64
	Window       *time.Duration
	MinRuns      *int
	Cooldown     *time.Duration
	MaxCooldown  *time.Duration
	Probes       *int
	CountNoRetry *bool
}

func (c CodePatch) policy() events.CodePolicy {
	p := events.CodePolicy{NoRetry: c.NoRetry}
	if c.MaxAttempts != nil {
		p.MaxAttempts = events.Attempt(*c.MaxAttempts)
	}
	put(&p.DelayFactor, c.DelayFactor)
	put(&p.TimeoutFactor, c.TimeoutFactor)
	putMS(&p.TimeoutMaxMS, c.TimeoutMax)
	return p
}

// Apply returns base with what the file names laid over it.
func (c CircuitPatch) Apply(base events.CircuitSettings) events.CircuitSettings {
	put(&base.Consecutive, c.Consecutive)
	put(&base.Ratio, c.Ratio)
	putMS(&base.WindowMS, c.Window)
	put(&base.MinRuns, c.MinRuns)
	putMS(&base.CooldownMS, c.Cooldown)
	putMS(&base.MaxCooldownMS, c.MaxCooldown)
	put(&base.Probes, c.Probes)
	put(&base.CountNoRetry, c.CountNoRetry)
	return base
}

// applyProtection is the part of Apply that concerns codes, poison and circuits.
// A code's policy takes the place of the one below it as a whole.
func (p Patch) applyProtection(s *events.TypeSettings) {
	put(&s.PoisonAfter, p.PoisonAfter)
	s.Circuit = p.Circuit.Apply(s.Circuit)
	if len(p.Codes) == 0 {
		return
	}
	codes := make(map[string]events.CodePolicy, len(s.Codes)+len(p.Codes))
	maps.Copy(codes, s.Codes)
	for code, c := range p.Codes {
		codes[code] = c.policy()
	}
	s.Codes = codes
}

func (p Patch) namedProtection(add func(string, bool)) {
	add("poison_after", p.PoisonAfter != nil)
	c := p.Circuit
	add("circuit.consecutive", c.Consecutive != nil)
	add("circuit.ratio", c.Ratio != nil)
	add("circuit.window_ms", c.Window != nil)
	add("circuit.min_runs", c.MinRuns != nil)
	add("circuit.cooldown_ms", c.Cooldown != nil)
	add("circuit.max_cooldown_ms", c.MaxCooldown != nil)
	add("circuit.probes", c.Probes != nil)
	add("circuit.count_no_retry", c.CountNoRetry != nil)
	for _, code := range slices.Sorted(maps.Keys(p.Codes)) {
		add("codes."+code, true)
	}
}

// splitProtection makes one patch of each setting. A circuit stays whole, as
// does a code's policy.
func (p Patch) splitProtection(add func(Patch)) {
	add(Patch{PoisonAfter: p.PoisonAfter})
	add(Patch{Circuit: p.Circuit})
	for _, code := range slices.Sorted(maps.Keys(p.Codes)) {
		add(Patch{Codes: map[string]CodePatch{code: p.Codes[code]}})
	}
}

func (p *Patch) protectionFields() []field {
	return []field{
		optional("poison_after", integer[int], &p.PoisonAfter, strconv.Itoa(events.DefaultPoisonAfter), "leases that an item may lose, its worker having died or gone silent, before it is dead as `poisoned`"),
		{key: "circuit", kind: "table", doc: "when the type's circuit opens", table: func(string) ([]field, error) { return p.Circuit.fields(), nil }},
		{key: "codes", kind: "table", each: "failure code", name: "CODE", table: p.code,
			doc: "how failures with a code are retried, in place of the built-in policy (see [PROTECTION.md](../guides/PROTECTION.md)): `no_retry`, `max_attempts`, `delay_factor`, `timeout_factor`, `timeout_max_ms`"},
	}
}

func (p *Patch) code(code string) ([]field, error) {
	if err := events.CheckFailureCode(code); err != nil {
		return nil, err
	}
	if p.Codes == nil {
		p.Codes = map[string]CodePatch{}
	}
	c := new(CodePatch)
	return after(c.fields(), func() { p.Codes[code] = *c }), nil
}

func (c *CodePatch) fields() []field {
	return []field{
		truth("no_retry", &c.NoRetry, "false", "a failure with this code is final"),
		optional("max_attempts", integer[int], &c.MaxAttempts, "the type's", "attempts before an item that fails so is dead, unless its submission says"),
		optional("delay_factor", float, &c.DelayFactor, "1", "by how much the wait before a retry is longer"),
		optional("timeout_factor", float, &c.TimeoutFactor, "1", "by how much the next attempt may take longer"),
		optional("timeout_max_ms", duration, &c.TimeoutMax, "1h", "up to which the timeout grows"),
	}
}

func (c *CircuitPatch) fields() []field {
	day := "24h"
	return []field{
		optional("consecutive", integer[int], &c.Consecutive, strconv.Itoa(events.DefaultConsecutive), fmt.Sprintf("failures in a row that open it, at most %d; 0: they don't", events.MaxCircuitRuns)),
		optional("ratio", float, &c.Ratio, "0", "share of failures in the window that opens it, above 0 to 1; 0: it doesn't. With neither of both there is no circuit"),
		optional("window_ms", duration, &c.Window, events.DefaultCircuitWindow.String(), "over which the ratio is taken, at most "+day),
		optional("min_runs", integer[int], &c.MinRuns, strconv.Itoa(events.DefaultCircuitMinRuns), "runs that must have ended in the window before the ratio counts"),
		optional("cooldown_ms", duration, &c.Cooldown, events.DefaultCooldown.String(), "how long it stays open; doubled each time that it opens in a row"),
		optional("max_cooldown_ms", duration, &c.MaxCooldown, events.DefaultMaxCooldown.String(), "up to this, at most "+day),
		optional("probes", integer[int], &c.Probes, strconv.Itoa(events.DefaultProbes), fmt.Sprintf("runs at once that try it when it is half open, and successes that close it, at most %d", events.MaxCircuitProbes)),
		optional("count_no_retry", truth, &c.CountNoRetry, "false", "failures that are not retried count too"),
	}
}

// workerFields are the fields of [worker_circuit].
func (c *CircuitPatch) workerFields() []field {
	d := events.DefaultWorkerCircuit()
	return []field{
		optional("consecutive", integer[int], &c.Consecutive, strconv.Itoa(d.Consecutive), fmt.Sprintf("different items in a row that a worker fails, while others complete some, until it gets none for a while: 2 to %d, 0 for no circuit", events.MaxWorkerFailures)),
		optional("cooldown_ms", duration, &c.Cooldown, events.DefaultCooldown.String(), "for how long, at most 24h; doubled each time in a row"),
		optional("max_cooldown_ms", duration, &c.MaxCooldown, events.DefaultWorkerMaxCooldown.String(), "up to this, at most 24h"),
		optional("probes", integer[int], &c.Probes, strconv.Itoa(d.Probes), fmt.Sprintf("runs at once that try it then, and successes that let it work again, at most %d", events.MaxCircuitProbes)),
	}
}

// WorkerCircuitSettings are those of [worker_circuit] over the defaults.
func (c Config) WorkerCircuitSettings() events.CircuitSettings {
	return c.WorkerCircuit.Apply(events.DefaultWorkerCircuit())
}

func (p Patch) checkProtection(c *checker, at string) {
	if p.PoisonAfter != nil {
		c.in(at+".poison_after", int64(*p.PoisonAfter), 1, events.MaxPoisonAfter)
	}
	if len(p.Codes) > events.MaxCodes {
		c.failf(at+".codes", "has %d entries: at most %d", len(p.Codes), events.MaxCodes)
	}
	for _, code := range slices.Sorted(maps.Keys(p.Codes)) {
		p.Codes[code].check(c, at+".codes."+code)
	}
	p.Circuit.check(c, at+".circuit")
}

func (p CodePatch) check(c *checker, at string) {
	if p.MaxAttempts != nil {
		c.in(at+".max_attempts", int64(*p.MaxAttempts), 1, events.MaxAttemptsCeiling)
	}
	c.ratio(at+".delay_factor", p.DelayFactor, 0.01, events.MaxDelayFactor)
	c.ratio(at+".timeout_factor", p.TimeoutFactor, 1, events.MaxTimeoutFactor)
	c.span(at+".timeout_max_ms", p.TimeoutMax, time.Millisecond, events.MaxTimeout)
}

func (p CircuitPatch) check(c *checker, at string) {
	whole := func(key string, v *int, hi int64) {
		if v != nil {
			c.in(at+"."+key, int64(*v), 0, hi)
		}
	}
	whole("consecutive", p.Consecutive, events.MaxCircuitRuns)
	whole("min_runs", p.MinRuns, events.MaxCircuitRuns)
	whole("probes", p.Probes, events.MaxCircuitProbes)
	c.ratio(at+".ratio", p.Ratio, 0, 1)
	c.span(at+".window_ms", p.Window, 2*time.Millisecond, events.MaxCircuitWindow)
	c.span(at+".cooldown_ms", p.Cooldown, time.Millisecond, 24*time.Hour)
	c.span(at+".max_cooldown_ms", p.MaxCooldown, time.Millisecond, 24*time.Hour)
}

func (c *checker) ratio(key string, v *float64, lo, hi float64) {
	if v != nil && !(*v >= lo && *v <= hi) {
		c.failf(key, "is %g: it must be %g to %g", *v, lo, hi)
	}
}

func (c Config) checkWorkerCircuit(ch *checker) {
	before := len(ch.errs)
	if n := c.WorkerCircuit.Consecutive; n != nil && (*n == 1 || *n > events.MaxWorkerFailures) {
		ch.failf("worker_circuit.consecutive", "is %d: it must be 2 to %d, or 0 for no circuit", *n, events.MaxWorkerFailures)
	}
	c.WorkerCircuit.check(ch, "worker_circuit")
	if len(ch.errs) > before {
		return
	}
	if err := c.WorkerCircuitSettings().ValidateWorker(); err != nil {
		ch.failf("worker_circuit", "doesn't hold together: %v", err)
	}
}

// truth is a key that is true or false.
func truth(key string, dst *bool, def, doc string) field {
	return field{key: key, kind: "boolean", def: def, doc: doc, get: getter(dst), set: func(v any) error {
		b, ok := v.(bool)
		if !ok {
			return fmt.Errorf("is %s: it must be true or false", show(v))
		}
		*dst = b
		return nil
	}}
}
