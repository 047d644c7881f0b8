package core

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
)

// simLimits are the engine's own settings in every sim.
var simLimits = events.Limits{
	MaxQueued: 12, QueueSteps: []events.QueueStep{{Over: 9, MinPriority: 5, Sources: []string{"api"}}}, Pools: map[string]events.Pool{"llm": {Slots: 2}},
	WorkerCircuit: events.CircuitSettings{Consecutive: 2, Cooldown: events.Millis(1000), MaxCooldown: events.Millis(60_000), Probes: 1},
}

// limitsCommand configures limits, or submits or claims where they count.
func (s *sim) limitsCommand() Command {
	switch rapid.IntRange(0, 9).Draw(s.t, "limits") {
	case 0, 1:
		return Configure{Type: pick(s, "type", events.Type("email"), "call"), Source: events.SourceAPI, Settings: s.limitedSettings()}
	case 2, 3, 4, 5:
		return Submit{Type: pick(s, "type", events.Type("email"), "call"), NewID: s.freshID(), Tenant: pick(s, "tenant", "acme", "acme", "globex", ""),
			Labels: map[string]string{"team": pick(s, "team", "a", "b", "")}, Provenance: events.Provenance{Source: pick(s, "source", "", "api")}}
	}
	id := s.anID()
	for _, known := range s.ids { // the first that waits, so that limits are reached
		if it, err := s.oracle.Item(known); err == nil && it != nil && it.State == events.StateQueued && !it.AvailableAt.After(s.now) {
			id = known
			break
		}
	}
	s.tokens++
	s.dispatch[id] = events.NewToken(1, s.tokens)
	return Claim{ID: id, Token: s.dispatch[id], Worker: "w1", Start: s.chance("start", 60)}
}

func (s *sim) limitedSettings() events.TypeSettings {
	set := events.DefaultTypeSettings()
	set.MaxQueued = pick(s, "max queued", 0, 3, 6)
	set.QueueSteps = pick(s, "steps", nil, []events.QueueStep{}, []events.QueueStep{{Over: 1, MinPriority: 6, Sources: []string{}}, {Over: 2, Sources: []string{"api"}}})
	set.GroupBy = pick(s, "group by", "", events.PerTenant, events.PerNone, events.PerLabel+"team", "label:")
	set.AssignBy = pick(s, "assign by", "", events.AssignRoundRobin, events.PerTenant, events.PerLabel+"team", "least_busy")
	set.Capacity = pick(s, "capacity", set.Capacity, 1, 2)
	set.GroupCapacity = pick(s, "group capacity", 0, 1, 2)
	set.Pool = pick(s, "pool", "", "", "llm", "unknown")
	for _, at := range []string{events.AtSubmit, events.AtDispatch} {
		if s.chance(at+" rate", 40) {
			set.Rates = append(set.Rates, events.RateLimit{Per: pick(s, "per", events.PerType, events.PerTenant, events.PerLabel+"team"), At: at, N: rapid.IntRange(0, 3).Draw(s.t, "n"),
				Interval: events.Millis(pick(s, "interval", int64(1000), 60_000)), Burst: rapid.IntRange(0, 3).Draw(s.t, "burst")})
		}
	}
	return set
}

// checkLimits verifies what limits promise, from the log alone.
func (s *sim) checkLimits() {
	groups := map[events.KeyRef]int64{}
	for _, e := range present(s.oracle) {
		if it := e.cur; it != nil && it.Group != "" && (it.State == events.StateClaimed || it.State == events.StateRunning) {
			groups[events.KeyRef{Kind: events.KeyGroup, Type: it.Type, Key: it.Group}]++
		}
	}
	for ref, k := range s.oracle.keys.m {
		if ref.Kind != events.KeyGroup {
			continue
		}
		if k.v.has != (groups[ref] > 0) || k.v.has && k.v.held.N != groups[ref] {
			s.t.Fatalf("group %q of %s has %d runs, its key says %+v", ref.Key, ref.Type, groups[ref], k)
		}
		delete(groups, ref)
	}
	if len(groups) > 0 {
		s.t.Fatalf("groups run that have no key: %v", groups)
	}
}

