package policy

import (
	"math"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Delay returns the wait after the given attempt has failed. random is 64
// random bits; the same bits give the same delay.
func Delay(b events.Backoff, after events.Attempt, random uint64) time.Duration {
	if b.Initial.Duration <= 0 {
		return 0 // and not 0 times an infinite power, which is no number
	}
	d := float64(b.Initial.Milliseconds()) * math.Pow(b.Factor, float64(max(after, 1)-1))
	d = min(d, float64(b.Max.Milliseconds()))
	d *= 1 + b.Jitter*float64(random>>11)/(1<<53)
	return time.Duration(d * float64(time.Millisecond))
}

// BuiltinCodes returns the retry policies of the codes that a type sets nothing
// for. A type's own policy for a code replaces the whole built-in one.
func BuiltinCodes() map[string]events.CodePolicy {
	passing := events.CodePolicy{MaxAttempts: 5}
	starved := events.CodePolicy{MaxAttempts: 3, TimeoutFactor: 1.5, TimeoutMax: events.DurationOf(events.DefaultTimeoutMax)}
	hopeless := events.CodePolicy{NoRetry: true}
	return map[string]events.CodePolicy{
		events.FailTransient: passing, events.FailNetwork: passing, events.FailUnavailable: passing,
		events.FailRateLimited: {MaxAttempts: 5, DelayFactor: 2},
		events.FailResource:    starved, events.FailOutOfMemory: starved, events.FailTimeout: starved, events.FailKilled: starved,
		events.FailLogic: hopeless, events.FailInvalidInput: hopeless,
		events.FailLeaseExpired: {MaxAttempts: 3},
	}
}

var builtinCodes = BuiltinCodes()

// ForCode returns how failures with a code are retried.
func ForCode(s events.TypeSettings, code string) events.CodePolicy {
	if p, ok := s.Codes[code]; ok {
		return p
	}
	return builtinCodes[code]
}

// AttemptLimit returns the last attempt that an item may make that fails with a
// code, and whose limit that is. Attempts made before a replay, and those that were
// spared, come on top. The most specific wins: the item's own number,
// then the type's policy for the code, the type's number, the built-in policy, the
// default.
func AttemptLimit(s events.TypeSettings, it *events.Item, code string) (limit events.Attempt, from string) {
	if it.OwnAttempts {
		return it.MaxAttempts, "the item's own"
	}
	_, limit, _ = s.For(it.Priority)
	p, own := s.Codes[code]
	chosen := choseAttempts(s, it.Priority)
	if !own {
		p = builtinCodes[code]
	}
	switch {
	case own && p.MaxAttempts != 0:
		limit, from = p.MaxAttempts, "the type's for code "+code
	case chosen:
		from = "the type's"
	case p.MaxAttempts != 0:
		limit, from = p.MaxAttempts, "the built-in one for code "+code
	default:
		from = "the default"
	}
	return it.AttemptsBefore + it.Spared + limit, from
}

// NextTimeout returns the timeout of the attempt after one that failed with a
// code. The most specific setting wins, as for [AttemptLimit].
func NextTimeout(s events.TypeSettings, it *events.Item, code string) time.Duration {
	p, own := s.Codes[code]
	switch {
	case it.OwnTimeout, !own && choseTimeout(s, it.Priority):
		return it.Timeout
	case !own:
		p = builtinCodes[code]
	}
	return growTimeout(p, it.Timeout)
}

// choseAttempts reports whether somebody chose the attempts of items of
// priority p. Settings recorded before MaxAttemptsSet existed tell by another
// value than the default.
func choseAttempts(s events.TypeSettings, p events.Priority) bool {
	return s.MaxAttemptsSet || s.MaxAttempts != events.DefaultMaxAttempts || s.PerPriority[p].MaxAttempts != nil
}

// choseTimeout is choseAttempts for the timeout.
func choseTimeout(s events.TypeSettings, p events.Priority) bool {
	return s.TimeoutSet || s.Timeout.Duration != events.DefaultTimeout || s.PerPriority[p].Timeout != nil
}

// RetryDelay returns the wait after an attempt, and how much of it is jitter.
func RetryDelay(p events.CodePolicy, b events.Backoff, after events.Attempt, random uint64) (wait, jitter time.Duration) {
	factor := p.DelayFactor
	if factor == 0 {
		factor = 1
	}
	wait = time.Duration(float64(Delay(b, after, random)) * factor)
	b.Jitter = 0
	return wait, wait - time.Duration(float64(Delay(b, after, random))*factor)
}

// growTimeout returns the timeout of the next attempt.
func growTimeout(p events.CodePolicy, now time.Duration) time.Duration {
	if p.TimeoutFactor == 0 {
		return now
	}
	most := p.TimeoutMax.Duration
	if most == 0 {
		most = events.DefaultTimeoutMax
	}
	grown := time.Duration(min(float64(now)*p.TimeoutFactor, float64(most)))
	return max(grown.Truncate(time.Millisecond), now)
}

// PoisonAfter returns how many leases an item may lose before it is dead.
func PoisonAfter(s events.TypeSettings) int {
	if s.PoisonAfter == 0 {
		return events.DefaultPoisonAfter
	}
	return s.PoisonAfter
}
