package table

import (
	"github.com/streamwright/streamwright/events"
)

// Holder is a session of a worker that runs items of a type.
type Holder struct {
	Type    events.Type
	Worker  events.WorkerID
	Session string
}

// Rung is a priority of a type.
type Rung struct {
	Type     events.Type
	Priority events.Priority
}

// Held counts the runs of workers.
type Held struct {
	By    map[Holder]int
	Rungs map[Rung]int // all runs, by the priority that they were dispatched with
	// Counted, if set, is called for each change of a worker's runs, by 1 or -1.
	Counted func(h Holder, by int)
}

// NewHeld returns an empty Held.
func NewHeld() Held { return Held{By: map[Holder]int{}, Rungs: map[Rung]int{}} }

// Count adds by, 1 or -1, to the runs of the dispatch's worker.
func (h *Held) Count(d *Dispatch, by int) {
	k := Holder{d.Type, d.Worker, d.Session}
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
}
