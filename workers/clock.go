package workers

import (
	"time"

	"github.com/streamwright/streamwright/internal/pull"
)

// clock runs the timers of all runs and pulls, with one goroutine and one
// timer.
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
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run renews leases, hands back what waits too long, and notices pull
// requests that were lost: one goroutine and one timer for all of them.
func (k *clock) run() {
	defer k.w.loops.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		k.w.mu.Lock()
		now := time.Now()
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
	k.tickHeld(now)
	for _, r := range k.w.table.runs {
		if r.state != running && r.state != settling {
			continue
		}
		if !now.Before(r.renewAt) {
			k.renew(r, now)
		}
		k.dueBy(r.renewAt)
		r.line.tell(now)
	}
	for _, c := range k.w.pulls.consumers {
		for _, l := range c.lanes {
			if l.left == 0 {
				continue
			}
			if now.Before(l.expires) {
				k.dueBy(l.expires)
			} else {
				l.left = 0
			}
		}
	}
	k.w.pulls.refillAll()
}

// tickHeld hands back items that have waited too long: handlers are no longer
// short. REQUIRES: mu.
func (k *clock) tickHeld(now time.Time) {
	keep := k.w.table.held[:0]
	for _, r := range k.w.table.held {
		if now.Before(r.holdUntil()) {
			k.dueBy(r.holdUntil())
			keep = append(keep, r)
			continue
		}
		k.w.table.meanRun = slowRun
		k.w.handBack(r, "no_slot")
	}
	clear(k.w.table.held[len(keep):])
	k.w.table.held = keep
}

// renew extends a run's lease, or, after a whole lease without a connection,
// takes it for lost. REQUIRES: mu.
func (k *clock) renew(r *run, now time.Time) {
	third := r.msg.Lease / 3
	r.renewAt = now.Add(third)
	if r.gaveUp || (r.letGo && r.stop != ErrCancelled) {
		return
	}
	if k.w.link.connected {
		r.contact = now
		if !r.assigned { // heartbeats keep it
			k.w.publish(r.msg.Reply, "", pull.Renew)
		}
		return
	}
	lost := r.contact.Add(r.msg.Lease)
	if now.Before(lost) {
		if lost.Before(r.renewAt) {
			r.renewAt = lost
		}
		return
	}
	if r.state == running && r.stop == nil {
		k.w.log.Warn("no connection for a whole lease: the run is stopped", "item", r.msg.RawID, "type", string(r.reg.typ), "lease", r.msg.Lease)
		k.w.endRun(r, ErrLeaseLost, false)
	}
}
