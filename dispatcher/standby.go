package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/streamwright/streamwright/dispatcher/shared"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/projector"
)

const (
	// leaseTries bounds how often a starting engine asks for a lease that can't be asked
	// for, before it goes on without.
	leaseTries = 3
	// leaseLook is the time after which a standby asks for the lease again, beside whenever
	// it hears that the lease has changed.
	leaseLook = 250 * time.Millisecond
	// askAgain is the wait that who asks a standby for what only the owner does is told.
	askAgain = 20 * time.Millisecond
	// endLook is the time between two looks of a standby at the log's end, and endWithin
	// bounds one.
	endLook   = time.Second
	endWithin = 2 * time.Second
)

// standby follows a log that another engine owns, and says how well. Any goroutine may ask.
type standby struct {
	cfg    *Config
	drain  context.Context     // when it ends, what is asked of the log does, too
	reach  *reach              // raised to what is known of the log
	forget func()              // what only an owner knows
	refuse func(*events.Error) // the commands that wait for an owner

	mu    sync.Mutex // guards what follows
	on    bool       // the engine stands by
	owner string     // as the lease says
	heard time.Time  // when the log's leader was last heard; zero: not yet
	fault error      // why the log can't be followed; nil: it can
	ends  shared.Asker[eventlog.End]
	again chan struct{} // something when the log must be followed from the projection anew
}

// Standing describes an engine that stands by.
type Standing struct {
	Owner string    // who owns the partition, as the lease says
	Heard time.Time // when the log's leader was last heard; zero: not since the engine stands by
	Fault error     // why the log can't be followed just now; nil: it is followed
}

// StandsBy reports whether another engine owns the partition, and how well this one follows
// the log.
func (d *Dispatcher) StandsBy() (Standing, bool) { return d.standby.standing() }

func (s *standby) standing() (Standing, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Standing{Owner: s.owner, Heard: s.heard, Fault: s.fault}, s.on
}

func errNotOwner(owner string) *events.Error {
	err := events.Refuse(events.CodeNotOwner, "this engine stands by for %s, which owns the log: ask again, and the owner will answer", owner)
	if owner == "" {
		err = events.Refuse(events.CodeNotOwner, "this engine is cut off from the log: ask another, or again later")
	}
	err.RetryAfter = askAgain
	return err
}

// End returns the position of the last event that is durable now: an owner's own, and for a
// standby what the log's leader says. Several that ask at once share a request, which began
// after all of them.
func (d *Dispatcher) End(ctx context.Context) (events.Seq, error) {
	if _, on := d.StandsBy(); !on {
		return d.Position(), nil
	}
	return d.standby.end(ctx)
}

func (s *standby) end(ctx context.Context) (events.Seq, error) {
	end, err := s.ends.Ask(ctx, s.askEnd)
	return end.Last, err
}

// askEnd asks the log's leader for its end.
func (s *standby) askEnd() (eventlog.End, error) {
	ctx, cancel := context.WithTimeout(s.drain, endWithin)
	defer cancel()
	end, err := s.cfg.Log.End(ctx)
	if err == nil {
		s.reach.raise(end.Last, end.Events)
		s.note(func(s *standby) { s.heard = time.Now() })
	}
	return end, err
}

func (s *standby) note(fn func(*standby)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(s)
}

// takeLease reports whether this engine may try to own the partition: it has the lease, or
// the log can be reached and the lease can't. Otherwise by is the owner, "" if that is not
// known.
func (s *standby) takeLease(ctx context.Context) (by string, mine bool) {
	if s.cfg.Lease == nil {
		return "", true
	}
	if now, on := s.standing(); on {
		return now.Owner, false // since the start
	}
	var err error
	for try := range 2 * leaseTries {
		if try == leaseTries {
			if _, lost := s.cfg.Log.Last(ctx); lost != nil {
				s.cfg.Logger.Warn("neither the log nor its lease can be reached: standing by", "error", err)
				return "", false
			}
			// The way to the log may have come back just now, and there may be an owner who has
			// not been heard yet: to go on would fence that one.
		}
		if by, err = s.cfg.Lease.Take(ctx); err == nil {
			return by, by == ""
		}
		if ctx.Err() != nil || errors.Is(err, ErrPassed) {
			return "", false
		}
	}
	s.cfg.Logger.Warn("the lease of the log can't be asked for: going on without; other engines on this log would fence each other", "error", err)
	return "", true
}

// failed tells the lease that the partition could not be taken over, or served.
func (s *standby) failed(err error, final bool) {
	if s.cfg.Lease != nil && !errors.Is(err, errReload) && !errors.Is(err, eventlog.ErrFenced) {
		s.cfg.Lease.Failed(err, final)
	}
}

// standBy follows the log until the lease is this engine's, or ctx ends, or the log can't be
// followed for good, which is the error then. by is the owner.
func (s *standby) standBy(ctx context.Context, by string) (err error) {
	s.beginStandby(by)
	defer func() { s.note(func(s *standby) { s.on = err != nil }) }()
	run, cancel := context.WithCancel(ctx)
	failed := make(chan error, 1)
	var parts sync.WaitGroup
	parts.Go(func() { failed <- s.follow(run) })
	parts.Go(func() { s.watchEnd(run) })
	defer parts.Wait()
	defer cancel()
	tick := time.NewTicker(leaseLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case <-s.cfg.Lease.Changed():
		case <-tick.C:
		}
		s.refuse(errNotOwner(by))
		now, err := s.cfg.Lease.Take(ctx)
		switch {
		case err != nil:
			if ctx.Err() == nil && !errors.Is(err, ErrPassed) {
				s.cfg.Logger.Warn("the lease of the log can't be asked for: standing by", "error", err)
			}
		case now == "":
			s.cfg.Logger.Info("the lease of the log is free: taking over", "of", by)
			return nil
		case now != by:
			by = now
			s.noteOwner(by)
		}
	}
}

