package clock

import (
	"fmt"
	"sync"
	"time"

	"github.com/streamwright/streamwright/wire"
)

// Bounds within which the server's clock counts as plausible.
const (
	// DefaultMaxJump is the most that the server's clock may be ahead at a start of the last
	// time the partition knew, if nobody knows how long ago that was. A clock wrong by less
	// destroys only what had at most a day left, which is the default retention of ended
	// items.
	DefaultMaxJump = 24 * time.Hour
	// MaxAhead is the most that the server's clock may be ahead of the time that has passed,
	// where that was measured.
	MaxAhead = 5 * time.Minute
	// SettleWithin is the time that the machine's clock has to be synchronised after a start
	// of the machine, before a server's clock that is ahead by up to MaxJump is followed.
	SettleWithin = 5 * time.Minute
	// MaxBehind is the most that the server's clock may be behind that time.
	MaxBehind = 5 * time.Minute
	// maxSyncedDiffers is the most that the server's clock may differ from a synchronised
	// clock of this machine and still be confirmed by it.
	maxSyncedDiffers = time.Minute
)

const (
	// MaxSlew is the most that one correction takes back of a difference to the server's
	// clock.
	MaxSlew = 50 * time.Millisecond
	// MaxSlewed is the largest difference by which the clock is slewed forward. It makes up
	// a larger one at once: after a suspend, it would lag for months.
	MaxSlewed = time.Second
)

// Clock is the partition's time: the NATS server's, carried on by this process's monotonic
// clock, and never before the last event's. It does not follow an implausible server time:
// it goes on from the last time that was trusted. Clock is safe for concurrent use.
type Clock struct {
	Source

	mu    sync.Mutex
	base  time.Time // partition time ...
	since time.Time // ... at this local time (with its monotonic reading)
	last  time.Time // highest time given out

	server  time.Time     // last heard ...
	heard   time.Time     // ... at this local time
	known   time.Time     // when an earlier run's clock was last plausible
	slept   time.Duration // what Sleep returned when the clock was last plausible ...
	awake   bool          // ... if it was called
	verdict string
	doubted time.Time // since when it is implausible, by the partition's time; zero: it is plausible
	// measured is set if the time that has passed since the last trusted time is known, by
	// the clocks of this process or of this machine; while it is not, began is the local
	// time from which SettleWithin counts.
	measured bool
	began    time.Time
	// blind is set from a start in front of the log's own times until the server's
	// clock is plausible: then base can't be trusted either.
	blind bool
	// leapt is how far ahead of the last known time the clock began, if that is more than
	// MaxAhead and nothing could confirm it.
	leapt time.Duration
}

// Source holds what a clock needs besides the server's time.
type Source struct {
	Local   func() time.Time // this process's time
	MaxJump time.Duration    // negative: any server time is plausible
	// Synced returns the time of this machine's clock, and whether it is known to be
	// synchronised; nil: the machine can't tell.
	Synced func() (time.Time, bool)
	// Sleep, if set, returns how long this machine has been suspended since some fixed
	// moment. Local does not count that time.
	Sleep func() time.Duration
}

// Start holds the times from which a clock begins.
type Start struct {
	Server    time.Time // the NATS server's time now
	LastEvent time.Time // zero: the log is empty
	Known     time.Time // the latest time that an earlier run trusted; may be zero
	Measured  bool      // Known is carried on to now, by a clock that nobody sets
	Accepted  bool      // an operator has confirmed the server's time
	Before    *Clock    // of the ownership before, in this process; may be nil
}

