package dispatcher

import (
	"strconv"
	"testing"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// jump sets the server's clock, while the engine runs or between two runs. Now
// and then somebody confirms it, be it right or wrong.
func (c *chaos) jump() {
	jumps := []time.Duration{0, 0, 0, time.Second, 2 * time.Hour, 20 * time.Hour, 45 * 24 * time.Hour, -2 * time.Second, -2 * time.Hour, -45 * 24 * time.Hour}
	c.skew = jumps[c.rng.IntN(len(jumps))]
	switch c.rng.IntN(5) {
	case 0:
		c.crash()
	case 1:
		c.acceptClock()
	default:
		c.looked()
		c.settle()
	}
}

func (c *chaos) acceptClock() {
	c.accept = &clock.Acceptance{By: "ops"}
	c.losses++
	c.start()
	c.reg.SetBack(c.l.clock.Now())
}

// The clock may jump at any moment, and be confirmed when it is wrong: in the
// end it is right, everything gets done, and the projection is what the log says.
func TestChaosOfClocks(t *testing.T) {
	slow(t)
	for seed := range seeds(10) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			c := newChaos(t, seed+5000)
			set := c.cfg.Defaults
			set.MaxAttempts, set.Capacity, set.Retain.Completed, set.Retain.Dead = 50, 8, events.Millis(1<<40), events.Millis(1<<40) // or what a wrong clock prunes would be missed
			c.do(core.Configure{Type: "email", Source: events.SourceAPI, Settings: set})
			for range 250 {
				if c.rng.IntN(10) == 0 {
					c.jump()
				}
				c.one()
				c.rest()
			}
			c.crashAt, c.skew, c.steps = "", 0, nil
			c.log.Script()
			c.acceptClock()
			if now := c.l.clock.Now(); !now.Equal(c.at) {
				t.Errorf("on the right clock, confirmed, it is %v, not %v", now, c.at)
			}
			c.finish()
			c.check()
			c.ok(c.verify())
		})
	}
}

// While the log's own times can't be trusted, a timer that passes between two looks at the
// clock is not lost.
func TestTimersPassUnderABlindClock(t *testing.T) {
	s := newSim(t, nil)
	const items = 200
	first := s.at.Add(time.Hour)
	for i := range items {
		s.submit(core.Submit{ExpiresAt: first.Add(time.Duration(i) * time.Millisecond)})
	}
	s.tick(10 * time.Minute)
	s.skew = -2 * time.Hour
	s.crash()
	if !s.l.clock.Status().Blind {
		t.Fatalf("the clock is not blind: %+v", s.l.clock.Status())
	}
	s.tick(first.Add(2*time.Hour - time.Millisecond).Sub(s.at))
	s.drift = 100 * time.Microsecond
	for !s.at.After(first.Add(2*time.Hour + items*time.Millisecond)) {
		s.settle()
	}
	s.drift = 0
	s.tick(time.Hour)
	left := 0
	s.ok(s.store.InState(events.StateQueued, func(*events.Item) error { left++; return nil }))
	if left > 0 {
		t.Errorf("%d of %d items have not expired", left, items)
	}
}