// beginStandby forgets what only an owner knows.
func (s *standby) beginStandby(by string) {
	if now, on := s.standing(); on && now.Owner == by {
		return // since the start
	}
	s.forget()
	s.note(func(s *standby) { s.on, s.heard, s.fault = true, time.Time{}, nil })
	s.noteOwner(by)
	s.refuse(errNotOwner(by))
}

func (s *standby) noteOwner(by string) {
	s.note(func(s *standby) { s.owner = by })
	if by != "" {
		s.cfg.Logger.Info("standing by: another engine owns the log", "owner", by)
	}
	if h := s.cfg.Hooks.StandingBy; h != nil {
		h(by)
	}
}

// watchEnd looks at the log's end now and then, so that a standby knows how far it is behind,
// and whether it is cut off.
func (s *standby) watchEnd(ctx context.Context) {
	for ctx.Err() == nil {
		_, _ = s.end(ctx) // a failure shows in Standing.Heard
		_ = sleep.For(ctx, endLook)
	}
}

// follow projects what the owner appends, until ctx ends or the log can't be followed for
// good.
func (s *standby) follow(ctx context.Context) error {
	wait := minRetake
	for {
		began := time.Now()
		err := s.followOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errReload):
			continue
		}
		s.note(func(s *standby) { s.fault = err })
		switch {
		case final(err) && !errors.Is(err, eventlog.ErrBehind) && !errors.Is(err, eventlog.ErrTrimmed) && !errors.Is(err, projector.ErrBeforeCut): // the rest is not copied yet
			return err
		case time.Since(began) > maxRetake:
			wait = minRetake
		}
		s.cfg.Logger.Warn("the log can't be followed: trying again", "error", err, "in", wait)
		if err := sleep.For(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, maxRetake)
	}
}

// followOnce follows the log for as long as that lasts. What it has read is projected by the
// same path as at a takeover.
func (s *standby) followOnce(ctx context.Context) error {
	tip, err := s.cfg.Log.Last(ctx)
	if err != nil {
		return err
	}
	if err := fit(ctx, s.cfg, tip); err != nil {
		return fmt.Errorf("follow the log: %w", err)
	}
	state, err := core.NewState(s.cfg.Store)
	if err != nil {
		return err
	}
	if err := state.SetFormatLevel(s.cfg.FormatLevel); err != nil {
		return err
	}
	state.SetDefaults(s.cfg.Defaults)
	state.SetLimits(s.cfg.Limits)
	from := state.Meta().Applied.Frame() + 1
	if from == 1 {
		from = tip.First
	}
	run, cancel := context.WithCancel(ctx)
	f := &follower{standby: s, awaited: s.cfg.Store.Awaited(), state: state, frames: make(chan eventlog.Frame), timer: time.NewTimer(time.Hour)}
	f.timer.Stop()
	f.replay = projector.NewReplay(ctx, s.cfg.Store, state, s.cfg.Hooks.Projected)
	defer f.replay.Close()
	ended := make(chan error, 1)
	go func() {
		defer close(f.frames)
		ended <- s.cfg.Log.Follow(run, from, func(fr eventlog.Frame) error {
			select {
			case f.frames <- fr:
				return nil
			case <-run.Done():
				return run.Err()
			}
		})
	}()
	defer func() { // the reader has ended when followOnce returns
		cancel()
		for range f.frames {
		}
	}()
	s.note(func(s *standby) { s.fault = nil })
	if err := f.run(); err != nil {
		return err
	}
	return errors.Join(<-ended, f.replay.Finish())
}

// follower projects what is read. A commit is put off as the owner puts its own off: see
// projectEvery.
type follower struct {
	standby *standby
	awaited <-chan struct{} // Store.Awaited
	state   *core.State
	frames  chan eventlog.Frame
	replay  *projector.Replay
	timer   *time.Timer
	armed   bool // the timer runs
	last    time.Time
}

// run returns nil when frames is closed.
func (f *follower) run() error {
	defer f.timer.Stop()
	for {
		select {
		case fr, ok := <-f.frames:
			if !ok {
				return nil
			}
			if err := f.replay.Apply(fr); err != nil {
				return err
			}
			m := f.state.Meta()
			f.standby.reach.raise(m.Applied, m.Events)
			if !f.armed {
				f.armed = true
				f.timer.Reset(projectEvery - time.Since(f.last))
			}
		case <-f.timer.C:
			f.armed = false
			if err := f.flush(); err != nil {
				return err
			}
		case <-f.standby.again:
			return errReload
		case <-f.awaited:
			if err := f.flush(); err != nil {
				return err
			}
		}
	}
}

func (f *follower) flush() error {
	f.last = time.Now()
	return f.replay.Flush()
}
