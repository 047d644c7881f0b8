package dispatcher

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// limitsUnderChaos are so narrow that nearly everything has to wait for one of
// them.
func limitsUnderChaos(seed uint64) (events.Limits, func(*events.TypeSettings)) {
	return events.Limits{Pools: map[string]events.Pool{"llm": {Slots: 3}}}, func(s *events.TypeSettings) {
		s.GroupCapacity = 1 + int(seed%2)
		if seed%3 > 0 {
			s.Pool = "llm"
		}
		s.Rates = []events.RateLimit{{Per: events.PerTenant, At: events.AtDispatch, N: 3, Interval: events.Millis(10_000), Burst: 2}}
		if seed%2 == 0 {
			s.Rates = append(s.Rates, events.RateLimit{Per: events.PerType, At: events.AtDispatch, N: 15, Interval: events.Millis(10_000), Burst: 4})
		}
	}
}

// shrink makes the rings so small that they page all the time.
func shrink(l *loop) {
	l.ready.SetMaxGroups(4)
}

func (c *chaos) submitTenants(of int) {
	cmds := make([]core.Command, 1+c.rng.IntN(6))
	for i := range cmds {
		cmds[i] = core.Submit{Type: "email", NewID: c.newID(), Tenant: "t" + strconv.Itoa(c.rng.IntN(of)), Priority: prio(events.Priority(4 + c.rng.IntN(2)))}
	}
	c.ask(func(out []Outcome) {
		for _, o := range out {
			if o.Err == nil {
				c.accepted = append(c.accepted, o.Decision.ID)
			}
		}
	}, cmds...)
}

// Whatever happens, no limit is exceeded in the log, and nothing is stuck
// behind one.
func TestChaosWithLimits(t *testing.T) {
	slow(t)
	for seed := range seeds(10) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			c := newChaos(t, seed)
			limits, edit := limitsUnderChaos(seed)
			c.cfg.Limits = limits
			c.steps = nil
			c.crash()
			set, _ := c.l.state.Settings("email")
			edit(&set)
			if o := c.do(core.Configure{Type: "email", Source: events.SourceAPI, Settings: set}); o[0].Err != nil {
				t.Fatal(o[0].Err)
			}
			c.steps = func() int { return c.rng.IntN(8) - 1 }
			for range 250 {
				shrink(c.l)
				if c.rng.IntN(4) == 0 {
					c.submitTenants(1 + int(seed%13)) // few: limits are reached; many: rings page
				}
				c.one()
				c.rest()
			}
			c.finish()
			c.check()
			c.ok(c.verify())
			c.ok(c.withinLimits(set, limits))
		})
	}
}

// withinLimits reads the whole log: at no event did more run, or had more begun
// in a window, than the limits say.
func (c *chaos) withinLimits(set events.TypeSettings, limits events.Limits) error {
	tenants, running, began := map[events.ID]string{}, map[events.ID]bool{}, map[string][]time.Time{}
	from := events.Seq(0)
	err := c.log.Read(context.Background(), 1, c.l.pipe.appended.Frame(), func(f eventlog.Frame) error {
		for _, ev := range f.Events {
			if ev.Type != "email" { // it reminds of something
				continue
			}
			switch b := ev.Body.(type) {
			case *events.TypeConfigured:
				if b.Settings.GroupCapacity == set.GroupCapacity {
					from = ev.Seq
				}
			case *events.Created:
				tenants[ev.ID] = b.Tenant
			case *events.Claimed:
				running[ev.ID] = true
				if from == 0 {
					continue
				}
				if err := within(set, limits, tenants, running, tenants[ev.ID]); err != nil {
					return fmt.Errorf("event %d: %w", ev.Seq, err)
				}
				began[""] = append(began[""], ev.At)
				if tenant := tenants[ev.ID]; tenant != "" {
					began[tenant] = append(began[tenant], ev.At)
				}
			case *events.Completed, *events.Failed, *events.Released, *events.Cancelled, *events.Spawned, *events.Snoozed, *events.Parked:
				delete(running, ev.ID)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for tenant, times := range began {
		for _, r := range set.Rates {
			if (r.Per == events.PerType) == (tenant == "") {
				if err := rateKept(r, times); err != nil {
					return fmt.Errorf("tenant %q: %w", tenant, err)
				}
			}
		}
	}
	return nil
}

func within(set events.TypeSettings, limits events.Limits, tenants map[events.ID]string, running map[events.ID]bool, tenant string) error {
	n := 0
	for id := range running {
		if tenants[id] == tenant {
			n++
		}
	}
	if tenant != "" && n > set.GroupCapacity {
		return fmt.Errorf("%d of tenant %s run, of at most %d", n, tenant, set.GroupCapacity)
	}
	if p, ok := limits.Pools[set.Pool]; ok && len(running) > p.Slots {
		return fmt.Errorf("%d run in the pool, of at most %d", len(running), p.Slots)
	}
	return nil
}

// rateKept looks at every window by brute force.
func rateKept(r events.RateLimit, times []time.Time) error {
	width := r.Interval.Duration
	for i, from := range times {
		n := 0
		for _, at := range times[i:] {
			if at.Sub(from) < width {
				n++
			}
		}
		if n > r.N+r.Burst {
			return fmt.Errorf("%d began within %s: at most %d and a burst of %d", n, width, r.N, r.Burst)
		}
	}
	return nil
}
