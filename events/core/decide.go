package core

import (
	"cmp"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Command asks for a change. What is random or volatile comes in with it. Each
// command decides itself: see [Decide].
type Command interface {
	decide(*decider) (Decision, error)
}

// Decision is the answer to a command.
type Decision struct {
	Events []events.Event
	ID     events.ID // the item that it is about; zero for none
	Repeat bool      // it is so already; mostly without events
	// Raised is set for a Submit that was merged, and raised the priority of the item
	// that it was merged into. NotRaised is the state in which that item keeps its own,
	// lower one.
	Raised    bool
	NotRaised events.ItemState
	// ContentDiffers is set for a Submit that repeats another by its idempotency key, and
	// has other content.
	ContentDiffers bool
	// Parts is set for a decision whose events may be appended in parts, one behind the
	// other, with nothing decided in between: those of a round of [events.Snapshot].
	Parts bool
	// WasRunning is set for a Cancel that found the item claimed or running.
	WasRunning bool
}

// Decide answers a command, given the state before it and the time. Its
// Decision's events have no Seq yet; they are to be applied, all or none, with
// positions in one frame behind [events.Meta.Applied]. A refusal is an [*events.Error]; any other
// error is the base's and means that nothing could be decided. It changes
// nothing (but for what the State keeps in memory of the base).
//
// The same state, command and time give the same decision. A time before
// [events.Meta.LastAt] counts as that. What the command refers to (params, result)
// becomes part of the events: it must not be written afterwards.
func Decide(s *State, c Command, now time.Time) (Decision, error) {
	d := &s.decider
	*d = decider{state: s, now: now.UTC().Round(0)}
	if d.now.Before(s.meta.LastAt) {
		// Keys expire by the time of events. Were it to go back, one that the
		// projection has let go would be held again, or not, by what is cached.
		d.now = s.meta.LastAt
	}
	if d.due = d.now; !s.due.IsZero() {
		d.due = earlier(s.due, d.now)
	}
	dec, err := c.decide(d)
	if err != nil {
		return Decision{}, err
	}
	return dec, nil
}

// By is a command that somebody asks for, whose name the acts among its events bear (see
// [events.Kind.Act]). For a [Submit] there is [Submit.By].
type By struct {
	Name string
	Command
}

func (c By) decide(d *decider) (Decision, error) {
	dec, err := c.Command.decide(d)
	dec.by(c.Name)
	return dec, err
}

// by records who asked for the acts among a decision's events. A type that gets the default
// settings with its first item is no act of the submitter's.
func (dec *Decision) by(name string) {
	if name == "" {
		return
	}
	name = events.Shorten(name, events.MaxNameLen)
	for i := range dec.Events {
		e := &dec.Events[i]
		if set, ok := e.Body.(*events.TypeConfigured); ok && set.Source == events.SourceDefault {
			continue
		}
		if e.Kind.Act() && e.By == "" {
			e.By = name
		}
	}
}

// decider decides one command.
type decider struct {
	state  *State
	now    time.Time
	due    time.Time               // what is due by then is due: now, or see [State.SetDue]
	parent *events.Item            // spawns what is submitted; nil for none
	spawn  int                     // number of the parent's spawn
	causes map[string]events.Cause // as the deaths of this decision leave them
}

// event makes an event of an item.
func (d *decider) event(it *events.Item, b events.Body) events.Event {
	return events.Event{Kind: b.Kind(), ID: it.ID, Type: it.Type, At: d.now, Body: b}
}

// runEvent makes an event of an item's current run.
func (d *decider) runEvent(it *events.Item, b events.Body) events.Event {
	e := d.event(it, b)
	e.Attempt, e.Worker = it.Attempt, it.Worker
	return e
}

// typeEvent makes an event of a type, or with an empty type of the partition.
func (d *decider) typeEvent(t events.Type, b events.Body) events.Event {
	return events.Event{Kind: b.Kind(), Type: t, At: d.now, Body: b}
}

// Own opens a new epoch (or, with Barrier, states the current one again).
type Own struct {
	Owner   string
	Version string
	Barrier bool
	Clock   *AcceptClock // set when an operator has confirmed the clock; not with Barrier
}

func (c Own) decide(d *decider) (Decision, error) {
	epoch := d.state.meta.Epoch
	if !c.Barrier {
		epoch++
	}
	accepted := d.accept(c.Clock)
	return Decision{Events: []events.Event{{Kind: events.KindOwned, At: d.now,
		Body: &events.Owned{Epoch: epoch, Owner: events.Shorten(c.Owner, events.MaxNameLen), Version: events.Shorten(c.Version, events.MaxNameLen), Barrier: c.Barrier, Clock: accepted}}}}, nil
}

// known returns an item that must exist.
func (d *decider) known(id events.ID) (*events.Item, error) {
	it, err := d.state.Item(id)
	if err != nil {
		return nil, err
	}
	if it == nil {
		return nil, events.Refuse(events.CodeNotFound, "there is no item %s: check the id", id)
	}
	return it, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// reasonOr checks a reason, and returns unset for an empty one.
func reasonOr(reason, unset string) (string, error) {
	reason, err := events.CheckText("reason", reason, events.MaxNameLen)
	return cmp.Or(reason, unset), err
}

// checkNote checks the reason and the author of what an operator does.
func checkNote(reason, by string) error {
	if _, err := events.CheckText("reason", reason, events.MaxNameLen); err != nil {
		return err
	}
	_, err := events.CheckText("by", by, events.MaxNameLen)
	return err
}
