package registry

import (
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/seats"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of the registry: its workers, and the slots of one.
const (
	MaxWorkers = 10_000
	MaxSlots   = 1000
)

// Registry holds the workers. It is safe for concurrent use; Silent and Ask must be set
// before.
type Registry struct {
	Silent func() // if set, called for each worker that has died
	// Ask, if set, has a worker be asked whether it is there; it must not call back.
	Ask func(events.WorkerID)

	gone    time.Duration
	changed func()        // called without the lock after any change except of load
	offered chan struct{} // a worker with a probe has registered; room for one

	mu      sync.Mutex                  // guards what follows
	workers map[events.WorkerID]*worker // live workers
	dead    map[events.WorkerID]wire.WorkerInfo
	// benched holds the workers whose circuit is not closed, and how many more runs each may
	// begin. The claim decides; here it only limits their slots.
	benched map[events.WorkerID]int
	// marked holds the workers that the log says must drain, registered or not. The map is
	// never written.
	marked map[events.WorkerID]events.Drain
	left   leavers
}

// leavers holds the sessions that have ended by unregistering, the last MaxWorkers of them:
// a late request of one must not register it again.
type leavers struct {
	known map[seat]bool
	order []seat // a ring, once it is full
	next  int
}

// seat is a session of a worker.
type seat struct {
	worker  events.WorkerID
	session string
}

func (l *leavers) add(s seat) {
	switch {
	case l.known[s]:
		return
	case l.known == nil:
		l.known = map[seat]bool{}
	}
	l.known[s] = true
	if len(l.order) < MaxWorkers {
		l.order = append(l.order, s)
		return
	}
	delete(l.known, l.order[l.next])
	l.order[l.next] = s
	l.next = (l.next + 1) % MaxWorkers
}

type worker struct {
	info  wire.WorkerInfo
	offer lanes.Offer
	condition

	// idle is how long the worker said in its last heartbeat that it may be silent, having
	// nothing; gone counts from its end.
	idle  time.Duration
	asked time.Time // when it was asked whether it is there, for another that wants its id
}

// silentFor returns how long nothing was heard of a worker that should have been.
func (w *worker) silentFor(now time.Time) time.Duration { return now.Sub(w.info.LastSeen) - w.idle }

// mayHave reports whether another session may have the id of a worker now. One that may be
// silent for its idleness is asked first whether it is there.
func (r *Registry) mayHave(w *worker, now time.Time) bool {
	switch silent := now.Sub(w.info.LastSeen); {
	case silent < r.gone:
		return false
	case w.silentFor(now) >= r.gone:
		return true
	case w.asked.IsZero() && r.Ask != nil:
		w.asked = now
		r.Ask(events.WorkerID(w.info.Worker))
	}
	return !w.asked.IsZero() && now.Sub(w.asked) >= r.gone/answerShare
}

// Times as shares of the time after which a silent worker is dead, and what they are by
// default.
const (
	restShare   = 75 // 800 ms: the least between two heartbeats of idle workers, of whichever
	leastRest   = 6  // 10 s: less rest is none
	answerShare = 12 // 5 s: the longest for a worker that is asked whether it is there
	mostRests   = 2  // 2 m, a multiple: the longest rest
)

// MayRest returns how long a worker may be silent while it has nothing and nothing is wrong
// with it, so that many idle workers together send no more than a few can; 0: no longer
// than others. Of two workers it asks for different times, so that they do not keep step.
func (r *Registry) MayRest() time.Duration {
	r.mu.Lock()
	n := len(r.workers)
	r.mu.Unlock()
	rest := min(time.Duration(n)*(r.gone/restShare), mostRests*r.gone)
	if rest < r.gone/leastRest {
		return 0
	}
	return rest - mathrand.N(rest/8)
}

// New returns an empty registry, in which a worker dies that is silent for gone. changed is
// called, without a lock, after every change except of load.
func New(gone time.Duration, changed func()) *Registry {
	return &Registry{
		gone: gone, changed: changed, offered: make(chan struct{}, 1),
		workers: map[events.WorkerID]*worker{}, dead: map[events.WorkerID]wire.WorkerInfo{},
	}
}

// Put registers a worker, or renews its registration.
func (r *Registry) Put(reg wire.Register, now time.Time) error {
	id, err := checkRegister(&reg)
	if err != nil {
		return err
	}
	r.mu.Lock()
	w := r.workers[id]
	if err := r.mayJoin(id, &reg, now); err != nil {
		r.mu.Unlock()
		return err
	}
	next := &worker{offer: slices.Compact(slices.Sorted(slices.Values(reg.Capabilities))), info: wire.WorkerInfo{
		Worker: reg.Worker, Session: reg.Session, Types: reg.Types, Capabilities: reg.Capabilities, Slots: reg.Slots,
		Version: reg.Version, Host: reg.Host, Probe: reg.Probe, RegisteredAt: now, LastSeen: now,
		Most: reg.Most, Offers: reg.Offers,
	}}
	fresh := w == nil || w.info.Session != reg.Session || !slices.Equal(w.info.Types, reg.Types) ||
		!slices.Equal(w.info.Capabilities, reg.Capabilities) || w.info.Slots != reg.Slots || w.info.Probe != reg.Probe ||
		w.info.Offers != reg.Offers || !maps.Equal(w.info.Most, reg.Most)
	if w != nil && w.info.Session == reg.Session {
		next.carryOn(w)
	}
	_, next.draining = r.marked[id]
	next.settle()
	r.workers[id] = next
	delete(r.dead, id)
	r.mu.Unlock()
	if fresh {
		r.changed()
		r.probesOffered(reg.Probe)
	}
	return nil
}

// MayPut returns the refusal that Put would answer with now.
func (r *Registry) MayPut(reg wire.Register, now time.Time) error {
	id, err := checkRegister(&reg)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mayJoin(id, &reg, now)
}

// mayJoin refuses a registration that other workers or its own session stand against.
// REQUIRES: mu.
func (r *Registry) mayJoin(id events.WorkerID, reg *wire.Register, now time.Time) error {
	w := r.workers[id]
	switch {
	case w != nil && w.info.Session != reg.Session && !r.mayHave(w, now):
		return events.Refuse(events.CodeWorkerIDInUse, "worker id %s is in use by another worker (on %s, last heard of %s ago): choose another id, or wait %s after that one has stopped", id, w.info.Host, now.Sub(w.info.LastSeen).Round(time.Millisecond), r.gone)
	case r.left.known[seat{id, reg.Session}]:
		return events.Refuse(events.CodeUnknownWorker, "worker %s has unregistered, which has ended this session: register anew, with another session", id)
	case w == nil && len(r.workers) >= MaxWorkers:
		return events.Refuse(events.CodeUnavailable, "%d workers are registered, which is the most: give each worker more slots instead", MaxWorkers)
	}
	return nil
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
	if n := max(len(reg.Host), len(reg.Version)); n > events.MaxNameLen {
		return "", events.Refuse(events.CodeTooLarge, "the host or version of worker %s has %d bytes: at most %d", id, n, events.MaxNameLen)
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
	if reg.Slots < 1 || reg.Slots > MaxSlots {
		return "", events.Refuse(events.CodeBadRequest, "worker %s has %d slots: 1 to %d", id, reg.Slots, MaxSlots)
	}
	if reg.Session == "" {
		return "", events.Refuse(events.CodeBadRequest, "worker %s names no session: choose one for each start of the worker, and subscribe to work.run.*.SESSION before you register", id)
	}
	if strings.ContainsFunc(reg.Session, notInSession) || len(reg.Session) > wire.MaxSession {
		return "", events.Refuse(events.CodeBadRequest, "the session of worker %s must be letters, digits, - and _, at most %d", id, wire.MaxSession)
	}
	if len(reg.Most) > len(reg.Types) {
		return "", events.Refuse(events.CodeBadRequest, "worker %s bounds %d types in most, and names %d: bound only types that it names", id, len(reg.Most), len(reg.Types))
	}
	reg.Types = slices.Compact(slices.Sorted(slices.Values(reg.Types)))
	return id, nil
}

// notInSession reports whether a session may not have a character.
func notInSession(c rune) bool {
	return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_'
}

// Offer notes a worker's offer. It refuses one that is not of a registered worker, or too large.
func (r *Registry) Offer(o *wire.Offer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.workers[events.WorkerID(o.Worker)]
	switch {
	case w == nil:
		return events.Refuse(events.CodeUnknownWorker, "worker %s is not registered: register, then offer", events.Clip(o.Worker, events.MaxNameLen))
	case w.info.Session != o.Session:
		return events.Refuse(events.CodeWorkerIDInUse, "worker id %s belongs to another session: choose another id", o.Worker)
	case !w.info.Offers:
		return events.Refuse(events.CodeBadRequest, "worker %s has registered without offers, so each free slot is an offer: register with \"offers\": true to be sent only what you offer", o.Worker)
	case o.Room < 0 || o.Room > w.info.Slots:
		return events.Refuse(events.CodeBadRequest, "worker %s offers room for %d items: 0 to its %d slots", o.Worker, o.Room, w.info.Slots)
	}
	w.info.Offered = o.Room
	return nil
}

// Remove removes a worker if the session is its own, and reports whether nobody has its id
// afterwards.
func (r *Registry) Remove(id events.WorkerID, session string) (free bool) {
	r.mu.Lock()
	w := r.workers[id]
	found := w != nil && (session == "" || w.info.Session == session)
	if found {
		delete(r.workers, id)
	}
	if d, ok := r.dead[id]; ok && (session == "" || d.Session == session) {
		delete(r.dead, id)
		found = true
	}
	free = r.workers[id] == nil
	r.mu.Unlock()
	if found {
		r.changed()
	}
	return free
}

// Leave removes a worker whose session has unregistered, as Remove does, for good: the
// session can't register again.
func (r *Registry) Leave(id events.WorkerID, session string) (free bool) {
	r.mu.Lock()
	r.left.add(seat{id, session})
	r.mu.Unlock()
	return r.Remove(id, session)
}

// Clear forgets all workers. Those that are alive register again, with another engine.
func (r *Registry) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.workers)
	clear(r.dead)
}

