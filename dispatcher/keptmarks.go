package dispatcher

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// DrainUnseen is how long a worker that is marked to drain may not be heard of
// until its mark ends. It is counted anew when the engine starts.
const DrainUnseen = 24 * time.Hour

// drainMarks follows the workers that are marked to drain. Which are is decided
// and recorded (package events); when each was last heard of is volatile.
// Owned by the loop.
type drainMarks struct {
	version uint64 // State.DrainVersion that the registry has heard of
	seen    map[events.WorkerID]time.Time
}

// begin tells the registry what the log says.
func (d *drainMarks) begin(l *loop) {
	d.version, d.seen = l.state.DrainVersion(), map[events.WorkerID]time.Time{}
	marks := l.state.Drains()
	for w := range marks {
		d.seen[w] = l.clock.Now()
	}
	l.registry.drains(marks)
}

// followDrains tells the registry of the marks that have changed.
func (l *loop) followDrains() {
	d := &l.drains
	if l.state.DrainVersion() == d.version {
		return
	}
	d.version = l.state.DrainVersion()
	marks := l.state.Drains()
	maps.DeleteFunc(d.seen, func(w events.WorkerID, _ time.Time) bool { _, marked := marks[w]; return !marked })
	for w := range marks {
		if d.seen[w].IsZero() {
			d.seen[w] = l.clock.Now()
		}
	}
	l.registry.drains(marks)
}

// endUnseenDrains ends the marks of workers that won't come back, with each
// sweep, as far as the batch has room.
func (l *loop) endUnseenDrains(now time.Time) error {
	for _, w := range slices.Sorted(maps.Keys(l.drains.seen)) {
		switch {
		case l.registry.knows(w):
			l.drains.seen[w] = now
		case !now.Before(l.drains.seen[w].Add(DrainUnseen)) && l.room():
			if _, _, err := l.decide(events.EndDrain{Worker: w, Reason: events.ReasonUnseen}); fatal(err) != nil {
				return err
			}
		}
	}
	return nil
}

// drains says which workers are marked to drain.
func (r *registry) drains(marks map[events.WorkerID]events.Drain) {
	r.mu.Lock()
	r.marked = marks
	changed := false
	for id, w := range r.workers {
		_, w.draining = marks[id]
		changed = w.settle() || changed
	}
	r.mu.Unlock()
	if changed {
		r.changed()
	}
}

// drainable refuses what no worker that is alive has the id of.
func (r *registry) drainable(id events.WorkerID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, marked := r.marked[id]
	if r.workers[id] != nil || marked {
		return nil
	}
	if d, died := r.dead[id]; died {
		return events.Refuse(events.CodeNotFound, "worker %s is dead: it was last heard of at %s, and what it had is taken from it", id, d.LastSeen.Format(time.RFC3339))
	}
	return events.Refuse(events.CodeNotFound, "no worker %s is registered: `engine workers` lists those that are", id)
}

// isMarked reports whether a worker is marked to drain.
func (r *registry) isMarked(id events.WorkerID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, marked := r.marked[id]
	return marked
}

// Drains are the workers that are marked to drain, by id, whether they are
// registered or not.
func (e *Engine) Drains() []wire.DrainMark {
	e.registry.mu.Lock()
	defer e.registry.mu.Unlock()
	return wire.FromDrains(e.registry.marked)
}

// Drain asks a worker to take no more work. It is recorded: it holds until the
// worker unregisters, or [Engine.Undrain], or until nothing was heard of the
// worker for DrainUnseen.
func (e *Engine) Drain(ctx context.Context, d wire.Drain) (Outcome, error) {
	w := events.WorkerID(d.Worker)
	if err := e.registry.drainable(w); err != nil {
		return Outcome{}, err
	}
	out, err := e.one(ctx, events.DrainWorker{Worker: w, Reason: d.Reason, By: d.By})
	if err == nil {
		e.tell(w, wire.Control{Drain: true})
	}
	return out, err
}

// Undrain takes the mark of a worker away that it is to drain. A worker that has
// heard of it may have stopped for good meanwhile.
func (e *Engine) Undrain(ctx context.Context, d wire.Undrain) (Outcome, error) {
	return e.one(ctx, events.EndDrain{Worker: events.WorkerID(d.Worker), By: d.By})
}

// Unregister takes a worker out of the rotation, and ends its drain: whoever has
// its id next begins anew. It takes the worker's session, which nobody else has.
func (e *Engine) Unregister(ctx context.Context, u wire.Unregister) error {
	w := events.WorkerID(u.Worker)
	if u.Session == "" {
		return events.Refuse(events.CodeBadRequest, "the session is missing: send the one that the registration was answered with")
	}
	if free := e.registry.remove(w, u.Session); !free || !e.registry.isMarked(w) {
		return nil
	}
	_, err := e.one(ctx, events.EndDrain{Worker: w, Reason: events.ReasonLeft})
	return err
}

// duePauses ends the pauses whose time has come, as far as the batch has room.
func (l *loop) duePauses(now time.Time) error {
	for l.room() {
		typ, at := l.state.NextPauseEnd()
		if !clock.Passed(at, now) {
			return nil
		}
		if _, _, err := l.decide(events.DuePause{Type: typ}); err != nil {
			return err
		}
	}
	return nil
}

// nextPauseEnd is when the next pause ends by itself, zero for never, or not
// before there is room.
func (l *loop) nextPauseEnd() time.Time {
	if !l.room() {
		return time.Time{}
	}
	_, at := l.state.NextPauseEnd()
	return at
}
