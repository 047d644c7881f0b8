package events

import (
	"strconv"
	"time"
)

// A rate limit is the generic cell rate algorithm (GCRA, ITU-T I.371, as a
// virtual schedule). A key's whole state is its theoretical arrival time: when
// the bucket is full again. It is kept as the expiry of a [HeldKey] of
// [KeyRate], so a full bucket takes no room.

// Key names the limit's state for a value of what it is per; empty for a limit
// per type. A changed N or Burst goes on with the state that there is.
func (r RateLimit) Key(value string) string {
	return r.At + " " + strconv.FormatInt(r.IntervalMS, 10) + " " + r.Per + "=" + value
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

// burst returns how many fit through at once. In any interval at most N +
// burst - 1 get through, with the step of a set burst. A limit at dispatch whose
// burst is not set has 1 + extra, and a step that is so much longer that never
// more than N runs begin in any interval.
func (r RateLimit) burst() int {
	switch {
	case r.Burst != 0:
		return r.Burst
	case r.At == AtDispatch:
		return 1 + r.extra()
	}
	return r.N
}

// step returns the time that one through takes of the bucket, rounded up.
func (r RateLimit) step() time.Duration {
	n := time.Duration(max(r.N-r.extra(), 1))
	return (time.Duration(r.IntervalMS)*time.Millisecond + n - 1) / n
}

// take lets one through at now, behind ahead others that are let through at
// now or later and not in tat yet. tat is the theoretical arrival time of
// before, the zero time for a full bucket. It returns that of after, or when
// the next may pass; then ok is false.
func (r RateLimit) take(tat, now time.Time, ahead int) (at time.Time, ok bool) {
	step := r.step()
	slack := time.Duration(r.burst()-1) * step
	if tat.Before(now) {
		tat = now
	}
	if most := now.Add(slack + step); tat.After(most) {
		tat = most // the burst was larger once: the bucket is no more than empty
	}
	tat = tat.Add(time.Duration(ahead) * step)
	if opens := tat.Add(-slack); opens.After(now) {
		return opens, false
	}
	return tat.Add(step), true
}

// rateTAT is a limit's theoretical arrival time for a key, zero for a full
// bucket.
func (s *State) rateTAT(t Type, key string, now time.Time) (time.Time, error) {
	held, has, err := s.Key(KeyRef{KeyRate, t, key}, now)
	if err != nil || !has {
		return time.Time{}, err
	}
	return held.Until, nil
}

// RatesOpen reports whether a type's limits at dispatch let one more run
// begin, behind ahead others that are on their way already: those limits per
// group, for a group that is not empty, else those per type. When not, at says
// when they will; the zero time: only once one of those on their way has begun
// or come back.
func (s *State) RatesOpen(t Type, group string, ahead int, now time.Time) (open bool, at time.Time, err error) {
	if now.Before(s.meta.LastAt) {
		now = s.meta.LastAt // as Decide has it
	}
	set, _ := s.Settings(t)
	open = true
	for _, r := range set.Rates {
		if r.At != AtDispatch || (r.Per == PerType) != (group == "") {
			continue
		}
		tat, err := s.rateTAT(t, r.Key(group), now)
		if err != nil {
			return false, time.Time{}, err
		}
		if _, ok := r.take(tat, now, ahead); ok {
			continue
		}
		open = false
		if opens, ok := r.take(tat, now, 0); !ok && opens.After(at) {
			at = opens
		}
	}
	return open, at, nil
}

// takeRates counts against the limits of a type at a moment: it returns what
// is to be recorded, or the refusal of the last one to open.
func (d *decider) takeRates(t Type, set TypeSettings, at string, value func(per string) string) (taken []RateTaken, err error) {
	var until time.Time
	var shut RateLimit
	for _, r := range set.Rates {
		v := value(r.Per)
		if r.At != at || (r.Per != PerType && v == "") {
			continue
		}
		key := r.Key(v)
		tat, err := d.s.rateTAT(t, key, d.now)
		if err != nil {
			return nil, err
		}
		next, ok := r.take(tat, d.now, 0)
		if ok {
			taken = append(taken, RateTaken{Key: key, TAT: next})
		} else if next.After(until) {
			until, shut = next, r
		}
	}
	if until.IsZero() {
		return taken, nil
	}
	refusal := Refuse(CodeRateLimited, "type %s takes %d per %s for each %s at %s: try again at %s", t, shut.N,
		time.Duration(shut.IntervalMS)*time.Millisecond, shut.Per, at, until.UTC().Format(time.RFC3339Nano))
	refusal.RetryAfter = until.Sub(d.now)
	return nil, refusal
}

// applyRates moves the limits' keys on.
func (s *State) applyRates(t Type, taken []RateTaken) {
	for _, r := range taken {
		s.setKey(HeldKey{Ref: KeyRef{KeyRate, t, r.Key}, Until: r.TAT}, true)
	}
}
