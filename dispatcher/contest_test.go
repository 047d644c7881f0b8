package dispatcher

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// sharedLimits are the limits that types share, with room for n.
var sharedLimits = map[string]func(n int) func(*Config){
	"max_running": func(n int) func(*Config) { return func(c *Config) { c.MaxRunning = n } },
	"pool": func(n int) func(*Config) {
		return func(c *Config) {
			c.Limits.Pools = map[string]events.Pool{"shared": {Slots: n}}
			c.Defaults.Pool = "shared"
		}
	},
}

// onSharedLimits runs a test for each limit that types share, with room for n.
func onSharedLimits(t *testing.T, n int, test func(t *testing.T, s *sim)) {
	for _, name := range slices.Sorted(maps.Keys(sharedLimits)) {
		t.Run(name, func(t *testing.T) { test(t, newSim(t, sharedLimits[name](n))) })
	}
}

// next runs the one item that is on its way, and returns it.
func (s *sim) next() events.ID {
	s.t.Helper()
	if n := s.l.table.Total(); n != 1 {
		s.t.Fatalf("%d items are on their way", n)
	}
	m := s.take("")
	if m == nil {
		s.t.Fatal("nothing is sent")
	}
	s.run(m)
	return m.id
}

// With one place for all types, items go by priority and time, whatever their type.
func TestPriorityAcrossTypes(t *testing.T) {
	onSharedLimits(t, 1, func(t *testing.T, s *sim) {
		types := []events.Type{"a", "b", "c", "d", "e", "f", "g", "h"}
		var want []events.ID
		for _, p := range []events.Priority{9, 5, 0} {
			for i := range types {
				want = append(want, s.submit(core.Submit{Type: types[(i*5+int(p))%len(types)], Priority: prio(p)}).Decision.ID)
				s.tick(time.Second)
			}
		}
		s.register("w", 4, nil, "a", "b", "c", "d", "e", "f", "g", "h")
		var got []events.ID
		for range want {
			got = append(got, s.next())
		}
		s.expectOrder(got, want)
	})
}

// An item of the lowest priority goes once it has waited for 9 age steps, though
// newer ones of the highest priority never cease to come, of another type.
func TestNoTypeStarvesAnother(t *testing.T) {
	onSharedLimits(t, 1, func(t *testing.T, s *sim) {
		s.register("w", 4, nil, "a", "b")
		for _, typ := range []events.Type{"a", "b"} {
			s.limit(typ, func(set *events.TypeSettings) {
				set.Lease, set.Timeout = events.DurationOf(events.MaxLease), events.DurationOf(events.MaxLease)
			})
		}
		urgent := func() { s.submit(core.Submit{Type: "b", Priority: prio(9)}) }
		urgent()
		running := s.begun("")
		began, bound := s.at, 9*events.DefaultAgeStep
		low := s.submit(core.Submit{Type: "a", Priority: prio(0)}).Decision.ID
		for s.item(low).State == events.StateQueued {
			if s.at.Sub(began) > bound+2*time.Minute {
				t.Fatalf("it has waited for %s: at most %s", s.at.Sub(began), bound)
			}
			urgent()
			s.tick(time.Minute)
			s.complete(running[0])
			running = s.begun("")
		}
		if waited := s.at.Sub(began); waited < bound-2*time.Minute {
			t.Fatalf("it has waited for %s only: newer ones of priority 9 go first for %s", waited, bound)
		}
	})
}

// What runs does not give way, and the next place is the most urgent item's, of whatever type.
func TestAFreedPlaceIsTheUrgentItems(t *testing.T) {
	onSharedLimits(t, 16, func(t *testing.T, s *sim) {
		s.register("w", 20, nil, "a", "b")
		for range 40 {
			s.submit(core.Submit{Type: "a", Priority: prio(0)})
		}
		running := s.begun("a")
		if n := s.l.table.ByType["a"].All; n != 16 || len(running) != 16 {
			t.Fatalf("%d of a are on their way, %d run", n, len(running))
		}
		first := s.submit(core.Submit{Type: "b", Priority: prio(9)}).Decision.ID
		if s.l.table.Current(first) != 0 {
			t.Fatal("it has taken the place of a run")
		}
		s.complete(running[0])
		if s.l.table.Current(first) == 0 || s.l.table.Total() != 16 {
			t.Fatal("the place that came back is not the urgent item's")
		}
		s.check()
	})
}

// Of a pool whose types have weights, items of one priority go by the weights, and
// those of a higher priority still go first.
func TestPriorityInAPoolWithWeights(t *testing.T) {
	s := newSim(t, func(c *Config) { c.Limits.Pools = map[string]events.Pool{"llm": {Slots: 3}} })
	s.limit("a", func(set *events.TypeSettings) { set.Pool, set.PoolWeight = "llm", 2 })
	s.limit("b", func(set *events.TypeSettings) { set.Pool = "llm" })
	for range 20 {
		s.submit(core.Submit{Type: "a"})
	}
	for range 20 {
		s.submit(core.Submit{Type: "b"})
	}
	s.register("w", 10, nil, "a", "b")
	if a, b := s.l.table.ByType["a"].All, s.l.table.ByType["b"].All; a != 2 || b != 1 {
		t.Fatalf("%d of a, %d of b", a, b)
	}
	for range 3 {
		s.submit(core.Submit{Type: "b", Priority: prio(8)})
	}
	for _, m := range s.begun("") {
		s.complete(m)
	}
	if a, b := s.l.table.ByType["a"].All, s.l.table.ByType["b"].All; a != 0 || b != 3 {
		t.Fatalf("%d of a, %d of b: the urgent ones go first", a, b)
	}
	s.check()
}

