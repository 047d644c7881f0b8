package core

import (
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/policy"
)

// A rate limit is the generic cell rate algorithm (GCRA, ITU-T I.371, as a
// virtual schedule). A key's whole state is its theoretical arrival time: when
// the bucket is full again. It is kept as the expiry of a [HeldKey] of
// [KeyRate], so a full bucket takes no room.

// rateTAT is a limit's theoretical arrival time for a key, zero for a full
// bucket.
func (s *State) rateTAT(t events.Type, key string, now time.Time) (time.Time, error) {
	held, has, err := s.Key(events.KeyRef{Kind: events.KeyRate, Type: t, Key: key}, now)
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
func (s *State) RatesOpen(t events.Type, group string, ahead int, now time.Time) (open bool, at time.Time, err error) {
	if now.Before(s.meta.LastAt) {
		now = s.meta.LastAt // as Decide has it
	}
	set, _ := s.Settings(t)
	open = true
	for _, r := range set.Rates {
		if r.At != events.AtDispatch || (r.Per == events.PerType) != (group == "") {
			continue
		}
		tat, err := s.rateTAT(t, r.Key(group), now)
		if err != nil {
			return false, time.Time{}, err
		}
		if _, ok := policy.Take(r, tat, now, ahead); ok {
			continue
		}
		open = false
		if opens, ok := policy.Take(r, tat, now, 0); !ok && opens.After(at) {
			at = opens
		}
	}
	return open, at, nil
}

// takeRates counts against the limits of a type at a moment: it returns what
// is to be recorded, or the refusal of the last one to open.
func (d *decider) takeRates(t events.Type, set events.TypeSettings, at string, value func(per string) string) (taken []events.RateTaken, err error) {
	var until time.Time
	var shut events.RateLimit
	for _, r := range set.Rates {
		v := value(r.Per)
		if r.At != at || (r.Per != events.PerType && v == "") {
			continue
		}
		key := r.Key(v)
		tat, err := d.state.rateTAT(t, key, d.now)
		if err != nil {
			return nil, err
		}
		next, ok := policy.Take(r, tat, d.now, 0)
		if ok {
			taken = append(taken, events.RateTaken{Key: key, TAT: next})
		} else if next.After(until) {
			until, shut = next, r
		}
	}
	if until.IsZero() {
		return taken, nil
	}
	refusal := events.Refuse(events.CodeRateLimited, "type %s takes %d per %s for each %s at %s: try again at %s", t, shut.N,
		time.Duration(shut.IntervalMS)*time.Millisecond, shut.Per, at, until.UTC().Format(time.RFC3339Nano))
	refusal.RetryAfter = until.Sub(d.now)
	return nil, refusal
}

// applyRates moves the limits' keys on.
func (a *applier) applyRates(t events.Type, taken []events.RateTaken) {
	for _, r := range taken {
		a.setKey(events.HeldKey{Ref: events.KeyRef{Kind: events.KeyRate, Type: t, Key: r.Key}, Until: r.TAT}, true)
	}
}
