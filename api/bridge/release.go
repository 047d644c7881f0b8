package bridge

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/pull"
	"github.com/streamwright/streamwright/wire"
)

// release is a run to be handed back.
type release struct {
	run    *run
	report wire.Report
}

// releases are the runs to be handed back. They are bounded by what has been pulled,
// and nothing stays in it beyond its lease. Guarded by Bridge.mu.
type releases struct {
	list  []release
	wake  chan struct{} // room for one
	busy  bool          // some are on their way
	empty chan struct{} // closed once there is nothing left; nil: nobody waits
}

// The wait before the engine is asked again about releases.
const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second
)

// release hands a run back, claimed or not: its item is dispatched again with no
// attempt used. REQUIRES: mu.
func (b *Bridge) release(s *session, r *run, reason string) {
	delete(s.runs, r.token)
	b.unload(r)
	b.releases.list = append(b.releases.list, release{r, wire.Report{
		ID: r.id, Token: r.token, Worker: s.id, Session: s.reg.Session, Event: wire.ReportRelease, Reason: reason,
	}})
	select {
	case b.releases.wake <- struct{}{}:
	default:
	}
}

// sendReleases asks the engine to take back what is released, until Stop.
func (b *Bridge) sendReleases() {
	pause := time.Duration(0)
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-b.releases.wake:
		case <-after(pause):
		}
		if b.sendSome() {
			pause = 0
			continue
		}
		pause = min(max(2*pause, minBackoff), maxBackoff)
	}
}

// after is time.After, and never for 0.
func after(d time.Duration) <-chan time.Time {
	if d == 0 {
		return nil
	}
	return time.After(d)
}

// sendSome sends what there is, and reports whether all of it was answered.
func (b *Bridge) sendSome() bool {
	b.mu.Lock()
	now := time.Now()
	var some []release
	for len(b.releases.list) > 0 && len(some) < MaxReports {
		if r := b.releases.list[0]; now.Before(r.run.over()) {
			some = append(some, r)
		} // else the server has told the engine
		b.releases.list = b.releases.list[1:]
	}
	more := len(b.releases.list) > 0
	b.releases.busy = len(some) > 0
	b.noteEmpty()
	b.mu.Unlock()
	if len(some) == 0 {
		return true
	}
	reports := make([]wire.Report, len(some))
	for i := range some {
		reports[i] = some[i].report
	}
	ctx, cancel := context.WithTimeout(b.ctx, callTimeout)
	defer cancel()
	var replies []wire.Reported
	err := b.call(ctx, wire.APIReport, reports, &replies)
	if err != nil || len(replies) != len(some) {
		b.log.Debug("releases got no answer; asking again", "releases", len(some), "error", err)
		replies = make([]wire.Reported, len(some))
		for i := range replies {
			replies[i].Error = &wire.Error{Code: events.CodeUnavailable}
		}
	}
	b.mu.Lock()
	defer b.unlock()
	done := true
	for i, r := range some {
		if e := replies[i].Error; e != nil && pull.Transient(e.Code) {
			b.releases.list = append(b.releases.list, r)
			done = false
			continue
		}
		b.ack(r.run)
	}
	b.releases.busy = false
	b.noteEmpty()
	if more && done {
		select {
		case b.releases.wake <- struct{}{}:
		default:
		}
	}
	return done
}

// noteEmpty wakes the waiter when nothing is left. REQUIRES: mu.
func (b *Bridge) noteEmpty() {
	if b.releases.empty != nil && !b.releases.busy && len(b.releases.list) == 0 {
		close(b.releases.empty)
		b.releases.empty = nil
	}
}

// waitReleased returns once nothing is left to be handed back, or with ctx's
// error. It is called by Stop alone.
func (b *Bridge) waitReleased(ctx context.Context) error {
	empty := make(chan struct{})
	b.mu.Lock()
	b.releases.empty = empty
	b.noteEmpty()
	b.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
