package table

import (
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
)

// Holder is a worker that runs items of a lane.
type Holder struct {
	Lane   lanes.Key
	Worker events.WorkerID
}

// Held counts what workers run, by lane. What is run by one that takes no new
// work (it drains, is unhealthy, dead, or not known yet) is away: it must not
// count against the window of its lane, which follows the others' slots, or the
// others would idle until it is done.
type Held struct {
	By     map[Holder]int
	Away   map[lanes.Key]int
	Active map[events.WorkerID]bool
}

// NewHeld makes a Held of nothing.
func NewHeld() Held { return Held{By: map[Holder]int{}, Away: map[lanes.Key]int{}} }

// Count counts a dispatch that a worker runs, or no longer.
func (h *Held) Count(d *Dispatch, by int) {
	k := Holder{lanes.Key{Type: d.Type, Name: d.Lane}, d.Worker}
	if h.By[k] += by; h.By[k] == 0 {
		delete(h.By, k)
	}
	if !h.Active[d.Worker] {
		if h.Away[k.Lane] += by; h.Away[k.Lane] == 0 {
			delete(h.Away, k.Lane)
		}
	}
}

// SetActive says who takes new work now.
func (h *Held) SetActive(active map[events.WorkerID]bool) {
	h.Active = active
	clear(h.Away)
	for k, n := range h.By {
		if !active[k.Worker] {
			h.Away[k.Lane] += n
		}
	}
}
