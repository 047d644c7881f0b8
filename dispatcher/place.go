package dispatcher

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector"
)

// Bounds of Places.
const (
	// maxPlaceCount bounds the items that one request counts, over all that it
	// asks about.
	maxPlaceCount = 50_000
	// placeTime is how long it counts.
	placeTime = 100 * time.Millisecond
)

// Place is where an item stands.
type Place struct {
	ID    events.ID
	Type  events.Type
	Known bool // there is such an item
	// Queued: it waits for its turn. Counted: and Ahead is how many go first.
	Queued, Counted bool
	Ahead           projector.Ahead
	OnItsWay        bool          // it was sent to the workers
	Delay           time.Duration // until it is due
	Estimate        time.Duration // of a run, by its submission; 0: not said

	// What serves its queue.
	InFlight int // of its type, dispatched or running
	Parallel int // runs of its lane that there can be at once; 0: no worker
}

// Places says where items stand. They are looked up at one moment; what is
// ahead of them is counted behind it, within the bounds.
func (e *Engine) Places(ctx context.Context, ids []events.ID) ([]Place, error) {
	a, err := ask(ctx, e, func(l *loop) (placeAnswer, error) { return l.places(ids) })
	if err != nil {
		return nil, err
	}
	return a.places, a.count(e.cfg.Store)
}

// count reads as many index entries as lie in front of the items, up to the
// bounds, outside of the loop.
func (a *placeAnswer) count(store *projector.Store) error {
	left, end := maxPlaceCount, time.Now().Add(placeTime)
	for i := range a.places {
		p := &a.places[i]
		if !p.Queued || left <= 0 || time.Now().After(end) {
			continue
		}
		n, err := countAhead(store, a.items[i], a.ageSteps[i], a.at)
		if err != nil {
			return err
		}
		p.Ahead, p.Counted = n, true
		left -= n.Items + 1
	}
	return nil
}

// placeAnswer is what the loop knows of items.
type placeAnswer struct {
	places   []Place
	items    []*events.Item // copies
	ageSteps []time.Duration
	at       time.Time
}

// places says where items stand, but for what is ahead of them.
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
		a.items[i], a.ageSteps[i] = &copied, l.sender.ageStep(it.Type, &set)
		p.Known, p.Type, p.Estimate = true, it.Type, it.Estimate
		p.InFlight = l.table.ByType[it.Type]
		p.Parallel = min(l.workforce.laneSlots(lanes.Key{Type: it.Type, Name: it.Lane()}), set.Capacity, l.cfg.MaxRunning)
		if it.State != events.StateQueued {
			continue
		}
		p.OnItsWay = l.table.ByID[id] != nil
		p.Delay = max(it.AvailableAt.Sub(a.at), 0)
		p.Queued = !p.OnItsWay && p.Delay == 0
	}
	return a, nil
}
