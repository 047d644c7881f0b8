package dispatcher

import (
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// The states of a worker.
const (
	workerActive   = "active"
	workerDraining = "draining"
)

// MaxWorkers bounds the registry.
const MaxWorkers = 10_000

// registry is who is there to work. It is volatile: a worker that the engine
// does not know is asked to register again.
type registry struct {
	gone    time.Duration
	changed func() // called without the lock after any change

	mu      sync.Mutex // guards workers and benched
	workers map[events.WorkerID]*worker
	// benched are those whose circuit is not closed, and the runs that each may
	// have under way. The claim decides; here they only count for less.
	benched map[events.WorkerID]int
}

type worker struct {
	info  wire.WorkerInfo
	lanes map[string]bool // memo: whether it serves a lane
}

func newRegistry(gone time.Duration, changed func()) *registry {
	return &registry{gone: gone, changed: changed, workers: map[events.WorkerID]*worker{}}
}

// put registers a worker, or renews its registration, and returns its session.
func (r *registry) put(reg wire.Register, now time.Time) (session string, fresh bool, err error) {
	id, err := checkRegister(&reg)
	if err != nil {
		return "", false, err
	}
	r.mu.Lock()
	w := r.workers[id]
	if w != nil && w.info.Session != reg.Session && now.Sub(w.info.LastSeen) < r.gone {
		r.mu.Unlock()
		return "", false, events.Refuse(events.CodeWorkerIDInUse, "worker id %s is in use by another worker (on %s, last heard of %s ago): choose another id, or wait %s after that one has stopped", id, w.info.Host, now.Sub(w.info.LastSeen).Round(time.Millisecond), r.gone)
	}
	if w == nil && len(r.workers) >= MaxWorkers {
		r.mu.Unlock()
		return "", false, events.Refuse(events.CodeUnavailable, "%d workers are registered, which is the most: give each worker more slots instead", MaxWorkers)
	}
	if reg.Session == "" {
		reg.Session = rand.Text()
	}
	info := wire.WorkerInfo{
		Worker: reg.Worker, Session: reg.Session, Types: reg.Types, Capabilities: reg.Capabilities, Slots: reg.Slots,
		Version: reg.Version, Host: reg.Host, Status: workerActive, RegisteredAt: now, LastSeen: now,
	}
	fresh = w == nil || w.info.Session != reg.Session || !slices.Equal(w.info.Types, reg.Types) ||
		!slices.Equal(w.info.Capabilities, reg.Capabilities) || w.info.Slots != reg.Slots
	if w != nil && w.info.Session == reg.Session {
		info.RegisteredAt, info.Status, info.InFlight, info.Health = w.info.RegisteredAt, w.info.Status, w.info.InFlight, w.info.Health
	}
	r.workers[id] = &worker{info: info, lanes: map[string]bool{}}
	r.mu.Unlock()
	if fresh {
		r.changed()
	}
	return reg.Session, fresh, nil
}

func checkRegister(reg *wire.Register) (events.WorkerID, error) {
	id, err := events.ParseWorkerID(reg.Worker)
	if err != nil {
		return "", events.Refuse(events.CodeBadRequest, "%v", err)
	}
	if len(reg.Types) == 0 {
		return "", events.Refuse(events.CodeBadRequest, "worker %s names no types: name at least one that it handles", id)
	}
	if len(reg.Types) > events.MaxTypes {
		return "", events.Refuse(events.CodeTooManyTypes, "worker %s names %d types: an engine serves %d", id, len(reg.Types), events.MaxTypes)
	}
	if n := max(len(reg.Session), len(reg.Host), len(reg.Version)); n > events.MaxNameLen {
		return "", events.Refuse(events.CodeTooLarge, "the session, host or version of worker %s has %d bytes: at most %d", id, n, events.MaxNameLen)
	}
	for _, t := range reg.Types {
		if _, err := events.ParseType(t); err != nil {
			return "", events.Refuse(events.CodeBadType, "%v", err)
		}
	}
	if len(reg.Capabilities) > events.MaxCapabilities {
		return "", events.Refuse(events.CodeTooLarge, "worker %s has %d capabilities: at most %d", id, len(reg.Capabilities), events.MaxCapabilities)
	}
	for _, c := range reg.Capabilities {
		if err := wire.CheckCapability(c); err != nil {
			return "", err
		}
	}
	if reg.Slots < 1 || reg.Slots > maxPending {
		return "", events.Refuse(events.CodeBadRequest, "worker %s has %d slots: 1 to %d", id, reg.Slots, maxPending)
	}
	reg.Types = slices.Compact(slices.Sorted(slices.Values(reg.Types)))
	return id, nil
}

// beat notes a worker's heartbeat.
func (r *registry) beat(h *wire.Heartbeat) (drain bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.workers[events.WorkerID(h.Worker)]
	if w == nil {
		return false
	}
	w.info.InFlight, w.info.Health = len(h.InFlight), strings.Clone(h.Health[:min(len(h.Health), events.MaxNameLen)])
	return w.info.Status == workerDraining
}

// remove takes a worker out, if the session is its own.
func (r *registry) remove(id events.WorkerID, session string) {
	r.mu.Lock()
	w := r.workers[id]
	found := w != nil && (session == "" || w.info.Session == session)
	if found {
		delete(r.workers, id)
	}
	r.mu.Unlock()
	if found {
		r.changed()
	}
}

// drain marks a worker.
func (r *registry) drain(id events.WorkerID) error {
	r.mu.Lock()
	w := r.workers[id]
	if w != nil {
		w.info.Status = workerDraining
	}
	r.mu.Unlock()
	if w == nil {
		return events.Refuse(events.CodeNotFound, "no worker %s is registered: `engine workers` lists those that are", id)
	}
	r.changed()
	return nil
}

// mayClaim says whether a worker may take new work now.
func (r *registry) mayClaim(id, session string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.workers[events.WorkerID(id)]
	switch {
	case w == nil:
		return events.Refuse(events.CodeUnknownWorker, "worker %s is not registered: register, then claim", id)
	case session != "" && session != w.info.Session:
		return events.Refuse(events.CodeWorkerIDInUse, "worker id %s belongs to another session: choose another id", id)
	case w.info.Status == workerDraining:
		return events.Refuse(events.CodeDraining, "worker %s is draining: it takes no new work", id)
	}
	return nil
}

// serves reports whether the worker can run what a lane holds.
func (w *worker) serves(lane string) bool {
	if lane == "" {
		return true
	}
	ok, known := w.lanes[lane]
	if !known {
		ok = true
		for c := range strings.SplitSeq(lane, "_") {
			ok = ok && slices.Contains(w.info.Capabilities, c)
		}
		w.lanes[lane] = ok
	}
	return ok
}

// slots is how much the active workers that serve a lane can run at once.
func (r *registry) slots(t events.Type, lane string) (slots, workers int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, w := range r.workers {
		if w.info.Status == workerActive && slices.Contains(w.info.Types, string(t)) && w.serves(lane) {
			slots += r.slotsOf(id, w)
			workers++
		}
	}
	return slots, workers
}

// slotsOf is how many slots of a worker count. REQUIRES: mu.
func (r *registry) slotsOf(id events.WorkerID, w *worker) int {
	if most, benched := r.benched[id]; benched {
		return min(most, w.info.Slots)
	}
	return w.info.Slots
}

// bench says whose circuit is not closed.
func (r *registry) bench(benched map[events.WorkerID]int) {
	r.mu.Lock()
	changed := !maps.Equal(r.benched, benched)
	r.benched = benched
	r.mu.Unlock()
	if changed {
		r.changed()
	}
}

// able lists the workers that serve a lane of a type.
func (r *registry) able(t events.Type, lane string) (ids []events.WorkerID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, w := range r.workers {
		if slices.Contains(w.info.Types, string(t)) && w.serves(lane) {
			ids = append(ids, id)
		}
	}
	return ids
}

// knows reports whether a worker is registered.
func (r *registry) knows(id events.WorkerID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.workers[id] != nil
}

// expire takes out the workers that have been silent for too long, and
// returns when the next would be.
func (r *registry) expire(now time.Time) (next time.Time) {
	r.mu.Lock()
	n := len(r.workers)
	for id, w := range r.workers {
		end := w.info.LastSeen.Add(r.gone)
		if !end.After(now) {
			delete(r.workers, id)
		} else if next.IsZero() || end.Before(next) {
			next = end
		}
	}
	changed := len(r.workers) != n
	r.mu.Unlock()
	if changed {
		r.changed()
	}
	return next
}

// list returns the workers by id.
func (r *registry) list() []wire.WorkerInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]wire.WorkerInfo, 0, len(r.workers))
	for _, id := range slices.Sorted(maps.Keys(r.workers)) {
		out = append(out, r.workers[id].info)
	}
	return out
}
