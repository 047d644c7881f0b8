package dispatcher

import (
	"context"

	"github.com/streamwright/streamwright/events"
)

// Load is what the engine holds in memory for a type.
type Load struct {
	InFlight int // dispatched, or claimed or running
	Capacity int
	Workers  int // that serve the type and take work
	Slots    int // of those workers
}

// Loads returns the load of each type that has any.
func (e *Engine) Loads(ctx context.Context) (map[events.Type]Load, error) {
	r := e.loads(ctx)
	return r.loads, r.err
}

// Runs returns how many items each worker has claimed or runs, by the log; workers
// with none are left out.
func (e *Engine) Runs(ctx context.Context) (map[events.WorkerID]int, error) {
	r := e.loads(ctx)
	return r.runs, r.err
}

func (e *Engine) loads(ctx context.Context) loadsReply {
	j := &loadsJob{out: make(chan loadsReply, 1)}
	if err := e.enqueue(ctx, e.requests, j, overhead); err != nil {
		return loadsReply{err: err}
	}
	select {
	case r := <-j.out:
		return r
	case <-ctx.Done():
		return loadsReply{err: ctx.Err()}
	}
}

// loadsJob asks the loop for its loads.
type loadsJob struct {
	out   chan loadsReply
	reply loadsReply
}

type loadsReply struct {
	loads map[events.Type]Load
	runs  map[events.WorkerID]int
	err   error
}

func (j *loadsJob) len() int { return 1 }

func (j *loadsJob) decide(l *loop, _ int) error {
	j.reply = loadsReply{loads: map[events.Type]Load{}, runs: map[events.WorkerID]int{}}
	for _, t := range l.state.TypeNames() {
		set, _ := l.state.Settings(t)
		slots, workers := l.registry.Slots(t, "")
		j.reply.loads[t] = Load{InFlight: l.table.byType[t], Capacity: set.Capacity, Workers: workers, Slots: slots}
	}
	for h, n := range l.table.held.by {
		j.reply.runs[h.worker] += n
	}
	return nil
}

func (j *loadsJob) finish()                   { j.out <- j.reply }
func (j *loadsJob) abandon(err *events.Error) { j.out <- loadsReply{err: err} }