// New returns a Clock that starts at the server's time, or at the last event's if that is a
// little later. If the server's time is not plausible, it starts at the latest time known.
func New(src Source, st Start) *Clock {
	c := &Clock{Source: src, since: src.Local(), known: st.Known, verdict: wire.ClockPlausible, measured: st.Measured}
	c.heard, c.server, c.began = c.since, st.Server, c.since
	if b := st.Before; b != nil {
		passed := b.passed()
		c.known, c.measured = Later(c.known, passed), c.measured || b.isMeasured()
		c.began = b.began
	}
	c.base = Later(st.Server, st.LastEvent)
	ref := Later(st.LastEvent, c.known)
	switch {
	case st.Accepted:
		c.base, c.measured = st.Server, true
	case st.LastEvent.IsZero(): // a wrong clock could destroy nothing
		c.measured = true
	default:
		if c.verdict = c.judge(st.Server.Sub(ref)); c.verdict != wire.ClockPlausible {
			c.base, c.doubted, c.blind = ref, ref, c.verdict == wire.ClockBehind
		} else if ahead := st.Server.Sub(ref); ahead > MaxAhead && !c.measured && !c.confirmed() {
			c.leapt = ahead
		}
	}
	c.measured = c.measured || c.verdict == wire.ClockPlausible
	c.base = c.base.UTC().Round(0)
	c.last = c.base
	c.noteSleep()
	return c
}

// passed returns the time that it must be by this clock now, that of the machine's sleep
// included.
func (c *Clock) passed() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.nowLocked()
	if c.Sleep != nil && c.awake {
		t = t.Add(max(c.Sleep()-c.slept, 0))
	}
	return t
}

func (c *Clock) isMeasured() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.measured
}

// judge returns the verdict on a difference between the server's clock and the known time.
// If it was measured how long that time lies back, the clock is right or wrong. If not (the
// machine was off, or the log is new to it), an engine that was off and a clock that is ahead
// look the same; a machine that can synchronise its clock has a while for it.
func (c *Clock) judge(diff time.Duration) string {
	switch {
	case c.MaxJump < 0:
	case diff < -MaxBehind:
		return wire.ClockBehind
	case diff <= min(MaxAhead, c.MaxJump), c.wasAsleep(diff), c.confirmed():
	case c.measured, diff > c.MaxJump, c.settles() > 0:
		return wire.ClockAhead
	}
	return wire.ClockPlausible
}

// settles returns how long the machine's clock still has to be synchronised.
func (c *Clock) settles() time.Duration {
	if c.Synced == nil {
		return 0
	}
	return max(SettleWithin-c.Local().Sub(c.began), 0)
}

// wasAsleep reports whether the machine has been suspended for as long as the
// server's clock is ahead.
func (c *Clock) wasAsleep(diff time.Duration) bool {
	return c.Sleep != nil && c.awake && (diff-(c.Sleep()-c.slept)).Abs() <= MaxBehind
}

// confirmed reports whether this machine's clock is synchronised and agrees with
// the server's.
func (c *Clock) confirmed() bool {
	if c.Synced == nil {
		return false
	}
	now, ok := c.Synced()
	return ok && now.Sub(c.serverNow()).Abs() <= maxSyncedDiffers
}

func (c *Clock) noteSleep() {
	if c.Sleep != nil {
		c.slept, c.awake = c.Sleep(), true
	}
}

// serverNow returns the server's time as last heard, carried on since.
func (c *Clock) serverNow() time.Time { return c.server.Add(c.Local().Sub(c.heard)) }

// running returns the partition's time, before Now keeps it from going back.
func (c *Clock) running() time.Time { return c.base.Add(c.Local().Sub(c.since)) }

// Now returns the time, never before one returned earlier.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nowLocked()
}

func (c *Clock) nowLocked() time.Time {
	t := c.running()
	if t.Before(c.last) {
		return c.last
	}
	c.last = t
	return t
}

// Due returns the time that decides what recorded in the log is due: now, or an earlier
// time while the log's own times can't be trusted.
func (c *Clock) Due() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.nowLocked()
	if c.blind {
		if s := c.serverNow().UTC().Round(0); s.Before(t) {
			return s
		}
	}
	return t
}

// Reached reports whether a time has come, by Due. The zero time always has, without a look at
// the clock.
func (c *Clock) Reached(t time.Time) bool { return t.IsZero() || !t.After(c.Due()) }

// BlindDue returns Due while it differs from Now, else the zero time.
func (c *Clock) BlindDue() time.Time {
	if c.Lag() == 0 {
		return time.Time{}
	}
	return c.Due()
}

