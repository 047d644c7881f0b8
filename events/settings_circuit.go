package events

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Bounds and defaults of the settings for retries and circuits.
const (
	MaxDelayFactor    = 100.0
	MaxTimeoutFactor  = 100.0
	MaxPoisonAfter    = 1000
	MaxCircuitRuns    = 10_000 // of consecutive and min_runs
	MaxCircuitProbes  = 100
	MaxCircuitWindow  = 24 * time.Hour
	MaxWorkerFailures = 100 // items in a row that a worker's circuit tells apart

	DefaultTimeoutMax     = time.Hour // that a growing timeout grows to
	DefaultCircuitWindow  = time.Minute
	DefaultCircuitMinRuns = 10
	DefaultCooldown       = 30 * time.Second
	DefaultMaxCooldown    = time.Minute
	DefaultProbes         = 3

	// DefaultWorkerMaxCooldown is DefaultMaxCooldown for the circuit of a worker:
	// others do its work meanwhile.
	DefaultWorkerMaxCooldown = 10 * time.Minute

	// DefaultConsecutive is the number of failures in a row, with no success among
	// them, that opens the circuit of a type that sets none. A type that works at
	// all hardly gets there: where one run in ten succeeds, once in 40,000.
	DefaultConsecutive = 100
)

// The failure codes that have a retry policy unless a type has its own for them,
// beside the codes that the engine itself records.
const (
	FailTransient    = "transient"
	FailNetwork      = "network"
	FailUnavailable  = "unavailable"
	FailRateLimited  = "rate_limited"
	FailResource     = "resource"
	FailOutOfMemory  = "out_of_memory"
	FailLogic        = "logic"
	FailInvalidInput = "invalid_input"
)

func (p CodePolicy) validate(at string) (errs []error) {
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(at+format, args...)) }
	if p.MaxAttempts < 0 || p.MaxAttempts > MaxAttemptsCeiling {
		fail("max_attempts is %d: it must be 1 to %d, or 0 for the type's", p.MaxAttempts, MaxAttemptsCeiling)
	}
	if p.DelayFactor != 0 && !(p.DelayFactor >= 0.01 && p.DelayFactor <= MaxDelayFactor) {
		fail("delay_factor is %g: it must be 0.01 to %g", p.DelayFactor, MaxDelayFactor)
	}
	if p.TimeoutFactor != 0 && !(p.TimeoutFactor >= 1 && p.TimeoutFactor <= MaxTimeoutFactor) {
		fail("timeout_factor is %g: it must be 1 to %g", p.TimeoutFactor, MaxTimeoutFactor)
	}
	if p.TimeoutMax.Duration < 0 || p.TimeoutMax.Duration > MaxTimeout {
		fail("timeout_max_ms is %d: it must be 1 to %d, or 0 for an hour", p.TimeoutMax.Milliseconds(), MaxTimeout.Milliseconds())
	}
	return errs
}

// On reports whether there is a circuit.
func (c CircuitSettings) On() bool { return c.Consecutive > 0 || c.Ratio > 0 }

// WithDefaults fills in what is not set.
func (c CircuitSettings) WithDefaults() CircuitSettings {
	c.Window = cmp.Or(c.Window, DurationOf(DefaultCircuitWindow))
	c.Cooldown = cmp.Or(c.Cooldown, DurationOf(DefaultCooldown))
	c.MaxCooldown = cmp.Or(c.MaxCooldown, DurationOf(max(DefaultMaxCooldown, c.Cooldown.Duration)))
	if c.MinRuns == 0 {
		c.MinRuns = DefaultCircuitMinRuns
	}
	if c.Probes == 0 {
		c.Probes = DefaultProbes
	}
	return c
}

// DefaultWorkerCircuit is the worker circuit of an engine that sets none.
func DefaultWorkerCircuit() CircuitSettings {
	return CircuitSettings{Consecutive: 10, Cooldown: DurationOf(DefaultCooldown), MaxCooldown: DurationOf(DefaultWorkerMaxCooldown), Probes: 1}
}

// Validate reports every setting of a type's circuit that is out of bounds,
// joined.
func (c CircuitSettings) Validate() error { return errors.Join(c.validate("")...) }

// ValidateWorker is Validate for the circuit of workers, which knows failures in
// a row alone.
func (c CircuitSettings) ValidateWorker() error {
	errs := c.validate("")
	if c.Ratio != 0 || !c.Window.IsZero() || c.MinRuns != 0 || c.CountNoRetry {
		errs = append(errs, errors.New("the circuit of workers goes by consecutive failures alone: leave ratio, window, min_runs and count_no_retry out"))
	}
	if c.Consecutive != 0 && (c.Consecutive < 2 || c.Consecutive > MaxWorkerFailures) {
		errs = append(errs, fmt.Errorf("consecutive is %d: it must be 2 to %d, or 0 for no circuit", c.Consecutive, MaxWorkerFailures))
	}
	return errors.Join(errs...)
}

func (c CircuitSettings) validate(at string) (errs []error) {
	check := func(name string, v, lo, hi int64) {
		if v != 0 && (v < lo || v > hi) {
			errs = append(errs, fmt.Errorf("%s%s is %d: it must be %d to %d", at, name, v, lo, hi))
		}
	}
	check("consecutive", int64(c.Consecutive), 1, MaxCircuitRuns)
	check("window_ms", c.Window.Milliseconds(), 2, MaxCircuitWindow.Milliseconds())
	check("min_runs", int64(c.MinRuns), 1, MaxCircuitRuns)
	day := (24 * time.Hour).Milliseconds()
	check("cooldown_ms", c.Cooldown.Milliseconds(), 1, day)
	check("max_cooldown_ms", c.MaxCooldown.Milliseconds(), 1, day)
	check("probes", int64(c.Probes), 1, MaxCircuitProbes)
	if c.Ratio != 0 && !(c.Ratio > 0 && c.Ratio <= 1) {
		errs = append(errs, fmt.Errorf("%sratio is %g: it must be above 0 and at most 1", at, c.Ratio))
	}
	if full := c.WithDefaults(); full.MaxCooldown.Duration < full.Cooldown.Duration {
		errs = append(errs, fmt.Errorf("%smax_cooldown_ms is %d: it must be cooldown_ms (%d) or more", at, full.MaxCooldown.Milliseconds(), full.Cooldown.Milliseconds()))
	}
	return errs
}

// validateProtection is the part of Validate that concerns codes, poison and
// the circuit.
func (s TypeSettings) validateProtection() (errs []error) {
	if len(s.Codes) > MaxCodes {
		errs = append(errs, fmt.Errorf("codes has %d entries: at most %d", len(s.Codes), MaxCodes))
	}
	for _, code := range slices.Sorted(maps.Keys(s.Codes)) {
		if err := CheckFailureCode(code); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, s.Codes[code].validate("codes."+code+".")...)
	}
	if s.PoisonAfter < 0 || s.PoisonAfter > MaxPoisonAfter {
		errs = append(errs, fmt.Errorf("poison_after is %d: it must be 1 to %d, or 0 for %d", s.PoisonAfter, MaxPoisonAfter, DefaultPoisonAfter))
	}
	return append(errs, s.Circuit.validate("circuit.")...)
}

// CheckFailureCode says what is wrong with the name of a failure code that a
// type has a policy for.
func CheckFailureCode(code string) error {
	if code == "" || len(code) > MaxNameLen || !plain(code) {
		return fmt.Errorf("%q is no failure code: use 1 to %d plain characters", Clip(code, 64), MaxNameLen)
	}
	return nil
}
