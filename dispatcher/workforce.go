package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/dispatcher/registry"
	"github.com/streamwright/streamwright/wire"
)

// workforce follows the workers. Owned by the loop.
type workforce struct {
	*decider
	registry *registry.Registry
	assigner *assigner
	ready    *readyq.Queues
	dirty    dirty
	changed  func([]wire.WorkerInfo) // called with the workers; nil: nobody asks

	drains     registry.DrainMarks
	circuits   uint64    // State.CircuitVersion as the registry knows it
	nextWorker time.Time // when the next silent worker is dead; zero: never
}

// registryChanged looks at the seats and lanes anew.
func (wf *workforce) registryChanged(now time.Time) error {
	wf.nextWorker = wf.registry.Expire(now)
	if err := wf.assigner.registryChanged(wf.registry.Seats()); err != nil {
		return err
	}
	wf.ready.Offers(wf.registry.Offers())
	wf.dirty.mark(wf.state.TypeNames()...)
	if wf.changed != nil {
		wf.changed(wf.registry.List())
	}
	return nil
}

// follow passes the circuits of workers, and changed drain marks, to the registry.
func (wf *workforce) follow() {
	if v := wf.state.CircuitVersion(); v != wf.circuits {
		wf.circuits = v
		wf.registry.Bench(wf.state.OpenWorkerCircuits())
	}
	if marks, changed := wf.drains.Follow(wf.state, wf.clock.Now()); changed {
		wf.registry.SetMarks(marks)
	}
}