// Lag returns how far Due is behind Now.
func (c *Clock) Lag() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.blind {
		return 0
	}
	return max(c.nowLocked().Sub(c.serverNow()), 0)
}

// Doubtful reports whether the server's clock is implausible; then time alone drops
// nothing.
func (c *Clock) Doubtful() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.doubted.IsZero()
}

// Until returns the time left until t, at least 0.
func (c *Clock) Until(t time.Time) time.Duration { return max(t.Sub(c.Now()), 0) }

// Correct moves the clock towards the server's time, if that is plausible: back or a little
// forward by at most MaxSlew, further forward at once. It returns the whole difference, and
// whether the verdict changed or the clock jumped.
func (c *Clock) Correct(server time.Time) (diff time.Duration, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.heard = server, c.Local()
	diff = server.Sub(c.running())
	was := c.verdict
	if c.verdict = c.judge(diff); c.verdict != wire.ClockPlausible {
		if c.doubted.IsZero() {
			c.doubted = c.nowLocked()
		}
		c.blind = c.blind && c.verdict == wire.ClockBehind
		return diff, c.verdict != was
	}
	c.doubted, c.blind, c.measured = time.Time{}, false, true
	c.noteSleep()
	if diff > MaxSlewed {
		c.base = c.base.Add(diff)
		return diff, true
	}
	c.base = c.base.Add(min(max(diff, -MaxSlew), MaxSlew))
	return diff, c.verdict != was
}

// Status compares the partition's time with the server's.
type Status struct {
	Engine     time.Time
	Server     time.Time     // as last heard, carried on since
	Known      time.Time     // when an earlier run's clock was last plausible; zero: not known
	Difference time.Duration // Server less Engine
	Verdict    string        // wire.ClockPlausible, wire.ClockAhead or wire.ClockBehind
	Since      time.Time     // when the verdict ceased to be wire.ClockPlausible, by Engine
	Why        string        // the verdict explained, if it is not wire.ClockPlausible
	MaxJump    time.Duration // negative: any is plausible
	// Blind is set while the log's own times can't be trusted either.
	Blind bool
}

// Plausible reports whether the server's clock is plausible.
func (s Status) Plausible() bool { return s.Verdict == wire.ClockPlausible }

func (c *Clock) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Status{Engine: c.nowLocked(), Server: c.serverNow().UTC().Round(0), Known: c.known, Verdict: c.verdict, Since: c.doubted, MaxJump: c.MaxJump, Blind: c.blind}
	s.Difference = s.Server.Sub(s.Engine)
	by := s.Difference.Abs().Round(time.Second)
	switch {
	case s.Verdict == wire.ClockAhead && c.measured && c.MaxJump > MaxAhead:
		s.Why = fmt.Sprintf("the NATS server's clock is %s ahead of the time that has passed since it was last right; more than %s is not followed until the machine's clock is synchronised, or an operator confirms it: engine clock accept", by, MaxAhead)
	case s.Verdict == wire.ClockAhead && s.Difference <= c.MaxJump:
		s.Why = fmt.Sprintf("the NATS server's clock is %s ahead of the last time that is known to be right, the machine was started since, and its clock is not synchronised: it is followed when it is, or in %s, or when an operator confirms it: engine clock accept", by, c.settles().Round(time.Second))
	case s.Verdict == wire.ClockAhead:
		s.Why = fmt.Sprintf("the NATS server's clock is %s ahead of the last time that is known to be right; more than %s (max_clock_jump) is not followed until the machine's clock is synchronised, or an operator confirms it: engine clock accept", by, s.MaxJump)
	case s.Blind:
		s.Why = fmt.Sprintf("the event log ends %s ahead of the NATS server's clock, so one of the two is wrong: correct the machine's clock, or, if that is right, confirm it: engine clock accept", by)
	case s.Verdict == wire.ClockBehind:
		s.Why = fmt.Sprintf("the NATS server's clock has gone back and is %s behind the engine's: correct the machine's clock, or, if that is right, confirm it: engine clock accept", by)
	}
	return s
}

func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Sooner returns the earlier of two times, where the zero time means never.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// Passed reports whether the time at is set and has come.
func Passed(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }
