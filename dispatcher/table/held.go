package table

import (
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
)

// Holder is a worker that runs items of a lane. Inbox is that of the dispatches: it tells
// the lives of a worker apart.
type Holder struct {
	Lane   lanes.Key
	Worker events.WorkerID
	Inbox  string
}

// Rung is a priority of a type.
type Rung struct {
	Type     events.Type
	Priority events.Priority
}

// Held counts the runs of workers, by lane. Runs of a worker that takes no new work (it is
// draining, unhealthy, dead, or not known yet) are away: they must not count against the
// window of their lane, which follows the slots of the other workers, or those would idle
// until the runs are done.
type Held struct {
	By     map[Holder]int
	Rungs  map[Rung]int // all runs, by the priority that they were dispatched with
	Away   map[lanes.Key]int
	Active map[events.WorkerID]bool
	// Counted, if set, is called for each change of a worker's runs, by 1 or -1.
	Counted func(h Holder, by int)
}

// NewHeld returns an empty Held.
func NewHeld() Held {
	return Held{By: map[Holder]int{}, Rungs: map[Rung]int{}, Away: map[lanes.Key]int{}}
}

// Count adds by, 1 or -1, to the runs of the dispatch's worker.
func (h *Held) Count(d *Dispatch, by int) {
	k := Holder{lanes.Key{Type: d.Type, Name: d.Lane}, d.Worker, d.Inbox}
	if h.Counted != nil {
		h.Counted(k, by)
	}
	if h.By[k] += by; h.By[k] == 0 {
		delete(h.By, k)
	}
	r := Rung{d.Type, d.Priority}
	if h.Rungs[r] += by; h.Rungs[r] == 0 {
		delete(h.Rungs, r)
	}
	if !h.Active[d.Worker] {
		if h.Away[k.Lane] += by; h.Away[k.Lane] == 0 {
			delete(h.Away, k.Lane)
		}
	}
}

// SetActive sets which workers take new work now.
func (h *Held) SetActive(active map[events.WorkerID]bool) {
	h.Active = active
	clear(h.Away)
	for k, n := range h.By {
		if !active[k.Worker] {
			h.Away[k.Lane] += n
		}
	}
}
