package core

import (
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Replay queues a dead or cancelled item again.
type Replay struct {
	ID          events.ID
	Params      json.RawMessage  // nil: as they were
	Priority    *events.Priority // nil: as it was
	MaxAttempts events.Attempt   // further ones; 0: as many as its submission or last replay chose, else the type's
	Reason      string
}

// decide queues a dead or cancelled item again, behind all queued ones.
func (c Replay) decide(d *decider) (Decision, error) {
	it, err := d.known(c.ID)
	if err != nil {
		return Decision{}, err
	}
	if _, ok := events.Next(it.State, events.KindReplayed); !ok {
		return Decision{}, events.Refuse(events.CodeWrongState, "item %s is %s: only one that is dead or cancelled can be replayed", it.ID, it.State)
	}
	if relationsOf(it).Batch {
		return Decision{}, events.Refuse(events.CodeWrongState, "item %s is a batch, which does not run: replay its items", it.ID)
	}
	r := &events.Replayed{Priority: it.Priority, OrderAt: d.now, OwnAttempts: c.MaxAttempts != 0 || it.OwnAttempts}
	if c.Priority != nil {
		if r.Priority = *c.Priority; r.Priority > events.MaxPriority {
			return Decision{}, events.BadPriority(r.Priority)
		}
	}
	set, _ := d.state.Settings(it.Type)
	if r.MaxAttempts, err = furtherAttempts(it, r.Priority, set, c.MaxAttempts); err != nil {
		return Decision{}, err
	}
	if c.Params != nil {
		if r.Params, err = events.CheckDocument("the params document", c.Params, set.MaxParams, "store it elsewhere and replay with a reference to it, or raise max_params"); err != nil {
			return Decision{}, err
		}
	}
	if r.Reason, err = events.CheckText("reason", c.Reason, events.MaxNameLen); err != nil {
		return Decision{}, err
	}
	if err := c.keyIsFree(d, it); err != nil {
		return Decision{}, err
	}
	return Decision{ID: it.ID, Events: []events.Event{d.event(it, r)}}, nil
}

// furtherAttempts returns the item's limit of attempts after a replay that gives it
// so many more.
func furtherAttempts(it *events.Item, p events.Priority, set events.TypeSettings, further events.Attempt) (events.Attempt, error) {
	if further < 0 || further > events.MaxAttemptsCeiling {
		return 0, events.Refuse(events.CodeBadRequest, "max attempts %d is outside 1 to %d", further, events.MaxAttemptsCeiling)
	}
	switch {
	case further > 0:
	case it.OwnAttempts:
		further = it.MaxAttempts - it.AttemptsBefore - it.Spared
	default:
		_, further, _ = set.For(p)
	}
	return it.Attempt + further, nil
}

// keyIsFree refuses to bring an item back while another, live one has its dedup
// key. One that has completed gives the key up, even within its window.
func (Replay) keyIsFree(d *decider, it *events.Item) error {
	if it.DedupKey == "" {
		return nil
	}
	held, has, err := d.state.Key(events.KeyRef{Kind: events.KeyDedup, Type: it.Type, Key: it.DedupKey}, d.now)
	if err != nil || !has || held.ID == it.ID {
		return err
	}
	holder, err := d.state.Item(held.ID)
	if err != nil || holder == nil || holder.State.Terminal() {
		return err
	}
	return events.Refuse(events.CodeWrongState, "item %s can't be replayed: its dedup key %q is held by item %s, which is %s: wait for that one, or cancel it", it.ID, events.Clip(it.DedupKey, 80), holder.ID, holder.State)
}

// foldReplayed begins an item's life anew, where it has left off: what its
// attempts have made so far stays, the last error until the next one.
func foldReplayed(a *applier, e *entry, it *events.Item, b *events.Replayed) error {
	if it.Cause != "" {
		a.causes.leftDead(it, a.ev.At)
	}
	clearRun(it)
	it.Priority, it.MaxAttempts, it.OrderAt, it.QueuedAt = b.Priority, b.MaxAttempts, b.OrderAt, a.ev.At
	it.Reason, it.LeasesLost, it.Spared, it.AttemptsBefore, it.OwnAttempts = "", 0, 0, it.Attempt, b.OwnAttempts
	it.HoldsKey = it.DedupKey != "" // see keyIsFree
	if b.Params == nil {
		return nil
	}
	it.Digest, it.SubmittedBy = "", a.ev.By // the content is not the submitter's any more
	a.cacheBytes += len(b.Params) - len(e.params)
	e.params, e.paramsAt = b.Params, a.ev.Seq
	a.setDocument(events.DocParams, it.ID, b.Params)
	return nil
}

// clearRun forgets the times of a life that has ended.
func clearRun(it *events.Item) {
	it.Worker, it.FinishedAt, it.ExpiresAt = "", time.Time{}, time.Time{}
	putOff(it, time.Time{}, time.Time{})
	it.ClaimedAt, it.StartBy, it.StartedAt, it.Deadline = time.Time{}, time.Time{}, time.Time{}, time.Time{}
}

// Cancel asks that an item be not run, or no longer.
type Cancel struct {
	ID     events.ID
	Reason string // empty: "cancelled"
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
	reason, err := reasonOr(c.Reason, "cancelled")
	if err != nil {
		return Decision{}, err
	}
	ev := d.cancelled(it, reason, events.ID{})
	return Decision{ID: it.ID, WasRunning: ev.Body.(*events.Cancelled).WasRunning, Events: []events.Event{ev}}, nil
}

// cancelled ends an item that is not to be run, because of the item by if that is
// not zero.
func (d *decider) cancelled(it *events.Item, reason string, by events.ID) events.Event {
	body := &events.Cancelled{Reason: reason, WasRunning: running(it.State), By: by}
	if body.WasRunning {
		return d.runEvent(it, body)
	}
	return d.event(it, body)
}

// Reschedule changes the order of a queued item. Now makes it available at
// once; otherwise AvailableAt or Delay, if set, says when.
type Reschedule struct {
	ID          events.ID
	Priority    *events.Priority
	AvailableAt time.Time
	Delay       time.Duration
	Now         bool
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
		r.AvailableAt, r.OrderAt, r.Delayed = at, at, c.Delay > 0
	}
	if r == (events.Rescheduled{Priority: it.Priority, OrderAt: it.OrderAt, AvailableAt: it.AvailableAt}) {
		return Decision{ID: it.ID, Repeat: true}, nil
	}
	return Decision{ID: it.ID, Events: []events.Event{d.event(it, &r)}}, nil
}

func foldCancelled(a *applier, e *entry, it *events.Item, b *events.Cancelled) error {
	it.Reason, it.FinishedAt = b.Reason, a.ev.At
	endedBy(it, b.By)
	a.dropParams(e)
	return a.ended(it)
}

func foldRescheduled(a *applier, _ *entry, it *events.Item, b *events.Rescheduled) error {
	it.Priority, it.OrderAt = b.Priority, b.OrderAt
	switch {
	case b.Delayed:
		putOff(it, b.AvailableAt, a.ev.At)
	case !b.AvailableAt.Equal(it.AvailableAt):
		putOff(it, b.AvailableAt, time.Time{})
	}
	if !b.Limit.IsZero() {
		moveRun(it, b.Limit, a.ev.At)
	}
	return nil
}
