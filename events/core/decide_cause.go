package core

import (
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/policy"
)

// dead is the end of an item that has failed for good, and what that says of
// its cause: one event, or two.
func (d *decider) dead(it *events.Item, b *events.Dead) []events.Event {
	key, c, known := d.causeOf(it, b)
	b.Cause = key
	c = policy.CountDeath(c, it, b, d.now)
	evs := []events.Event{d.runEvent(it, b)}
	why := ""
	switch {
	case !known:
		why = events.CauseNew
	case policy.Growing(c):
		why = events.CauseGrowing
	}
	if why != "" {
		c.Noted = c.Window
		evs = append(evs, events.Event{Kind: events.KindCauseNoted, Type: it.Type, At: d.now, Body: &events.CauseNoted{
			Cause: key, Why: why, Count: c.Count, Window: c.Window, Reason: c.Reason, Code: c.Code, Error: c.Error, Example: it.ID,
		}})
	}
	if d.causes == nil {
		d.causes = map[string]events.Cause{}
	}
	d.causes[key] = c
	return evs
}

// causeOf is what a death is counted under: its own cause, or, where there are
// too many of them, the type's other one. known says that items have died of
// it before.
func (d *decider) causeOf(it *events.Item, b *events.Dead) (key string, c events.Cause, known bool) {
	key = policy.CauseOf(it.Type, b.Reason, b.Code, b.Error)
	if c, known = d.cause(key); known {
		return key, c, true
	}
	// Each cause that this decision has touched may take a place, or keep one
	// that was free to be given away.
	touched := len(d.causes)
	if d.state.causes.len()+touched < d.state.causes.max || d.state.causes.idle > touched {
		return key, c, false
	}
	key = policy.OtherCause(it.Type)
	c, known = d.cause(key)
	return key, c, known
}

func (d *decider) cause(key string) (events.Cause, bool) {
	if c, ok := d.causes[key]; ok {
		return c, true
	}
	if c := d.state.causes.get(key); c != nil {
		return *c, true
	}
	return events.Cause{}, false
}
