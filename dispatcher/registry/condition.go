package registry

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of what is remembered of dead workers, so that users see which died, and when.
const (
	MaxDeadWorkers = 1000 // the last to die
	deadShown      = 10 * time.Minute
)

// condition determines a worker's status.
type condition struct {
	draining bool
	ailing   string // why it says it is unhealthy; empty: it is healthy
	probe    probeState
}

// settle sets the status by the condition, and reports whether the status or its reason has
// changed. Draining comes first, since it is final.
func (w *worker) settle() (changed bool) {
	status, reason := w.info.Status, w.info.Reason
	w.info.Status, w.info.Reason = wire.WorkerActive, w.ailing
	if w.info.Reason == "" {
		w.info.Reason = w.probe.failing
	}
	if w.info.Reason != "" {
		w.info.Status = wire.WorkerUnhealthy
	}
	if w.draining {
		w.info.Status = wire.WorkerDraining
	}
	return status != w.info.Status || reason != w.info.Reason
}

// carryOn takes over what is known of the same worker from its last registration. A worker
// that no longer offers a probe can't have failed one.
func (w *worker) carryOn(from *worker) {
	w.condition = from.condition
	if !w.info.Probe {
		w.probe = probeState{}
	}
	w.info.RegisteredAt, w.info.Status, w.info.Reason = from.info.RegisteredAt, from.info.Status, from.info.Reason
	w.info.InFlight, w.info.Health, w.info.ProbedAt, w.info.Offered = from.info.InFlight, from.info.Health, from.info.ProbedAt, from.info.Offered
}

// Beat notes a worker's heartbeat, and returns the worker's status and the reason for it.
func (r *Registry) Beat(h *wire.Heartbeat) (status wire.WorkerStatus, reason string) {
	health := h.Health.Bounded()
	r.mu.Lock()
	w := r.workers[events.WorkerID(h.Worker)]
	if w == nil {
		r.mu.Unlock()
		return "", ""
	}
	w.info.InFlight, w.info.Health, w.ailing = len(h.InFlight), health, ""
	if w.idle = 0; len(h.InFlight) == 0 {
		w.idle = min(max(h.Idle.Duration, 0), mostRests*r.gone)
	}
	if health != nil && len(health.Failing) > 0 {
		w.ailing = health.Reason()
	}
	changed := w.settle()
	status, reason = w.info.Status, w.info.Reason
	r.mu.Unlock()
	if changed {
		r.changed()
	}
	return status, reason
}

// Expire declares dead the workers that have been silent for too long, forgets those that
// have been dead for long, and returns when there will be more to do.
func (r *Registry) Expire(now time.Time) (next time.Time) {
	r.mu.Lock()
	died, forgotten := 0, false
	for id, w := range r.workers {
		end := w.info.LastSeen.Add(r.gone + w.idle)
		if end.After(now) {
			next = clock.Sooner(next, end)
			continue
		}
		delete(r.workers, id)
		w.info.Status, w.info.DiedAt = wire.WorkerDead, now
		w.info.Reason = fmt.Sprintf("nothing was heard of it for %s", r.gone+w.idle)
		r.dead[id] = w.info
		died++
	}
	for id, d := range r.dead {
		if end := d.DiedAt.Add(deadShown); end.After(now) {
			next = clock.Sooner(next, end)
			continue
		}
		delete(r.dead, id)
		forgotten = true
	}
	r.boundDead()
	r.mu.Unlock()
	for range died {
		if r.Silent != nil {
			r.Silent()
		}
	}
	if died > 0 || forgotten {
		r.changed()
	}
	return next
}

// boundDead forgets the workers that died first, if there are too many dead. REQUIRES: mu.
func (r *Registry) boundDead() {
	excess := len(r.dead) - MaxDeadWorkers
	if excess <= 0 {
		return
	}
	ids := slices.SortedFunc(maps.Keys(r.dead), func(a, b events.WorkerID) int { return r.dead[a].DiedAt.Compare(r.dead[b].DiedAt) })
	for _, id := range ids[:excess] {
		delete(r.dead, id)
	}
}

// List returns the workers by id, including those that died recently.
func (r *Registry) List() []wire.WorkerInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]wire.WorkerInfo, 0, len(r.workers)+len(r.dead))
	for _, w := range r.workers {
		out = append(out, w.info)
	}
	for _, d := range r.dead {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b wire.WorkerInfo) int { return cmp.Compare(a.Worker, b.Worker) })
	return out
}
