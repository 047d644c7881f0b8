package dispatcher

import (
	"context"

	"github.com/streamwright/streamwright/events"
)

// Load is the load of a type, as the engine holds it in memory.
type Load struct {
	InFlight int // items dispatched, claimed or running
	Capacity int
	Workers  int // workers that serve the type and take work
	Slots    int // of those workers
}

// Loads returns the load of each type that has any.
func (e *Engine) Loads(ctx context.Context) (map[events.Type]Load, error) {
	r, err := loadsOf(ctx, e)
	return r.loads, err
}

// Runs returns how many items each worker has claimed or runs, by the log. Workers with
// none are left out.
func (e *Engine) Runs(ctx context.Context) (map[events.WorkerID]int, error) {
	r, err := loadsOf(ctx, e)
	return r.runs, err
}

type loads struct {
	loads map[events.Type]Load
	runs  map[events.WorkerID]int
}

func loadsOf(ctx context.Context, e *Engine) (loads, error) {
	return ask(ctx, e, func(l *loop) (loads, error) {
		r := loads{loads: map[events.Type]Load{}, runs: map[events.WorkerID]int{}}
		for _, t := range l.state.TypeNames() {
			set, _ := l.state.Settings(t)
			slots, workers := l.workforce.registry.Slots(t, "")
			r.loads[t] = Load{InFlight: l.table.ByType[t], Capacity: set.Capacity, Workers: workers, Slots: slots}
		}
		for h, n := range l.table.Held.By {
			r.runs[h.Worker] += n
		}
		return r, nil
	})
}
