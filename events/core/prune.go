package core

import (
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

// Prunable reports why an item can't be forgotten yet, empty if it can: it is
// to be kept for longer, leads a key that has not expired, or others hang on
// it. It may be prunable at due; the zero time if that can't be told.
func (s *State) Prunable(it *events.Item, now time.Time) (why string, due time.Time, err error) {
	if !it.State.Terminal() {
		return "it is " + it.State.String(), time.Time{}, nil
	}
	set, _ := s.Settings(it.Type)
	if due = it.FinishedAt.Add(set.Retain.For(it.State)); due.After(now) {
		return "it is to be kept until " + due.Format(time.RFC3339), due, nil
	}
	if until := it.CreatedAt.Add(events.MsgIDWindow); (it.IntakeSeq != 0 || it.MsgID != "") && until.After(now) {
		return "its message id may not be used again yet", until, nil
	}
	for _, ref := range keyRefs(it) {
		held, has, err := s.Key(ref, now)
		if err != nil {
			return "", time.Time{}, err
		}
		if has && held.ID == it.ID {
			return "it keeps a key taken", held.Until, nil
		}
	}
	why, err = s.hangsOn(it)
	return why, time.Time{}, err
}

// hangsOn reports why an ended item can't be forgotten because of others, empty
// if it can.
func (s *State) hangsOn(it *events.Item) (why string, err error) {
	r := relationsOf(it)
	if r.Awaited > 0 || r.Live > 0 || it.NeedsFollowUp() {
		return "others wait for it or belong to it", nil
	}
	if r.Parent.IsZero() {
		return "", nil
	}
	parent, err := s.Item(r.Parent)
	if err == nil && parent != nil && !parent.State.Terminal() {
		why = "the item that spawned it has not ended"
	}
	return why, err
}

// Prune forgets a terminal item if it has been kept for as long as it is to be
// and nothing refers to it any more; see [State.Prunable].
type Prune struct{ ID events.ID }

func (c Prune) decide(d *decider) (Decision, error) {
	it, err := d.known(c.ID)
	if err != nil {
		return Decision{}, err
	}
	why, _, err := d.state.Prunable(it, d.now)
	if err != nil {
		return Decision{}, err
	}
	if why != "" {
		return Decision{}, events.Refuse(events.CodeWrongState, "item %s can't be pruned: %s", it.ID, why)
	}
	return d.prune(it, reasonRetention)
}

// reasonRetention is the reason of a Prune, and not of a Purge.
const reasonRetention = "retention"

// prune forgets a terminal item, for the reason given: its retention is over,
// or an operator has asked for it. The item's keys go with it.
func (d *decider) prune(it *events.Item, reason string) (Decision, error) {
	hangs, err := d.state.hangsOn(it)
	switch {
	case err != nil:
		return Decision{}, err
	case !it.State.Terminal():
		return Decision{}, events.Refuse(events.CodeWrongState, "item %s is %s: only one that has ended can be purged; cancel it first", it.ID, it.State)
	case hangs != "":
		return Decision{}, events.Refuse(events.CodeWrongState, "item %s can't be purged yet: %s", it.ID, hangs)
	case (it.IntakeSeq != 0 || it.MsgID != "") && it.CreatedAt.Add(events.MsgIDWindow).After(d.now):
		e := events.Refuse(events.CodeWrongState, "item %s was published less than %s ago, for which its message id stays taken: purge it later", it.ID, events.MsgIDWindow)
		e.RetryAfter = it.CreatedAt.Add(events.MsgIDWindow).Sub(d.now)
		return Decision{}, e
	}
	return Decision{ID: it.ID, Events: []events.Event{d.event(it, &events.Pruned{Reason: reason})}}, nil
}

// Purge forgets a terminal item now.
type Purge struct {
	ID     events.ID
	Reason string // empty: "purged"
}

// decide forgets an item that has ended.
func (c Purge) decide(d *decider) (Decision, error) {
	it, err := d.known(c.ID)
	if err != nil {
		return Decision{}, err
	}
	reason, err := reasonOr(c.Reason, "purged")
	if err != nil {
		return Decision{}, err
	}
	if reason == reasonRetention {
		reason = "purged" // else a [Keeper] would keep it
	}
	return d.prune(it, reason)
}

func applyPruned(a *applier, b *events.Pruned) error {
	e, err := a.entry(a.ev.ID)
	if err != nil {
		return err
	}
	if e == nil || !e.cur.State.Terminal() {
		return a.corrupt("there is no such item, or it has not ended")
	}
	if err := a.loseKeys(e.cur); err != nil {
		return err
	}
	if e.cur.Cause != "" {
		a.causes.leftDead(a.writable(e), a.ev.At)
	}
	if a.keeps && !a.meta.Partial && b.Reason == reasonRetention {
		a.count(e.cur, -1)
		a.writable(e).PrunedSeq = a.ev.Seq
	} else {
		a.forget(e)
	}
	a.touch(e, a.ev.Seq)
	a.meta.Pruned++
	return nil
}

// loseKeys frees the keys that lead to an item.
func (a *applier) loseKeys(it *events.Item) error {
	for _, ref := range allKeys(it) {
		held, has, err := a.Key(ref, a.meta.LastAt)
		if err != nil {
			return err
		}
		if has && held.ID == it.ID {
			a.setKey(events.HeldKey{Ref: ref, ID: it.ID}, false)
		}
	}
	return nil
}

// forget lets go of an item and of all that stands beside it, but for its keys.
func (a *applier) forget(e *entry) {
	a.count(e.cur, -1)
	a.erase(e)
}

// erase is forget for an item that is not counted.
func (a *applier) erase(e *entry) {
	if e.dirty {
		// What was to be written of it must not come back behind its end.
		a.dirtyDocs = slices.DeleteFunc(a.dirtyDocs, func(d Document) bool { return d.ID == e.id })
		a.history = slices.DeleteFunc(a.history, func(ev events.Event) bool { return ev.ID == e.id })
		a.merged = slices.DeleteFunc(a.merged, func(m events.MergedEntry) bool { return m.Into == e.id })
		a.restated = slices.DeleteFunc(a.restated, func(r EncodedHistory) bool { return r.ID == e.id })
		a.folds = slices.DeleteFunc(a.folds, func(f events.Fold) bool { return f.ID == e.id })
	}
	for _, k := range events.DocKinds {
		if k != events.DocParams {
			a.docs.set(docRef{k, e.id}, nil, a.meta.Applied)
		}
	}
	for _, of := range relationsOf(e.cur).Waits {
		a.setWait(of, e.id, false)
	}
	a.cacheBytes -= len(e.params)
	e.cur, e.params, e.fresh = nil, nil, false
	a.markDirty(e)
}
