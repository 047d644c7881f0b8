package core

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Decide answers a command, given the state before it and the time. Its
// Decision's events have no Seq yet; they are to be applied, all or none, with
// the sequences that follow [events.Meta.Applied]. A refusal is an [*events.Error]; any other
// error is the base's and means that nothing could be decided. It changes
// nothing (but for what the State keeps in memory of the base).
//
// The same state, command and time give the same decision. A time before
// [events.Meta.LastAt] counts as that. What the command refers to (params, result)
// becomes part of the events: it must not be written afterwards.
func Decide(s *State, c Command, now time.Time) (Decision, error) {
	d := decider{state: s, now: now.UTC().Round(0)}
	if d.now.Before(s.meta.LastAt) {
		// Keys expire by the time of events. Were it to go back, one that the
		// projection has let go would be held again, or not, by what is cached.
		d.now = s.meta.LastAt
	}
	dec, err := c.decide(&d)
	if err != nil {
		return Decision{}, err
	}
	if n := len(dec.Events); n > 1 {
		for i := range dec.Events {
			dec.Events[i].Tx = events.Tx{N: i + 1, Of: n}
		}
	}
	return dec, nil
}

type decider struct {
	state *State
	now   time.Time
	// parent spawns what is submitted, in its spawn number spawn; nil: none does.
	parent *events.Item
	spawn  int
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

func (c Own) decide(d *decider) (Decision, error) {
	epoch := d.state.meta.Epoch
	if !c.Barrier {
		epoch++
	}
	accepted := d.accept(c.Clock)
	return Decision{Events: []events.Event{{Kind: events.KindOwned, At: d.now,
		Body: &events.Owned{Epoch: epoch, Owner: events.Shorten(c.Owner, events.MaxNameLen), Version: events.Shorten(c.Version, events.MaxNameLen), Barrier: c.Barrier, Clock: accepted}}}}, nil
}

func (c Configure) decide(d *decider) (Decision, error) {
	if _, err := events.ParseType(string(c.Type)); err != nil {
		return Decision{}, events.Refuse(events.CodeBadType, "%v", err)
	}
	if c.Source != events.SourceDefault && c.Source != events.SourceFile && c.Source != events.SourceAPI {
		return Decision{}, events.Refuse(events.CodeBadRequest, "%q is no source of settings: use %s or %s", events.Clip(c.Source, 64), events.SourceFile, events.SourceAPI)
	}
	c.Settings.Protocol = c.Settings.Protocol.Canonical()
	if err := c.Settings.Validate(); err != nil {
		return Decision{}, events.Refuse(events.CodeBadRequest, "settings of type %s: %s", c.Type, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if err := d.checkPool(c.Type, c.Settings); err != nil {
		return Decision{}, err
	}
	t, known := d.state.Type(c.Type)
	if !known && c.Source != events.SourceFile {
		if err := d.checkAllowed(c.Type); err != nil {
			return Decision{}, err
		}
	}
	if !known && len(d.state.types) >= events.MaxTypes {
		return Decision{}, tooManyTypes(c.Type)
	}
	if known && equalSettings(t.Settings, c.Settings) {
		return Decision{Repeat: true}, nil
	}
	return Decision{Events: append([]events.Event{d.configured(c.Type, c.Source, c.Settings)}, d.switchedOff(t, c.Settings)...)}, nil
}

func (d *decider) configured(t events.Type, source string, set events.TypeSettings) events.Event {
	if len(set.PerPriority) == 0 {
		set.PerPriority = nil // not an empty map, which the log doesn't tell from none
	}
	if len(set.Codes) == 0 {
		set.Codes = nil
	}
	plainLimits(&set)
	return events.Event{Kind: events.KindTypeConfigured, Type: t, At: d.now, Body: &events.TypeConfigured{Source: source, Settings: set}}
}

func (c Define) decide(d *decider) (Decision, error) {
	if _, known := d.state.Type(c.Type); known {
		return Decision{Repeat: true}, nil
	}
	if err := d.checkAllowed(c.Type); err != nil {
		return Decision{}, err
	}
	return Configure{Type: c.Type, Source: events.SourceDefault, Settings: d.state.defaults}.decide(d)
}

func tooManyTypes(t events.Type) error {
	return events.Refuse(events.CodeTooManyTypes, "type %s would be the %dth: an engine serves %d types; put variants of one kind of work into params or labels instead of the type", t, events.MaxTypes+1, events.MaxTypes)
}

func (c Cancel) decide(d *decider) (Decision, error) {
	it, err := d.known(c.ID)
	if err != nil {
		return Decision{}, err
	}
	if it.State == events.StateCancelled {
		return Decision{ID: it.ID, Repeat: true}, nil
	}
	if _, ok := events.Next(it.State, events.KindCancelled); !ok {
		return Decision{}, events.Refuse(events.CodeWrongState, "item %s is %s: only one that is queued, waiting, claimed or running can be cancelled", it.ID, it.State)
	}
	reason, err := events.CheckText("reason", c.Reason, events.MaxNameLen)
	if err != nil {
		return Decision{}, err
	}
	if reason == "" {
		reason = "cancelled"
	}
	ev := d.cancelled(it, reason, events.ID{})
	return Decision{ID: it.ID, WasRunning: ev.Body.(*events.Cancelled).WasRunning, Events: []events.Event{ev}}, nil
}

// cancelled is the end of an item that is not to be run, because of another if
// that is given.
func (d *decider) cancelled(it *events.Item, reason string, by events.ID) events.Event {
	running := it.State == events.StateClaimed || it.State == events.StateRunning
	body := &events.Cancelled{Reason: reason, WasRunning: running, By: by}
	if running {
		return d.runEvent(it, body)
	}
	return d.event(it, body)
}

func (c Reschedule) decide(d *decider) (Decision, error) {
	it, err := d.known(c.ID)
	if err != nil {
		return Decision{}, err
	}
	if it.State != events.StateQueued {
		return Decision{}, events.Refuse(events.CodeWrongState, "item %s is %s: only a queued item can be rescheduled", it.ID, it.State)
	}
	at, err := d.availableAt(c.AvailableAt, c.Delay)
	if err != nil {
		return Decision{}, err
	}
	if c.Now && !at.IsZero() {
		return Decision{}, events.Refuse(events.CodeBadTime, "give a time or a delay, or ask to run now, not both")
	}
	r := events.Rescheduled{Priority: it.Priority, OrderAt: it.OrderAt, AvailableAt: it.AvailableAt}
	if c.Priority != nil {
		if *c.Priority > events.MaxPriority {
			return Decision{}, events.BadPriority(*c.Priority)
		}
		r.Priority = *c.Priority
	}
	switch {
	case c.Now || (!c.AvailableAt.IsZero() && at.IsZero()):
		r.AvailableAt = time.Time{}
		r.OrderAt = earlier(it.OrderAt, it.QueuedAt)
	case !at.IsZero():
		r.AvailableAt, r.OrderAt = at, at
	}
	if r == (events.Rescheduled{Priority: it.Priority, OrderAt: it.OrderAt, AvailableAt: it.AvailableAt}) {
		return Decision{ID: it.ID, Repeat: true}, nil
	}
	return Decision{ID: it.ID, Events: []events.Event{d.event(it, &r)}}, nil
}

// availableAt resolves a due time: the zero time for at once.
func (d *decider) availableAt(at time.Time, delay time.Duration) (time.Time, error) {
	if err := events.CheckDue(at, delay, d.now); err != nil {
		return time.Time{}, err
	}
	if delay > 0 {
		at = d.now.Add(delay)
	}
	if !at.After(d.dueTime()) {
		return time.Time{}, nil
	}
	return at.UTC().Round(0), nil
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

// equalSettings compares by content; the priorities' overrides hold pointers.
func equalSettings(a, b events.TypeSettings) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// checkNote checks why something was done, and who says to have done it.
func checkNote(reason, by string) error {
	if _, err := events.CheckText("reason", reason, events.MaxNameLen); err != nil {
		return err
	}
	_, err := events.CheckText("by", by, events.MaxNameLen)
	return err
}

// plainLimits makes empty lists none, which the log doesn't tell from them.
func plainLimits(s *events.TypeSettings) {
	if len(s.Rates) == 0 {
		s.Rates = nil
	}
	s.QueueSteps = slices.Clone(s.QueueSteps)
	for i := range s.QueueSteps {
		if len(s.QueueSteps[i].Sources) == 0 {
			s.QueueSteps[i].Sources = nil
		}
	}
	if len(s.QueueSteps) == 0 {
		s.QueueSteps = nil
	}
}
