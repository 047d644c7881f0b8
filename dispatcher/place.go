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
	j := &placeJob{ids: ids, out: make(chan placeAnswer, 1)}
	if err := e.enqueue(ctx, e.requests, j, overhead); err != nil {
		return nil, err
	}
	var a placeAnswer
	select {
	case a = <-j.out:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if a.err != nil {
		return nil, a.err
	}
	return a.places, e.countPlaces(&a)
}

// countPlaces reads as many index entries as lie in front of the items, up to
// the bounds, outside of the loop.
func (e *Engine) countPlaces(a *placeAnswer) error {
	left, end := maxPlaceCount, time.Now().Add(placeTime)
	for i := range a.places {
		p := &a.places[i]
		if !p.Queued || left <= 0 || time.Now().After(end) {
			continue
		}
		n, err := e.ahead(a.items[i], a.ageSteps[i], a.at)
		if err != nil {
			return err
		}
		p.Ahead, p.Counted = n, true
		left -= n.Items + 1
	}
	return nil
}

// placeJob asks the loop where items stand.
type placeJob struct {
	ids []events.ID
	out chan placeAnswer
	a   placeAnswer
}

type placeAnswer struct {
	places   []Place
	items    []*events.Item // copies
	ageSteps []time.Duration
	at       time.Time
	err      error
}

func (j *placeJob) len() int                  { return 1 }
func (j *placeJob) finish()                   { j.out <- j.a }
func (j *placeJob) abandon(err *events.Error) { j.out <- placeAnswer{err: err} }

func (j *placeJob) decide(l *loop, _ int) error {
	j.a = placeAnswer{places: make([]Place, len(j.ids)), items: make([]*events.Item, len(j.ids)), ageSteps: make([]time.Duration, len(j.ids)), at: l.clock.Now()}
	for i, id := range j.ids {
		it, err := l.state.Item(id)
		if err != nil {
			return err
		}
		p := &j.a.places[i]
		p.ID = id
		if it == nil {
			continue
		}
		set, _ := l.state.Settings(it.Type)
		copied := *it // the state may still change it
		j.a.items[i], j.a.ageSteps[i] = &copied, l.sender.ageStep(it.Type, &set)
		p.Known, p.Type, p.Estimate = true, it.Type, it.Estimate
		p.InFlight = l.table.byType[it.Type]
		p.Parallel = min(l.workforce.laneSlots(lanes.Key{Type: it.Type, Name: it.Lane()}), set.Capacity, l.cfg.MaxRunning)
		if it.State != events.StateQueued {
			continue
		}
		p.OnItsWay = l.table.byID[id] != nil
		p.Delay = max(it.AvailableAt.Sub(j.a.at), 0)
		p.Queued = !p.OnItsWay && p.Delay == 0
	}
	return nil
}
