package core

import (
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/policy"
)

// Waiting returns the number of items that are queued or waiting, over all types.
func (s *State) Waiting() (n int64) {
	for _, t := range s.types {
		n += t.info.Waiting()
	}
	return n
}

// QueueFull reports whether the engine's own max_queued is reached.
func (s *State) QueueFull() bool {
	return s.limits.MaxQueued > 0 && s.Waiting() >= int64(s.limits.MaxQueued)
}

// PoolRuns returns the number of items, of all types that share a pool, that are
// claimed or running.
func (s *State) PoolRuns(pool string) (n int64) {
	for _, t := range s.types {
		if t.info.Settings.Pool == pool {
			n += t.info.Runs()
		}
	}
	return n
}

// PoolSlots returns the slots of a type's pool; false if the type is in no pool, or
// in one that the configuration no longer has: nothing limits it then.
func (s *State) PoolSlots(set events.TypeSettings) (slots int, limited bool) {
	if set.Pool == "" {
		return 0, false
	}
	p, ok := s.limits.Pools[set.Pool]
	return p.Slots, ok
}

// GroupRuns returns the number of items of a group that are claimed or running.
// The empty group is not counted.
func (s *State) GroupRuns(t events.Type, group string) (int64, error) {
	held, _, err := s.Key(events.KeyRef{Kind: events.KeyGroup, Type: t, Key: group}, s.meta.LastAt)
	return held.N, err
}

// mayRun refuses a claim that the type's capacity, its group's, a pool or a rate limit has
// no room for, else says what it counts against.
func (d *decider) mayRun(it *events.Item) ([]events.RateTaken, error) {
	t, _ := d.state.info(it.Type)
	set := &t.Settings
	if n := t.Runs(); n >= int64(set.Capacity) && !set.Ack() { // an ack run has begun already
		return nil, events.Refuse(events.CodeAtCapacity, "type %s has %s running, of at most %d: don't run item %s, it will be dispatched again", it.Type, events.Count(n, "item"), set.Capacity, it.ID)
	}
	if set.GroupCapacity > 0 && it.Group != "" {
		n, err := d.state.GroupRuns(it.Type, it.Group)
		if err != nil {
			return nil, err
		}
		if n >= int64(set.GroupCapacity) {
			return nil, events.Refuse(events.CodeAtCapacity, "group %q of type %s has %s running, of at most %d: don't run item %s, it will be dispatched again", events.Clip(it.Group, 80), it.Type, events.Count(n, "item"), set.GroupCapacity, it.ID)
		}
	}
	if slots, limited := d.state.PoolSlots(*set); limited {
		if n := d.state.PoolRuns(set.Pool); n >= int64(slots) {
			return nil, events.Refuse(events.CodeAtCapacity, "pool %s has %s running, of at most %d: don't run item %s, it will be dispatched again", set.Pool, events.Count(n, "item"), slots, it.ID)
		}
	}
	if len(set.Rates) == 0 {
		return nil, nil
	}
	return d.takeRates(it.Type, set, events.AtDispatch, func(per string) string {
		if per == events.PerType {
			return ""
		}
		return it.Group
	})
}

// countRuns keeps the number of a group's runs.
func (a *applier) countRuns(it *events.Item, was before) error {
	if it.Group == "" || running(it.State) == running(was.state) {
		return nil
	}
	n, err := a.GroupRuns(it.Type, it.Group)
	if err != nil {
		return err
	}
	if n--; !running(was.state) {
		n += 2
	}
	a.setKey(events.HeldKey{Ref: events.KeyRef{Kind: events.KeyGroup, Type: it.Type, Key: it.Group}, N: n}, n > 0)
	return nil
}

// rateTAT is a limit's theoretical arrival time for a key, zero for a full
// bucket.
func (s *State) rateTAT(t events.Type, key string, now time.Time) (time.Time, error) {
	held, has, err := s.Key(events.KeyRef{Kind: events.KeyRate, Type: t, Key: key}, now)
	if err != nil || !has {
		return time.Time{}, err
	}
	return held.Until, nil
}

// RatesAllow reports whether a type's limits at dispatch let one more run
// begin, behind ahead others that are on their way already: those limits per
// group, for a group that is not empty, else those per type. When not, at says
// when they will; the zero time: only once one of those on their way has begun
// or come back.
func (s *State) RatesAllow(t events.Type, group string, ahead int, now time.Time) (open bool, at time.Time, err error) {
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
func (d *decider) takeRates(t events.Type, set *events.TypeSettings, at string, value func(per string) string) (taken []events.RateTaken, err error) {
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
		shut.Interval.Duration, shut.Per, at, until.UTC().Format(time.RFC3339Nano))
	refusal.RetryAfter = until.Sub(d.now)
	return nil, refusal
}

// applyRates moves the limits' keys on.
func (a *applier) applyRates(t events.Type, taken []events.RateTaken) {
	for _, r := range taken {
		a.setKey(events.HeldKey{Ref: events.KeyRef{Kind: events.KeyRate, Type: t, Key: r.Key}, Until: r.TAT}, true)
	}
}
