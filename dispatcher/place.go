package dispatcher

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/dispatcher/ahead"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector"
)

// Bounds of Places.
const (
	// maxPlaceCount bounds the items that one request counts, over all the items it asks
	// about.
	maxPlaceCount = 50_000
	// placeTime is the longest that one request counts.
	placeTime = 100 * time.Millisecond
)

// Place is an item's place in its queue.
type Place struct {
	ID    events.ID
	Type  events.Type
	Known bool // the item exists
	// Queued: the item waits for its turn. Counted: Ahead is the number of items that go
	// first.
	Queued, Counted bool
	Ahead           projector.Ahead
	OnItsWay        bool          // the item was sent to the workers
	Delay           time.Duration // until it is due
	Estimate        time.Duration // estimated run time, from its submission; 0: not given

	// What serves its queue.
	InFlight int // items of its type dispatched or running
	Parallel int // most runs of its lane at once; 0: no worker
}

// Places returns the places of items, all looked up at one moment. The items ahead of them
// are counted afterwards, within the bounds.
func (d *Dispatcher) Places(ctx context.Context, ids []events.ID) ([]Place, error) {
	a, err := ask(ctx, d, func(l *loop) (placeAnswer, error) { return l.places(ids) })
	if err != nil {
		return nil, err
	}
	return a.places, a.count(d.cfg.Store)
}

// count counts the items ahead. It reads as many index entries as are in front of the
// items, up to the bounds, outside of the loop.
func (a *placeAnswer) count(store *projector.Store) error {
	left, end := maxPlaceCount, time.Now().Add(placeTime)
	for i := range a.places {
		p := &a.places[i]
		if !p.Queued || left <= 0 || time.Now().After(end) {
			continue
		}
		n, err := ahead.OfType(store, a.items[i], a.ageSteps[i], a.at)
		if err != nil {
			return err
		}
		p.Ahead, p.Counted = n, true
		left -= n.Items + 1
	}
	return nil
}

// placeAnswer holds the loop's answer to Places.
type placeAnswer struct {
	places   []Place
	items    []*events.Item // copies
	ageSteps []time.Duration
	at       time.Time
}

// places returns the places of items, without what is ahead of them.
func (l *loop) places(ids []events.ID) (placeAnswer, error) {
	a := placeAnswer{places: make([]Place, len(ids)), items: make([]*events.Item, len(ids)), ageSteps: make([]time.Duration, len(ids)), at: l.clock.Now()}
	for i, id := range ids {
		it, err := l.state.Item(id)
		if err != nil {
			return a, err
		}
		p := &a.places[i]
		p.ID = id
		if it == nil {
			continue
		}
		set, _ := l.state.Settings(it.Type)
		copied := *it // the state may still change it
		a.items[i], a.ageSteps[i] = &copied, l.limits.ageStep(it.Type, &set)
		p.Known, p.Type, p.Estimate = true, it.Type, it.Estimate
		p.InFlight = l.table.ByType[it.Type].All
		slots, _ := l.workforce.registry.Slots(it.Type, it.Lane())
		p.Parallel = min(slots, set.Capacity, l.cfg.MaxRunning)
		if it.State != events.StateQueued {
			continue
		}
		p.OnItsWay = l.table.ByID[id] != nil
		p.Delay = max(it.AvailableAt.Sub(a.at), 0)
		p.Queued = !p.OnItsWay && p.Delay == 0
	}
	return a, nil
}

// Load is the load of a type, as the engine holds it in memory.
type Load struct {
	InFlight int // items dispatched, claimed or running
	Capacity int
	Workers  int // workers that serve the type and take work
	Slots    int // of those workers
	// Running counts the items that are claimed or running, by the priority that they
	// were dispatched with; zeros are left out.
	Running map[events.Priority]int
}

// Loads returns the load of each type that has any.
func (d *Dispatcher) Loads(ctx context.Context) (map[events.Type]Load, error) {
	r, err := loadsOf(ctx, d)
	return r.loads, err
}

// Runs returns how many items each worker has claimed or runs, by the log. Workers with
// none are left out.
func (d *Dispatcher) Runs(ctx context.Context) (map[events.WorkerID]int, error) {
	r, err := loadsOf(ctx, d)
	return r.runs, err
}

type loads struct {
	loads map[events.Type]Load
	runs  map[events.WorkerID]int
}

func loadsOf(ctx context.Context, d *Dispatcher) (loads, error) {
	return ask(ctx, d, func(l *loop) (loads, error) {
		r := loads{loads: map[events.Type]Load{}, runs: map[events.WorkerID]int{}}
		for _, t := range l.state.TypeNames() {
			set, _ := l.state.Settings(t)
			slots, workers := l.workforce.registry.Slots(t, "")
			r.loads[t] = Load{InFlight: l.table.ByType[t].All, Capacity: set.Capacity, Workers: workers, Slots: slots}
		}
		for rung, n := range l.table.Held.Rungs {
			load, ok := r.loads[rung.Type]
			if !ok {
				continue // a type that is gone
			}
			if load.Running == nil {
				load.Running = map[events.Priority]int{}
			}
			load.Running[rung.Priority] = n
			r.loads[rung.Type] = load
		}
		for h, n := range l.table.Held.By {
			r.runs[h.Worker] += n
		}
		return r, nil
	})
}