// competitor is an item of the property test.
type competitor struct {
	id       events.ID
	typ      events.Type
	priority events.Priority
	at       time.Time
}

// competition checks what must hold while types compete, against nothing but the
// definition.
type competition struct {
	s     *sim
	most  int
	types []events.Type
	all   []*competitor
	runs  map[events.ID]*simRun
}

// simAgeStep is short, so that runs of the test last less than a lease.
const simAgeStep = 10 * time.Second

// mayOvertake reports whether y may go before x by the bound on ageing.
func mayOvertake(y, x *competitor) bool {
	return y.at.Sub(x.at) <= time.Duration(int(y.priority)-int(x.priority))*simAgeStep
}

func (c *competition) submit(t *rapid.T) {
	x := &competitor{typ: rapid.SampledFrom(c.types).Draw(t, "type"), priority: events.Priority(rapid.IntRange(0, 9).Draw(t, "priority")), at: c.s.at}
	x.id = c.s.submit(core.Submit{Type: x.typ, Priority: &x.priority}).Decision.ID
	c.all = append(c.all, x)
}

// begin has the worker start what was sent to it: nothing that waited could go before it when
// it was sent.
func (c *competition) begin() {
	for m := c.s.take(""); m != nil; m = c.s.take("") {
		c.s.begin(m)
		c.runs[m.id] = m
	}
}

func (c *competition) finish(t *rapid.T) {
	ids := slices.SortedFunc(maps.Keys(c.runs), func(a, b events.ID) int { return bytes.Compare(a[:], b[:]) })
	if len(ids) == 0 {
		return
	}
	id := rapid.SampledFrom(ids).Draw(t, "run")
	c.s.complete(c.runs[id])
	delete(c.runs, id)
}

// waiting are those that are not on their way.
func (c *competition) waiting() (out []*competitor) {
	for _, x := range c.all {
		if c.s.item(x.id).State == events.StateQueued && c.s.l.table.Current(x.id) == 0 {
			out = append(out, x)
		}
	}
	return out
}

// fair verifies that no place is left over, and that nothing was sent before something that
// waits and that it may not overtake.
func (c *competition) fair(t *rapid.T) {
	waiting := c.waiting()
	if n := c.s.l.table.Total(); n > c.most || n < c.most && len(waiting) > 0 {
		t.Fatalf("%d of %d places are taken, and %d wait", n, c.most, len(waiting))
	}
	for _, m := range c.s.world.sent { // since the last look
		i := slices.IndexFunc(c.all, func(x *competitor) bool { return x.id == m.id })
		for _, x := range waiting {
			if x.at.Before(c.all[i].at) && !mayOvertake(c.all[i], x) {
				t.Fatalf("%+v waits behind %+v", x, c.all[i])
			}
		}
	}
	c.begin()
}

// Whatever comes and goes: an item is overtaken by newer ones of any type for at
// most the difference in priority times the age step, and no place is left over.
func TestAgeingAcrossTypes(t *testing.T) {
	slow(t)
	for _, limit := range slices.Sorted(maps.Keys(sharedLimits)) {
		t.Run(limit, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				most := rapid.IntRange(1, 5).Draw(rt, "places")
				c := &competition{s: newSim(t, func(cfg *Config) {
					cfg.Defaults = events.DefaultTypeSettings()
					cfg.Defaults.AgeStep, cfg.Defaults.Lease, cfg.Defaults.Timeout = events.DurationOf(simAgeStep), events.DurationOf(events.MaxLease), events.Millis(2*events.MaxLease.Milliseconds())
					sharedLimits[limit](most)(cfg)
				}), most: most, runs: map[events.ID]*simRun{}}
				for i := range rapid.IntRange(2, 5).Draw(rt, "types") {
					c.types = append(c.types, events.Type(fmt.Sprint("t", i)))
				}
				names := make([]string, len(c.types))
				for i, typ := range c.types {
					names[i] = string(typ)
				}
				c.s.register("w", 10, nil, names...)
				for range rapid.IntRange(1, 60).Draw(rt, "steps") {
					switch rapid.IntRange(0, 4).Draw(rt, "what") {
					case 0, 1:
						c.submit(rt)
					case 2, 3:
						c.finish(rt)
					case 4:
						c.s.tick(time.Duration(rapid.IntRange(1, 30).Draw(rt, "seconds")) * time.Second)
					}
					c.fair(rt)
				}
				c.s.ok(c.s.consistent())
			})
		})
	}
}
