package dispatcher

import (
	"context"

	"github.com/streamwright/streamwright/events"
)

// Load is what the engine holds in memory for a type.
type Load struct {
	InFlight int // dispatched or running
	Capacity int
	Workers  int // that serve the type and take work
	Slots    int // of those workers
}

// Loads returns the load of each type that has any.
func (e *Engine) Loads(ctx context.Context) (map[events.Type]Load, error) {
	j := &loadsJob{out: make(chan loadsReply, 1)}
	if err := e.enqueue(ctx, e.requests, j, overhead); err != nil {
		return nil, err
	}
	select {
	case r := <-j.out:
		return r.loads, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// loadsJob asks the loop for its loads.
type loadsJob struct {
	out   chan loadsReply
	loads map[events.Type]Load
}

type loadsReply struct {
	loads map[events.Type]Load
	err   error
}

func (j *loadsJob) len() int { return 1 }

func (j *loadsJob) decide(l *loop, _ int) error {
	j.loads = map[events.Type]Load{}
	for _, t := range l.state.TypeNames() {
		set, _ := l.state.Settings(t)
		slots, workers := l.registry.slots(t, "")
		j.loads[t] = Load{InFlight: l.table.byType[t], Capacity: set.Capacity, Workers: workers, Slots: slots}
	}
	return nil
}

func (j *loadsJob) finish()                   { j.out <- loadsReply{loads: j.loads} }
func (j *loadsJob) abandon(err *events.Error) { j.out <- loadsReply{err: err} }
