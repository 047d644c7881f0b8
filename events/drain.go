package events

import "time"

// MaxDrains bounds the workers that are marked to drain: as many as can be
// registered. Beyond it, marking another is refused.
const MaxDrains = 10_000

// The reasons of drain_ended.
const (
	ReasonUndrained = "undrained" // by an operator
	ReasonLeft      = "left"      // the worker has unregistered
	ReasonUnseen    = "unseen"    // it was not heard of for so long that it won't come back
)

// DrainSet is the payload of drain_set: the event's worker is to finish what it
// runs, and gets nothing new.
type DrainSet struct {
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// DrainEnded is the payload of drain_ended: the event's worker may have work
// again.
type DrainEnded struct {
	Reason string `json:"reason"` // undrained, left, unseen
	By     string `json:"by,omitempty"`
}

func (*DrainSet) kind() Kind   { return KindDrainSet }
func (*DrainEnded) kind() Kind { return KindDrainEnded }

// Drain is that a worker is marked to drain.
type Drain struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
}

// DrainWorker marks a worker, whichever program has its id, until EndDrain.
type DrainWorker struct {
	Worker WorkerID
	Reason string
	By     string
}

// EndDrain takes the mark away, for one of the reasons of drain_ended.
type EndDrain struct {
	Worker WorkerID
	Reason string // empty: ReasonUndrained
	By     string
}

func (DrainWorker) command() {}
func (EndDrain) command()    {}

// drainWorker marks a worker. One that is marked keeps its mark.
func (d *decider) drainWorker(c DrainWorker) (Decision, error) {
	if _, err := ParseWorkerID(string(c.Worker)); err != nil {
		return Decision{}, Refuse(CodeBadRequest, "%v", err)
	}
	for _, f := range [...]struct{ field, v string }{{"reason", c.Reason}, {"by", c.By}} {
		if _, err := name(f.field, f.v, MaxNameLen); err != nil {
			return Decision{}, err
		}
	}
	if d.s.drains.get(string(c.Worker)) != nil {
		return Decision{Repeat: true}, nil
	}
	if d.s.drains.len() >= d.s.maxDrains {
		return Decision{}, Refuse(CodeUnavailable, "%d workers are marked to drain, which is the most: end the drain of those that are gone (`engine workers` lists them)", d.s.maxDrains)
	}
	return Decision{Events: []Event{{Kind: KindDrainSet, Worker: c.Worker, At: d.now, Body: &DrainSet{Reason: c.Reason, By: c.By}}}}, nil
}

// endDrain takes a worker's mark away, if there is one.
func (d *decider) endDrain(c EndDrain) (Decision, error) {
	if _, err := ParseWorkerID(string(c.Worker)); err != nil {
		return Decision{}, Refuse(CodeBadRequest, "%v", err)
	}
	if _, err := name("by", c.By, MaxNameLen); err != nil {
		return Decision{}, err
	}
	switch c.Reason {
	case "":
		c.Reason = ReasonUndrained
	case ReasonUndrained, ReasonLeft, ReasonUnseen:
	default:
		return Decision{}, Refuse(CodeBadRequest, "%q is no reason for a drain to end", clip(c.Reason, 64))
	}
	if d.s.drains.get(string(c.Worker)) == nil {
		return Decision{Repeat: true}, nil
	}
	return Decision{Events: []Event{{Kind: KindDrainEnded, Worker: c.Worker, At: d.now, Body: &DrainEnded{Reason: c.Reason, By: c.By}}}}, nil
}

func (s *State) applyDrain(ev Event) error {
	w := string(ev.Worker)
	marked := s.drains.get(w) != nil
	switch b := ev.Body.(type) {
	case *DrainSet:
		if marked {
			return s.corrupt(ev, "worker %s is marked to drain", w)
		}
		s.drains.set(w, Drain{At: ev.At, Reason: b.Reason, By: b.By})
	case *DrainEnded:
		if !marked {
			return s.corrupt(ev, "worker %s is not marked to drain", w)
		}
		s.drains.remove(w)
	}
	s.drainVersion++
	return nil
}

// Drains are the workers that are marked to drain. The caller may keep it.
func (s *State) Drains() map[WorkerID]Drain {
	out := make(map[WorkerID]Drain, s.drains.len())
	for w, d := range s.drains.m {
		out[WorkerID(w)] = *d
	}
	return out
}

// DrainVersion changes whenever a worker is marked to drain, or no longer.
func (s *State) DrainVersion() uint64 { return s.drainVersion }
