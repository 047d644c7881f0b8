package workers

import (
	"cmp"
	"time"
)

// What follows concerns items that wait for a slot which another namespace's run has; see
// slots. They count as runs, so heartbeats keep their leases.

// hold has a run wait for a slot. REQUIRES: mu.
func (w *Worker) hold(r *run) {
	w.table.line = append(w.table.line, r)
	w.clock.dueBy(r.heldUntil())
}

// heldUntil returns when a run that is held goes back.
func (r *run) heldUntil() time.Time { return r.received.Add(min(maxHeld, r.lease/2)) }

// oldestHeld returns the run that has waited the longest, nil for none. REQUIRES: mu.
func (t *runTable) oldestHeld() *run {
	for len(t.line) > 0 && t.line[0].state != held {
		t.line[0], t.line = nil, t.line[1:]
	}
	if len(t.line) == 0 {
		return nil
	}
	return t.line[0]
}

// useGrants begins runs that have been given a slot. REQUIRES: mu.
func (w *Worker) useGrants(now time.Time) {
	for range w.table.share.granted() {
		r, reason := w.table.oldestHeld(), w.refuses()
		if r != nil && reason == "" {
			w.begin(r, now)
			continue
		}
		if r != nil {
			w.handBack(r, reason)
		}
		w.table.share.give()
	}
}

// reviewHeld hands back the runs that have waited for too long, and all if the worker starts
// none any more. REQUIRES: mu.
func (w *Worker) reviewHeld(now time.Time) {
	reason := w.refuses()
	for r := w.table.oldestHeld(); r != nil; r = w.table.oldestHeld() {
		if due := r.heldUntil(); reason == "" && now.Before(due) {
			w.clock.dueBy(due)
			return
		}
		if !w.table.share.leave() {
			return // it has just been granted its slot
		}
		w.handBack(r, cmp.Or(reason, "no_slot"))
		if reason == "" && w.table.share.pass() {
			w.session.Ask() // the engine is to send nothing more
			w.session.wake()
		}
	}
}

// letGoHeld ends a run that waits for a slot. If it has just been granted one, the next run
// has it: see useGrants. REQUIRES: mu.
func (w *Worker) letGoHeld(r *run) {
	w.table.share.leave()
	w.letGo(r)
}
