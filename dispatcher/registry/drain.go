package registry

import (
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// DrainUnseen is the time after which a drain mark ends if its worker is not heard of. It
// is counted anew when the engine starts.
const DrainUnseen = 24 * time.Hour

// DrainMarks follows the workers that are marked to drain. The marks are decided and
// recorded (package events); when each worker was last heard of is volatile. It is not safe
// for concurrent use. The zero value is ready to use.
type DrainMarks struct {
	begun   bool
	version uint64 // State.DrainVersion as last followed
	seen    map[events.WorkerID]time.Time
}

// Follow returns the log's marks if they have changed since the last call.
func (d *DrainMarks) Follow(state *core.State, now time.Time) (marks map[events.WorkerID]events.Drain, changed bool) {
	version := state.DrainVersion()
	if d.begun && version == d.version {
		return nil, false
	}
	if !d.begun {
		d.begun, d.seen = true, map[events.WorkerID]time.Time{}
	}
	d.version = version
	marks = state.Drains()
	maps.DeleteFunc(d.seen, func(w events.WorkerID, _ time.Time) bool { _, marked := marks[w]; return !marked })
	for w := range marks {
		if d.seen[w].IsZero() {
			d.seen[w] = now
		}
	}
	return marks, true
}

// Unseen notes which marked workers are registered, and returns those that have not been
// for DrainUnseen, in order.
func (d *DrainMarks) Unseen(now time.Time, r *Registry) (gone []events.WorkerID) {
	for _, w := range slices.Sorted(maps.Keys(d.seen)) {
		switch {
		case r.Knows(w):
			d.seen[w] = now
		case !now.Before(d.seen[w].Add(DrainUnseen)):
			gone = append(gone, w)
		}
	}
	return gone
}

// SetMarks sets which workers are marked to drain.
func (r *Registry) SetMarks(marks map[events.WorkerID]events.Drain) {
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

// Drainable refuses an id that no live or marked worker has.
func (r *Registry) Drainable(id events.WorkerID) error {
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

// Marked reports whether a worker is marked to drain.
func (r *Registry) Marked(id events.WorkerID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, marked := r.marked[id]
	return marked
}

// Marks returns the workers that are marked to drain. The caller must not change the map.
func (r *Registry) Marks() map[events.WorkerID]events.Drain {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.marked
}
