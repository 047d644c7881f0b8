package dispatcher

import (
	"context"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/events"
)

// ClockStatus compares the partition's time with the NATS server's.
type ClockStatus = clock.Status

// acceptance is an operator's word that the server's clock is right.
type acceptance struct {
	by   string
	done chan struct{} // closed when an ownership has begun with it
}

// Source is what a clock of this engine goes by.
func (c *Config) clockSource(local func() time.Time) clock.Source {
	return clock.Source{Local: local, MaxJump: c.MaxClockJump, Synced: c.ClockSynced, Sleep: c.Suspended}
}

// lastKnown is the latest time that is known to have been right: that of the
// previous process, or of an earlier ownership of this one.
func (c *Config) lastKnown(before *clock.Clock) (t time.Time) {
	if c.KnownTime != nil {
		t = c.KnownTime()
	}
	if before != nil {
		t = clock.Later(t, before.Now())
	}
	return t
}

// clockBegins says how the clock of an ownership begins, and answers who has
// confirmed it.
func (e *Engine) clockBegins(c *clock.Clock, accept *acceptance) {
	s := c.Status()
	switch {
	case accept != nil:
		e.cfg.Logger.Warn("the server's clock was confirmed: the engine's time is the server's again", "by", accept.by, "time", s.Engine)
		e.registry.SetBack(s.Engine)
		e.accepting.CompareAndSwap(accept, nil)
		close(accept.done)
	case !s.Plausible():
		e.cfg.sayDoubt(s)
	}
	e.cfg.noteTime(s)
}

// noteTime keeps the time for the next process, if it is plausible.
func (c *Config) noteTime(s ClockStatus) {
	if c.NoteTime != nil && s.Plausible() {
		c.NoteTime(s.Engine)
	}
}

func (c *Config) sayDoubt(s ClockStatus) {
	c.Logger.Error("the clock is implausible: nothing is pruned, cut or made due by it", "why", s.Why, "engine_time", s.Engine, "server_time", s.Server, "difference", s.Difference)
}

// lookAtClock corrects an ownership's clock by the server's time.
func (e *Engine) lookAtClock(ctx context.Context, c *clock.Clock, sig *natsio.Signals) {
	tip, err := e.cfg.Log.Last(ctx)
	if err != nil {
		return
	}
	d, changed := c.Correct(tip.Time)
	s := c.Status()
	e.cfg.noteTime(s)
	switch {
	case changed && !s.Plausible():
		e.cfg.sayDoubt(s)
	case changed:
		e.cfg.Logger.Warn("the engine's clock has followed the server's", "by", d, "time", s.Engine)
	case s.Plausible() && d < -clock.MaxSlewed:
		e.cfg.Logger.Warn("sweep: the server's clock is behind the partition's: slewing towards it", "difference", d)
	}
	if changed {
		sig.ClockChanged()
	}
}

// Clock returns the partition's time and how the server's compares with it;
// false before there is any.
func (e *Engine) Clock() (ClockStatus, bool) {
	c := e.clock.Load()
	if c == nil {
		return ClockStatus{}, false
	}
	return c.Status(), true
}

// AcceptClock has the partition's time be the server's from now on, since
// somebody who knows says that it is right; by may be empty. It is recorded in
// the log, by a new ownership, and may go back in time: see [events.ClockAccepted].
// Where both agree to a second nothing happens.
func (e *Engine) AcceptClock(ctx context.Context, by string) (ClockStatus, error) {
	s, ok := e.Clock()
	if ok && s.Plausible() && s.Difference.Abs() <= clock.MaxSlewed {
		return s, nil
	}
	a := &acceptance{by: by, done: make(chan struct{})}
	if !e.accepting.CompareAndSwap(nil, a) {
		return s, events.Refuse(events.CodeUnavailable, "the clock is being accepted already: ask for it again in a moment")
	}
	e.Reload()
	select {
	case <-a.done:
		s, _ = e.Clock()
		return s, nil
	case <-e.ended:
		return s, errClosed
	case <-ctx.Done():
		e.accepting.CompareAndSwap(a, nil)
		return s, events.Refuse(events.CodeUnavailable, "the clock could not be accepted in time: look at it again in a moment")
	}
}

// FollowClock corrects the engine's clock by the server's now, rather than with
// the next sweep.
func (e *Engine) FollowClock(ctx context.Context) error {
	tip, err := e.cfg.Log.Last(ctx)
	if err != nil {
		return fmt.Errorf("follow the server's clock: %w", err)
	}
	c := e.clock.Load()
	if c == nil {
		return errClosed
	}
	// A correction takes back no more than clock.MaxSlew of a small difference.
	for range clock.MaxSlewed / clock.MaxSlew {
		if diff, _ := c.Correct(tip.Time); diff <= 0 || diff > clock.MaxSlewed {
			break
		}
	}
	e.whenOwner((*natsio.Signals).ClockChanged)()
	return nil
}
