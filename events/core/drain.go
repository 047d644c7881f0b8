package core

import (
	"github.com/streamwright/streamwright/events"
)

// DrainWorker marks a worker, whichever program has its id, until EndDrain.
type DrainWorker struct {
	Worker events.WorkerID
	Reason string
	By     string
}

// EndDrain takes the mark away, for one of the reasons of drain_ended.
type EndDrain struct {
	Worker events.WorkerID
	Reason string // empty: ReasonUndrained
	By     string
}

// decide marks a worker. One that is marked keeps its mark.
func (c DrainWorker) decide(d *decider) (Decision, error) {
	if _, err := events.ParseWorkerID(string(c.Worker)); err != nil {
		return Decision{}, events.Refuse(events.CodeBadRequest, "%v", err)
	}
	if err := checkNote(c.Reason, c.By); err != nil {
		return Decision{}, err
	}
	if d.state.drains.get(string(c.Worker)) != nil {
		return Decision{Repeat: true}, nil
	}
	if d.state.drains.len() >= d.state.maxDrains {
		return Decision{}, events.Refuse(events.CodeUnavailable, "%d workers are marked to drain, which is the most: end the drain of those that are gone (`engine workers` lists them)", d.state.maxDrains)
	}
	return Decision{Events: []events.Event{{Kind: events.KindDrainSet, Worker: c.Worker, At: d.now, Body: &events.DrainSet{Reason: c.Reason, By: c.By}}}}, nil
}

// decide takes a worker's mark away, if there is one.
func (c EndDrain) decide(d *decider) (Decision, error) {
	if _, err := events.ParseWorkerID(string(c.Worker)); err != nil {
		return Decision{}, events.Refuse(events.CodeBadRequest, "%v", err)
	}
	if _, err := events.CheckText("by", c.By, events.MaxNameLen); err != nil {
		return Decision{}, err
	}
	switch c.Reason {
	case "":
		c.Reason = events.ReasonUndrained
	case events.ReasonUndrained, events.ReasonLeft, events.ReasonUnseen:
	default:
		return Decision{}, events.Refuse(events.CodeBadRequest, "%q is no reason for a drain to end", events.Clip(c.Reason, 64))
	}
	if d.state.drains.get(string(c.Worker)) == nil {
		return Decision{Repeat: true}, nil
	}
	return Decision{Events: []events.Event{{Kind: events.KindDrainEnded, Worker: c.Worker, At: d.now, Body: &events.DrainEnded{Reason: c.Reason, By: c.By}}}}, nil
}

func applyDrainSet(a *applier, b *events.DrainSet) error {
	w := string(a.ev.Worker)
	if a.drains.get(w) != nil {
		return a.corrupt("worker %s is marked to drain", w)
	}
	a.drains.set(w, events.Drain{At: a.ev.At, Reason: b.Reason, By: b.By})
	a.drainVersion++
	return nil
}

func applyDrainEnded(a *applier, _ *events.DrainEnded) error {
	w := string(a.ev.Worker)
	if a.drains.get(w) == nil {
		return a.corrupt("worker %s is not marked to drain", w)
	}
	a.drains.remove(w)
	a.drainVersion++
	return nil
}

// Drains returns the workers that are marked to drain. The caller may keep it.
func (s *State) Drains() map[events.WorkerID]events.Drain {
	out := make(map[events.WorkerID]events.Drain, s.drains.len())
	for w, d := range s.drains.m {
		out[events.WorkerID(w)] = *d
	}
	return out
}

// DrainVersion changes whenever a worker is marked to drain, or no longer.
func (s *State) DrainVersion() uint64 { return s.drainVersion }
