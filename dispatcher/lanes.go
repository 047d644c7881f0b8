package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/registry"
	"github.com/streamwright/streamwright/events"
)

// laneOpened makes the consumer of a lane with capabilities, and has the workers that serve
// the lane register again, so that they learn of it.
func (wf *workforce) laneOpened(t events.Type, lane string) {
	able := len(wf.registry.Pulling(t, lane)) // including unhealthy workers, which will be back
	if able == 0 {
		return // its items are assigned; one that comes to pull finds the lane
	}
	wf.l.out.EnsureConsumer(lanes.Key{Type: t, Name: lane}, wf.l.leases.ackWait(t), able > 1 || able == 1 && !wf.quiet)
}

// laneClosed removes the consumer of a closed lane, unless a worker still runs what it
// delivered; then a sweep finds it.
func (wf *workforce) laneClosed(t events.Type, lane string) {
	if key := (lanes.Key{Type: t, Name: lane}); wf.l.table.ByLane[key] == 0 {
		wf.l.out.DropConsumer(key)
	}
}

// consumersFound removes the consumers to which nothing is dispatched, such as those of an
// earlier owner. One that a worker serves stays: the worker may be pulling from it.
func (wf *workforce) consumersFound(keys []lanes.Key) error {
	for _, key := range keys {
		if wf.l.table.ByLane[key] > 0 {
			continue
		}
		if key.Name == "" {
			if _, known := wf.l.state.Type(key.Type); !known {
				wf.l.out.DropConsumer(key)
			}
			continue
		}
		if wf.l.ready.IsOpen(key.Type, key.Name) {
			continue
		}
		if !wf.l.ready.Served(key.Type, key.Name) {
			wf.l.out.DropConsumer(key)
			continue
		}
		room, err := wf.l.ready.Open(key.Type, key.Name)
		if err != nil {
			return err
		}
		if !room {
			wf.l.out.DropConsumer(key)
		}
	}
	return nil
}

// findLanes continues the search for lanes that newly registered workers serve.
func (wf *workforce) findLanes() error {
	stalled, err := wf.l.ready.FindLanes()
	wf.l.sender.stalled = wf.l.sender.stalled || stalled
	return err
}

// workforce follows the workers. Owned by the loop.
type workforce struct {
	l        *loop
	registry *registry.Registry

	slots      map[lanes.Key]int // cache of Registry.Slots; cleared when the registry changes
	drains     registry.DrainMarks
	nextWorker time.Time // when the next silent worker is dead; zero: never
	quiet      bool      // the registering worker is about to learn of opened lanes anyway
}
