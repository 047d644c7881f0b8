package workers

import "time"

// dueBy makes the clock look at things no later than t. REQUIRES: mu.
func (w *Worker) dueBy(t time.Time) {
	if !w.nextTick.IsZero() && !t.Before(w.nextTick) {
		return
	}
	w.nextTick = t
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// runClock renews leases, hands back what waits too long, and notices pull
// requests that were lost: one goroutine and one timer for all of them.
func (w *Worker) runClock() {
	defer w.loops.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w.mu.Lock()
		now := time.Now()
		if !w.nextTick.IsZero() && !now.Before(w.nextTick) {
			w.nextTick = time.Time{}
			w.tick(now)
		}
		wait := time.Hour
		if !w.nextTick.IsZero() {
			wait = time.Until(w.nextTick)
		}
		w.unlock()
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.life.Done():
			return
		}
	}
}

// tick does what is due at now and says, by dueBy, when to look again.
// REQUIRES: mu.
func (w *Worker) tick(now time.Time) {
	w.tickHeld(now)
	for _, r := range w.runs {
		if r.state != running && r.state != settling {
			continue
		}
		if !now.Before(r.renewAt) {
			w.renew(r, now)
		}
		w.dueBy(r.renewAt)
		w.tellProgress(r, now)
	}
	for _, c := range w.consumers {
		for _, l := range c.lanes {
			if l.left == 0 {
				continue
			}
			if now.Before(l.expires) {
				w.dueBy(l.expires)
			} else {
				l.left = 0
			}
		}
	}
	w.refillAll()
}

// tickHeld hands back what has waited too long: handlers are no longer short.
// REQUIRES: mu.
func (w *Worker) tickHeld(now time.Time) {
	keep := w.held[:0]
	for _, r := range w.held {
		if now.Before(r.holdUntil()) {
			w.dueBy(r.holdUntil())
			keep = append(keep, r)
			continue
		}
		w.meanRun = slowRun
		w.handBack(r, "no_slot")
	}
	clear(w.held[len(keep):])
	w.held = keep
}

// renew extends a run's lease, or, after a whole lease without a connection,
// takes it for lost. REQUIRES: mu.
func (w *Worker) renew(r *run, now time.Time) {
	third := r.lease / 3
	r.renewAt = now.Add(third)
	if r.gaveUp || (r.letGo && r.stop != ErrCancelled) {
		return
	}
	if w.connected {
		r.contact = now
		w.publish(r.msg.Reply, "", renewBody)
		return
	}
	lost := r.contact.Add(r.lease)
	if now.Before(lost) {
		if lost.Before(r.renewAt) {
			r.renewAt = lost
		}
		return
	}
	if r.state == running && r.stop == nil {
		w.log.Warn("no connection for a whole lease: the run is stopped", "item", r.rawID, "type", string(r.reg.typ), "lease", r.lease)
		w.endRun(r, ErrLeaseLost, false)
	}
}
