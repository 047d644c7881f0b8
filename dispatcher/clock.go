package dispatcher

import (
	"sync"
	"time"
)

// clock is the partition's time: the NATS server's, carried on by this
// process's monotonic clock, and never before the last event's. It may be
// read by anyone.
type clock struct {
	local func() time.Time // this process's; time.Now but in tests

	mu    sync.Mutex
	base  time.Time // partition time ...
	since time.Time // ... at this local time (with its monotonic reading)
	last  time.Time // highest time given out
}

// maxSlew is how much of a difference to the server's clock one correction
// takes back.
const maxSlew = 50 * time.Millisecond

// newClock starts at the later of the server's time and the last event's.
func newClock(local func() time.Time, server, lastEvent time.Time) *clock {
	base := later(server, lastEvent).UTC().Round(0)
	return &clock{local: local, base: base, since: local(), last: base}
}

// now is the time, never before one given out earlier.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.base.Add(c.local().Sub(c.since))
	if t.Before(c.last) {
		return c.last
	}
	c.last = t
	return t
}

// until is how long it takes to t, at least 0.
func (c *clock) until(t time.Time) time.Duration { return max(t.Sub(c.now()), 0) }

// correct moves the clock towards the server's time by at most maxSlew, and
// returns the whole difference.
func (c *clock) correct(server time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	diff := server.Sub(c.base.Add(c.local().Sub(c.since)))
	c.base = c.base.Add(min(max(diff, -maxSlew), maxSlew))
	return diff
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sooner is the earlier of two times, where the zero time means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
