package core

import (
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/policy"
)

// dead ends an item that has failed for good: with one event, or two if its
// cause is worth a note.
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
		evs = append(evs, d.typeEvent(it.Type, &events.CauseNoted{
			Cause: key, Why: why, Count: c.Count, Window: c.Window, Reason: c.Reason, Code: c.Code, Error: c.Error, Example: it.ID,
		}))
	}
	if d.causes == nil {
		d.causes = map[string]events.Cause{}
	}
	d.causes[key] = c
	return evs
}

// causeOf returns the cause that a death is counted under: its own, or the
// type's other cause when there are too many. known reports whether items have
// died of it before.
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
	return d.state.causes.value(key)
}

func applyCauseNoted(a *applier, b *events.CauseNoted) error {
	c := a.causes.get(b.Cause)
	if c == nil {
		return a.corrupt("nothing has died of cause %q", b.Cause)
	}
	noted := *c
	noted.Noted = b.Window
	a.causes.put(b.Cause, noted)
	a.noted = append(a.noted, a.ev)
	return nil
}

// Cause returns what is known of a cause, false if nothing is.
func (s *State) Cause(key string) (events.Cause, bool) { return s.causes.value(key) }

// causes holds the causes that items have died of.
type causes struct {
	records[events.Cause]
	idle int // how many have no dead item now
	max  int // events.MaxCauses; smaller in tests
}

// died counts a death. Deaths logged before causes existed have none.
func (cs *causes) died(it *events.Item, b *events.Dead, at time.Time) {
	it.Cause = b.Cause
	if b.Cause == "" {
		return
	}
	c := cs.get(b.Cause)
	if c == nil {
		cs.makeRoom(at)
		c = &events.Cause{}
	}
	cs.put(b.Cause, policy.CountDeath(*c, it, b, at))
}

// leftDead counts a dead item out: it is replayed, or pruned. The caller calls
// it for each item that was dead.
func (cs *causes) leftDead(it *events.Item, at time.Time) {
	key := it.Cause
	it.Cause = ""
	c := cs.get(key)
	if key == "" || c == nil {
		return
	}
	left := *c
	left.Dead = max(left.Dead-1, 0)
	if policy.Forgettable(&left, at) {
		cs.drop(key)
		return
	}
	cs.put(key, left)
}

// makeRoom lets go of the causes that are of no use any more before a new one
// comes. At the bound, it also drops the cause without dead items whose last death
// is the oldest.
func (cs *causes) makeRoom(at time.Time) {
	if cs.idle == 0 {
		return
	}
	oldest := ""
	for _, key := range cs.keys() {
		c := cs.get(key)
		switch {
		case policy.Forgettable(c, at):
			cs.drop(key)
		case c.Dead == 0 && (oldest == "" || c.Last.Before(cs.get(oldest).Last)):
			oldest = key
		}
	}
	if oldest != "" && cs.len() >= cs.max {
		cs.drop(oldest)
	}
}

// put and drop keep idle.
func (cs *causes) put(key string, c events.Cause) {
	cs.idle += idle(&c) - idle(cs.get(key))
	cs.set(key, c)
}

func (cs *causes) drop(key string) {
	cs.idle -= idle(cs.get(key))
	cs.remove(key)
}

func (cs *causes) countIdle() {
	cs.idle = 0
	for _, c := range cs.m {
		cs.idle += idle(c)
	}
}

func idle(c *events.Cause) int {
	if c != nil && c.Dead == 0 {
		return 1
	}
	return 0
}
