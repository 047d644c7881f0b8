package core

import (
	"fmt"

	"github.com/streamwright/streamwright/events"
)

// plan makes one decision out of many: each part is decided against a scratch
// state that has the parts before it, while the State itself stays as it is.
type plan struct {
	decider
	seq    events.Seq // given out to the scratch state
	events []events.Event
	made   map[events.ID]bool // the children of the parts before; nil: not read yet
}

// plan begins a decision of many parts.
func (d *decider) plan() (*plan, error) {
	s, err := NewState(overState{d.state})
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	s.defaults, s.limits, s.reads = d.state.defaults, d.state.limits, d.state.reads
	s.schedules.share(d.state.schedules)
	s.workers.share(d.state.workers)
	s.causes.share(d.state.causes.records)
	return &plan{decider: decider{state: s, now: d.now, due: d.now}, seq: s.meta.Applied}, nil
}

// add makes events a part of the decision.
func (p *plan) add(evs ...events.Event) error {
	for _, ev := range evs {
		p.events = append(p.events, ev)
		p.seq++
		ev.Seq = p.seq
		if err := p.state.Apply(ev); err != nil {
			return fmt.Errorf("plan: %w", err)
		}
	}
	return nil
}

// overState is a State as the Base of another: what that one changes stays its
// own, since items are copied before they are written.
type overState struct{ *State }

func (o overState) Meta() (events.Meta, error) { return o.meta, nil }

func (o overState) Types() ([]events.TypeInfo, error) {
	types := make([]events.TypeInfo, 0, len(o.types))
	for _, t := range o.types {
		types = append(types, t.info)
	}
	return types, nil
}

func (o overState) Key(ref events.KeyRef) (events.HeldKey, bool, error) {
	return o.State.Key(ref, o.meta.LastAt)
}

// Records are shared with the State instead: see plan.
func (o overState) Records(events.RecordKind) ([]events.Record, error) { return nil, nil }
