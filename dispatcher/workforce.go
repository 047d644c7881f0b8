package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/registry"
)

// workforce follows the workers. Owned by the loop.
type workforce struct {
	l        *loop
	registry *registry.Registry

	drains     registry.DrainMarks
	nextWorker time.Time // when the next silent worker is dead; zero: never
}

// registryChanged looks at the seats and lanes anew.
func (wf *workforce) registryChanged(now time.Time) error {
	wf.nextWorker = wf.registry.Expire(now)
	if err := wf.l.assigner.registryChanged(); err != nil {
		return err
	}
	wf.l.ready.Offers(wf.registry.Offers())
	for _, t := range wf.l.state.TypeNames() {
		wf.l.sender.dirty[t] = true
	}
	if h := wf.l.cfg.Hooks.Workers; h != nil {
		h(wf.registry.List())
	}
	return nil
}

// findLanes continues the search for lanes that newly registered workers serve.
func (wf *workforce) findLanes() error {
	stalled, err := wf.l.ready.FindLanes()
	wf.l.sender.stalled = wf.l.sender.stalled || stalled
	return err
}
