package clock

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Partition keeps the clocks of a partition's ownerships in this process, and an
// operator's confirmation of the server's time. Its methods may be called by any
// goroutine.
type Partition struct {
	Source
	Log *slog.Logger
	// Known, if set, returns when an earlier process last found the server's clock
	// plausible, zero if that is not known; or, if it has measured the time since, what time
	// it must be now. Noted, if set, is given the time now and then, to keep it for the next
	// process.
	Known func() (at time.Time, measured bool)
	Noted func(time.Time)
	// Accepted, if set, is called when a clock was confirmed; its time may have gone back.
	Accepted func(now time.Time)

	current   atomic.Pointer[Clock]
	accepting atomic.Pointer[Acceptance]
}

// Acceptance is an operator's confirmation that the server's clock is right.
type Acceptance struct {
	By   string
	done chan struct{} // closed when an ownership has begun with it
}

// Clock returns the clock of the present ownership, or of the last one; nil if there was
// none yet.
func (p *Partition) Clock() *Clock { return p.current.Load() }

// Accepting returns the confirmation with which the next ownership begins, nil for none.
func (p *Partition) Accepting() *Acceptance { return p.accepting.Load() }

// New makes the clock of an ownership.
func (p *Partition) New(server, lastEvent time.Time, accept *Acceptance) *Clock {
	st := Start{Server: server, LastEvent: lastEvent, Accepted: accept != nil, Before: p.Clock()}
	if p.Known != nil {
		st.Known, st.Measured = p.Known()
	}
	return New(p.Source, st)
}

// Begin makes c the present clock, and answers the operator who has confirmed it.
func (p *Partition) Begin(c *Clock, accept *Acceptance) {
	p.current.Store(c)
	s := c.Status()
	switch {
	case accept != nil:
		p.Log.Warn("the server's clock was confirmed: the engine's time is the server's again", "by", accept.By, "time", s.Engine)
		if p.Accepted != nil {
			p.Accepted(s.Engine)
		}
		p.accepting.CompareAndSwap(accept, nil)
		close(accept.done)
	case !s.Plausible():
		p.doubt(s)
	case c.leapt > 0:
		p.Log.Warn("the engine follows the server's clock, which is far ahead of the last time that it knows: how long it was off can't be measured; if the clock is wrong, correct it, and then run engine clock accept", "ahead", c.leapt, "time", s.Engine)
	}
	p.note(s)
}

// note keeps the time for the next process, if it is plausible.
func (p *Partition) note(s Status) {
	if p.Noted != nil && s.Plausible() {
		p.Noted(s.Engine)
	}
}

func (p *Partition) doubt(s Status) {
	p.Log.Error("the clock is implausible: nothing is pruned, cut or made due by it", "why", s.Why, "engine_time", s.Engine, "server_time", s.Server, "difference", s.Difference)
}

// Look corrects a clock by the server's time, and reports whether the verdict changed or
// the clock jumped.
func (p *Partition) Look(c *Clock, server time.Time) (changed bool) {
	d, changed := c.Correct(server)
	s := c.Status()
	p.note(s)
	switch {
	case changed && !s.Plausible():
		p.doubt(s)
	case changed:
		p.Log.Warn("the engine's clock has followed the server's", "by", d, "time", s.Engine)
	case s.Plausible() && d < -MaxSlewed:
		p.Log.Warn("sweep: the server's clock is behind the partition's: slewing towards it", "difference", d)
	}
	return changed
}

// Accept sets the partition's time to the server's, by a new ownership that reload begins.
// If the two differ by at most a second, it does nothing. It fails if the engine ends
// first.
func (p *Partition) Accept(ctx context.Context, by string, reload func(), ended <-chan struct{}) (s Status, err error) {
	if c := p.Clock(); c != nil {
		if s = c.Status(); s.Plausible() && s.Difference.Abs() <= MaxSlewed {
			return s, nil
		}
	}
	a := &Acceptance{By: by, done: make(chan struct{})}
	if !p.accepting.CompareAndSwap(nil, a) {
		return s, events.Refuse(events.CodeUnavailable, "the clock is being accepted already: ask for it again in a moment")
	}
	reload()
	select {
	case <-a.done:
		return p.Clock().Status(), nil
	case <-ended:
		return s, events.Refuse(events.CodeUnavailable, "the engine is shutting down: ask another, or again later")
	case <-ctx.Done():
		p.accepting.CompareAndSwap(a, nil)
		return s, events.Refuse(events.CodeUnavailable, "the clock could not be accepted in time: look at it again in a moment")
	}
}

// Follow corrects the clock by the server's time at once, where [Partition.Look] would take
// back a small difference step by step.
func (p *Partition) Follow(server time.Time) {
	c := p.Clock()
	for range MaxSlewed / MaxSlew {
		if diff, _ := c.Correct(server); diff <= 0 || diff > MaxSlewed {
			break
		}
	}
}
