package dispatcher

import (
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
)

// laneOpened makes the consumer of a lane with capabilities, and has the workers
// that serve it register again, to hear of it.
func (l *loop) laneOpened(t events.Type, lane string) {
	able := len(l.registry.Able(t, lane)) // also those that are unhealthy: they will be back
	l.out.EnsureConsumer(lanes.Key{Type: t, Name: lane}, l.ackWait(t), able > 1 || able == 1 && !l.quiet)
}

// laneClosed removes the consumer of a lane that was closed, unless somebody
// still runs what it has delivered: then a sweep finds it.
func (l *loop) laneClosed(t events.Type, lane string) {
	if key := (lanes.Key{Type: t, Name: lane}); l.table.byLane[key] == 0 {
		l.out.DropConsumer(key)
	}
}

// ConsumersFound removes the consumers that nothing is dispatched to, such as an
// earlier owner's. One that a worker serves stays: it may be pulling from it.
func (l *loop) consumersFound(keys []lanes.Key) error {
	for _, key := range keys {
		if l.table.byLane[key] > 0 {
			continue
		}
		if key.Name == "" {
			if _, known := l.state.Type(key.Type); !known {
				l.out.DropConsumer(key)
			}
			continue
		}
		if l.ready.IsOpen(key.Type, key.Name) {
			continue
		}
		if !l.ready.Served(key.Type, key.Name) {
			l.out.DropConsumer(key)
			continue
		}
		room, err := l.ready.Open(key.Type, key.Name)
		if err != nil {
			return err
		}
		if !room {
			l.out.DropConsumer(key)
		}
	}
	return nil
}

// findLanes goes on with the search for lanes that workers have come for.
func (l *loop) findLanes() error {
	stalled, err := l.ready.FindLanes()
	l.stalled = l.stalled || stalled
	return err
}

// workforce follows who is there to work. Owned by the loop.
type workforce struct {
	l *loop
}
