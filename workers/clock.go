package workers

import (
	"time"

	"github.com/streamwright/streamwright/internal/nudge"
)

// clock runs the timers of all runs, with one goroutine and one timer.
type clock struct {
	w        *Worker
	wake     chan struct{} // room for one
	nextTick time.Time     // when it is due; zero: not at all; guarded by Worker.mu
}

// dueBy makes the clock look at things no later than t. REQUIRES: mu.
func (k *clock) dueBy(t time.Time) {
	if !k.nextTick.IsZero() && !t.Before(k.nextTick) {
		return
	}
	k.nextTick = t
	k.look()
}

// look makes the clock see what is due, and which slots have been granted.
func (k *clock) look() { nudge.Send(k.wake) }

// run reports progress that was held back, and stops runs whose leases are lost.
func (k *clock) run() {
	defer k.w.loops.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		k.w.mu.Lock()
		now := time.Now()
		k.w.useGrants(now)
		if !k.nextTick.IsZero() && !now.Before(k.nextTick) {
			k.nextTick = time.Time{}
			k.tick(now)
		}
		wait := time.Hour
		if !k.nextTick.IsZero() {
			wait = time.Until(k.nextTick)
		}
		k.w.unlock()
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-k.wake:
		case <-k.w.life.Done():
			return
		}
	}
}

// tick does the work due at now and sets, by dueBy, the time of the next look.
// REQUIRES: mu.
func (k *clock) tick(now time.Time) {
	for _, r := range k.w.table.runs {
		if r.state != running && r.state != held {
			continue
		}
		if !k.w.link.connected {
			k.outlive(r, now)
		}
		if r.state == running {
			r.line.tell(now)
		}
	}
	k.w.reviewHeld(now)
}

// outlive stops a run that no heartbeat can have kept for a whole lease, since there is no
// connection: another worker may have its item. REQUIRES: mu.
func (k *clock) outlive(r *run, now time.Time) {
	switch lost := k.w.link.lost.Add(r.lease - r.lease/beatsPerLease); {
	case r.stop != nil:
	case now.Before(lost):
		k.dueBy(lost)
	default:
		k.w.log.Warn("no connection for a whole lease: the run is stopped", "item", r.msg.ID, "type", string(r.reg.typ), "lease", r.lease)
		k.w.endRun(r, ErrLeaseLost, r.state == held)
	}
}
