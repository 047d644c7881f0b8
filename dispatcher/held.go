package dispatcher

import (
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
)

// holder is a worker that runs items of a lane.
type holder struct {
	lane   lanes.Key
	worker events.WorkerID
}

// held counts what workers run, by lane. What is run by one that takes no new
// work (it drains, is unhealthy, dead, or not known yet) is away: it must not
// count against the window of its lane, which follows the others' slots, or the
// others would idle until it is done. Owned by the loop.
type held struct {
	by     map[holder]int
	away   map[lanes.Key]int
	active map[events.WorkerID]bool
}

func newHeld() held { return held{by: map[holder]int{}, away: map[lanes.Key]int{}} }

func (h *held) count(d *dispatched, by int) {
	k := holder{lanes.Key{Type: d.typ, Name: d.lane}, d.worker}
	if h.by[k] += by; h.by[k] == 0 {
		delete(h.by, k)
	}
	if !h.active[d.worker] {
		if h.away[k.lane] += by; h.away[k.lane] == 0 {
			delete(h.away, k.lane)
		}
	}
}

// setActive says who takes new work now.
func (h *held) setActive(active map[events.WorkerID]bool) {
	h.active = active
	clear(h.away)
	for k, n := range h.by {
		if !active[k.worker] {
			h.away[k.lane] += n
		}
	}
}
