package bridge

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/internal/standing"
	"github.com/streamwright/streamwright/wire"
)

// startAfter is the time that a worker has for its first report on a run. After that the
// bridge reports the start: otherwise the engine would take back the item of a worker that
// reports nothing but the end. A shorter run takes one report instead of two. startAfter is
// shorter than the shortest start_timeout.
const startAfter = 50 * time.Millisecond

// starts holds the runs whose start may still have to be reported, oldest first. Guarded by
// Bridge.mu.
type starts struct {
	b    *Bridge
	list []handing
	wake chan struct{}
}

// handing is a run that was handed out.
type handing struct {
	s   *session
	run *run
	due time.Time // of the report of its start
}

// add adds a run that has just been handed out. REQUIRES: mu.
func (q *starts) add(s *session, r *run, now time.Time) {
	q.list = append(q.list, handing{s, r, now.Add(startAfter)})
	if len(q.list) == 1 {
		nudge.Send(q.wake)
	}
}

// run reports the starts that are due, until Stop.
func (q *starts) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-q.b.ctx.Done():
			return
		case <-q.wake:
		case <-timer.C:
		}
		due, next := q.take(time.Now())
		q.report(due)
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// take takes the runs whose start is due, up to MaxReports, and returns when the next is
// due; zero for never. It drops runs that have ended, or whose start the engine knows.
func (q *starts) take(now time.Time) (due []handing, next time.Time) {
	q.b.mu.Lock()
	defer q.b.mu.Unlock()
	for len(q.list) > 0 && len(due) < MaxReports {
		h := q.list[0]
		if !h.waits(now) {
			q.list = q.list[1:]
			continue
		}
		if h.due.After(now) {
			break
		}
		due, q.list = append(due, h), q.list[1:]
	}
	if len(q.list) == 0 {
		q.list = nil
		return due, time.Time{}
	}
	return due, q.list[0].due
}

// waits reports whether the start of a run must still be reported. REQUIRES: mu.
func (h *handing) waits(now time.Time) bool {
	return h.s.runs[h.run.token] == h.run && !h.run.started && !h.run.cancelled && now.Before(h.run.over())
}

// report reports starts. What gets no answer is due again.
func (q *starts) report(due []handing) {
	if len(due) == 0 {
		return
	}
	reports := make([]wire.Report, len(due))
	for i, h := range due {
		reports[i] = wire.Report{ID: h.run.id, Token: h.run.token, Worker: h.s.id, Session: h.s.reg.Session, Event: wire.ReportStart}
	}
	ctx, cancel := context.WithTimeout(q.b.ctx, callTimeout)
	defer cancel()
	answers, err := q.b.report(ctx, reports)
	now := time.Now()
	q.b.mu.Lock()
	defer q.b.unlock()
	for i, h := range due {
		switch {
		case err != nil || answers[i].Error != nil && standing.Transient(answers[i].Error.Code):
			q.add(h.s, h.run, now)
		case answers[i].Error != nil && h.s.runs[h.run.token] == h.run:
			h.run.cancelled = true // the worker hears it from its next heartbeat or report
		case answers[i].Error == nil:
			h.run.started = true
		}
	}
}