// SetBack is called when the clock was set back to now: no worker has been heard of later.
func (r *Registry) SetBack(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.workers {
		if w.info.LastSeen.After(now) {
			w.info.LastSeen = now
		}
	}
}

// serves reports whether the worker can run the items of a lane.
func (w *worker) serves(lane string) bool { return w.offer.Covers(lane) }

// Serving returns the workers that are registered for a type, in order.
func (r *Registry) Serving(t events.Type) (ids []events.WorkerID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, w := range r.workers {
		if slices.Contains(w.info.Types, string(t)) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Offers returns the distinct sets of capabilities that registered workers have, by type
// and the name of the lane that asks for all of them.
func (r *Registry) Offers() map[events.Type]map[string]lanes.Offer {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[events.Type]map[string]lanes.Offer{}
	for _, w := range r.workers {
		name := events.LaneOf(w.offer)
		for _, t := range w.info.Types {
			if all[events.Type(t)] == nil {
				all[events.Type(t)] = map[string]lanes.Offer{}
			}
			all[events.Type(t)][name] = w.offer
		}
	}
	return all
}

// Slots returns how many slots the active workers that serve a lane have together, and how
// many workers they are.
func (r *Registry) Slots(t events.Type, lane string) (slots, workers int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, w := range r.workers {
		if w.info.Status == wire.WorkerActive && slices.Contains(w.info.Types, string(t)) && w.serves(lane) {
			slots += r.slotsOf(id, w)
			workers++
		}
	}
	return slots, workers
}

// Seats returns the workers as seats, in no order.
func (r *Registry) Seats() (list []seats.Seat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, w := range r.workers {
		seat := seats.Seat{Worker: id, Session: w.info.Session, Types: w.info.Types, Offer: w.offer, Most: w.info.Most, Offers: w.info.Offers}
		if w.info.Status == wire.WorkerActive {
			seat.Slots = w.info.Slots
		}
		seat.Trials, seat.Benched = r.benched[id]
		list = append(list, seat)
	}
	return list
}

// slotsOf returns how many slots of a worker count. REQUIRES: mu.
func (r *Registry) slotsOf(id events.WorkerID, w *worker) int {
	if trials, benched := r.benched[id]; benched {
		return min(trials, w.info.Slots)
	}
	return w.info.Slots
}

// Bench sets the workers whose circuit is not closed, and how many more runs each may begin.
func (r *Registry) Bench(benched map[events.WorkerID]int) {
	r.mu.Lock()
	changed := len(benched) > 0 || !maps.Equal(r.benched, benched) // of the same trials, a seat may have used one
	r.benched = benched
	r.mu.Unlock()
	if changed {
		r.changed()
	}
}

// Able returns the workers that serve a lane of a type, including those that take no work
// just now.
func (r *Registry) Able(t events.Type, lane string) (ids []events.WorkerID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, w := range r.workers {
		if slices.Contains(w.info.Types, string(t)) && w.serves(lane) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Knows reports whether a worker is registered.
func (r *Registry) Knows(id events.WorkerID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.workers[id] != nil
}