// limited checks a decision against the limits as they were before it.
func (s *sim) limited(before limitsBefore, dec Decision) {
	parents := int64(0) // that begin to wait in this decision: no limit is for them
	for _, ev := range dec.Events {
		if ev.Kind == events.KindSpawned {
			parents++
		}
	}
	for _, ev := range dec.Events {
		switch ev.Kind {
		case events.KindQueued:
			if q := ev.Body.(*events.Queued); q.Reason != "submitted" {
				continue
			}
			if s.oracle.Waiting() > int64(simLimits.MaxQueued)+parents {
				s.t.Fatalf("%d items wait: at most %d", s.oracle.Waiting(), simLimits.MaxQueued)
			}
			t, _ := s.oracle.Type(ev.Type)
			if m := t.Settings.MaxQueued; m > 0 && t.Waiting() > int64(m)+parents {
				s.t.Fatalf("%d items of %s wait: at most %d", t.Waiting(), ev.Type, m)
			}
		case events.KindClaimed:
			if ev.Worker.Ack() && len(ev.Body.(*events.Claimed).Rates) == 0 {
				continue // nothing could refuse it any more
			}
			if !ev.Worker.Ack() {
				s.claimAllowed(before, ev)
			}
			it := s.oracle.items[ev.ID].cur
			s.ratesKept(ev, events.AtDispatch, ev.Body.(*events.Claimed).Rates, func(per string) string {
				if per == events.PerType {
					return ""
				}
				return it.Group
			})
		case events.KindCreated:
			cr := ev.Body.(*events.Created)
			var taken []events.RateTaken
			if cr.SubmitOptions != nil {
				taken = cr.Rates
			}
			if s.oracle.items[ev.ID].cur.State != events.StateMerged {
				s.ratesKept(ev, events.AtSubmit, taken, func(per string) string { return events.ValueOf(per, cr.Tenant, cr.Labels) })
			} else if len(taken) > 0 {
				s.t.Fatalf("a merged item counts: %v", taken)
			}
		case events.KindTypeConfigured:
			delete(s.rates, ev.Type)
		}
	}
}

// ratesKept holds what an event has taken of rate limits against the limits
// that apply to it, and against a model of each key.
func (s *sim) ratesKept(ev events.Event, at string, taken []events.RateTaken, value func(per string) string) {
	set, _ := s.oracle.Settings(ev.Type)
	n := 0
	for _, r := range set.Rates {
		v := value(r.Per)
		if r.At != at || r.Per != events.PerType && v == "" {
			continue
		}
		if n >= len(taken) || taken[n].Key != r.Key(v) {
			s.t.Fatalf("%s took %v of %+v", ev.Kind, taken, set.Rates)
		}
		n++
		if s.rates == nil {
			s.rates = map[events.Type]map[string]*rateModel{}
		}
		if s.rates[ev.Type] == nil {
			s.rates[ev.Type] = map[string]*rateModel{}
		}
		m := s.rates[ev.Type][r.Key(v)]
		if m == nil {
			m = &rateModel{}
			s.rates[ev.Type][r.Key(v)] = m
		}
		s.must(m.allowed(r, ev.At))
	}
	if n != len(taken) {
		s.t.Fatalf("%s took %v of %+v", ev.Kind, taken, set.Rates)
	}
}

// limitsBefore is what runs before a decision, by a count of the items.
type limitsBefore struct {
	groups map[string]int
	types  map[events.Type]int
	pool   int
}

func (s *sim) limitsNow() limitsBefore {
	b := limitsBefore{types: map[events.Type]int{}, groups: map[string]int{}}
	for _, e := range present(s.oracle) {
		it := e.cur
		if it.State != events.StateClaimed && it.State != events.StateRunning {
			continue
		}
		b.groups[string(it.Type)+" "+it.Group]++
		b.types[it.Type]++
		if set, _ := s.oracle.Settings(it.Type); set.Pool == "llm" {
			b.pool++
		}
	}
	return b
}

func (s *sim) claimAllowed(before limitsBefore, ev events.Event) {
	set, _ := s.oracle.Settings(ev.Type)
	it := s.oracle.items[ev.ID].cur
	if n := before.groups[string(it.Type)+" "+it.Group]; it.Group != "" && set.GroupCapacity > 0 && n >= set.GroupCapacity {
		s.t.Fatalf("%s was granted: %d of group %q run already", ev.ID, n, it.Group)
	}
	if n := before.types[it.Type]; n >= set.Capacity && !set.Ack() {
		s.t.Fatalf("%s was granted: %d of its type run already, of at most %d", ev.ID, n, set.Capacity)
	}
	if set.Pool == "llm" && before.pool >= simLimits.Pools["llm"].Slots {
		s.t.Fatalf("%s was granted: %d run in the pool", ev.ID, before.pool)
	}
}

// rateModel is a rate limit by brute force: it remembers each that went through
// and allows no window of an interval more than N and the burst.
type rateModel struct{ through []time.Time }

func (m *rateModel) allowed(r events.RateLimit, now time.Time) error {
	m.through = append(m.through, now)
	slices.SortFunc(m.through, time.Time.Compare)
	width := r.Interval.Duration
	for i, from := range m.through {
		n := 0
		for _, at := range m.through[i:] {
			if at.Sub(from) < width {
				n++
			}
		}
		if most := r.N + r.AtOnce(); n > most {
			return fmt.Errorf("%d in one window of %s: at most %d", n, width, most)
		}
	}
	return nil
}
