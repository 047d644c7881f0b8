package bridge

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/internal/standing"
	"github.com/streamwright/streamwright/wire"
)

// release is a run to be handed back.
type release struct {
	s      *session
	run    *run
	report wire.Report
}

// releases are the runs to be handed back. They are bounded by what was offered, and none
// stays beyond its lease. Guarded by Bridge.mu.
type releases struct {
	b     *Bridge
	list  []release
	wake  chan struct{}
	busy  bool          // some are on their way
	empty chan struct{} // closed once there is nothing left; nil: nobody waits
}

// The wait before the engine is asked again about releases.
const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second
)

// release hands a run back: its item is dispatched again with no attempt used. REQUIRES: mu.
func (s *session) release(r *run, reason string) {
	delete(s.runs, r.token)
	s.b.unload(r)
	q := &s.b.releases
	q.list = append(q.list, release{s, r, wire.Report{
		ID: r.id, Token: r.token, Worker: s.id, Session: s.reg.Session, Event: wire.ReportRelease, Reason: reason,
	}})
	nudge.Send(q.wake)
}

// run asks the engine to take back what is released, until Stop.
func (q *releases) run() {
	pause := time.Duration(0)
	for {
		var again <-chan time.Time
		if pause > 0 {
			again = time.After(pause)
		}
		select {
		case <-q.b.ctx.Done():
			return
		case <-q.wake:
		case <-again:
		}
		if q.sendSome() {
			pause = 0
			continue
		}
		pause = min(max(2*pause, minBackoff), maxBackoff)
	}
}

// take takes the releases of one request. It drops those whose lease is over.
func (q *releases) take() (some []release, reports []wire.Report) {
	q.b.mu.Lock()
	defer q.b.mu.Unlock()
	now := time.Now()
	for len(q.list) > 0 && len(some) < MaxReports {
		if r := q.list[0]; now.Before(r.run.over()) {
			some, reports = append(some, r), append(reports, r.report)
		}
		q.list = q.list[1:]
	}
	q.busy = len(some) > 0
	q.noteEmpty()
	return some, reports
}

// sendSome sends what there is, and reports whether all of it was answered.
func (q *releases) sendSome() bool {
	some, reports := q.take()
	if len(some) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(q.b.ctx, callTimeout)
	defer cancel()
	replies, err := q.b.report(ctx, reports)
	q.b.mu.Lock()
	defer q.b.unlock()
	q.busy = false
	if err != nil {
		q.b.log.Debug("releases got no answer; asking again", "releases", len(some), "error", err)
		q.list = append(q.list, some...)
		return false
	}
	done := true
	for i, r := range some {
		if e := replies[i].Error; e != nil && standing.Transient(e.Code) {
			q.list = append(q.list, r)
			done = false
			continue
		}
		r.s.handedBack()
	}
	q.noteEmpty()
	if done && len(q.list) > 0 {
		nudge.Send(q.wake)
	}
	return done
}

// handedBack makes the session's offer anew: the engine has the worker rest that hands back
// what has not started. REQUIRES: mu.
func (s *session) handedBack() {
	s.offer.told = unknown
	s.polling.poke()
}

// noteEmpty wakes the waiter when nothing is left. REQUIRES: mu.
func (q *releases) noteEmpty() {
	if q.empty != nil && !q.busy && len(q.list) == 0 {
		close(q.empty)
		q.empty = nil
	}
}

// wait returns once nothing is left to be handed back, or with ctx's error. Only Stop
// calls it.
func (q *releases) wait(ctx context.Context) error {
	empty := make(chan struct{})
	q.b.mu.Lock()
	q.empty = empty
	q.noteEmpty()
	q.b.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// report asks the engine about reports. It returns an answer for each.
func (b *Bridge) report(ctx context.Context, reports []wire.Report) (answers []wire.Reported, err error) {
	if err := b.call(ctx, wire.APIReport, reports, &answers); err != nil {
		return nil, err
	}
	if len(answers) != len(reports) {
		return nil, events.Refuse(events.CodeUnavailable, "the engine answered %d of %d reports: send them again", len(answers), len(reports))
	}
	return answers, nil
}
