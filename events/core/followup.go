package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"github.com/streamwright/streamwright/events"
)

// followUpPage bounds the items that one FollowUp decides about.
const followUpPage = 100

// FollowUp decides the consequences of an item's fate for the items that it concerns,
// a bounded number at a time: repeat it until the Decision is a Repeat. See
// [events.Item.NeedsFollowUp].
type FollowUp struct{ ID events.ID }

// decide decides the consequences of an item's fate: for its parent, for the items
// that wait for it, for its children.
func (c FollowUp) decide(d *decider) (Decision, error) {
	nothing := Decision{ID: c.ID, Repeat: true}
	it, err := d.state.Item(c.ID)
	if err != nil || it == nil || !it.NeedsFollowUp() {
		return nothing, err
	}
	var evs []events.Event
	switch r := relationsOf(it); {
	case it.State == events.StateWaiting:
		evs, err = c.childrenEnded(d, it)
	case r.Awaited > 0:
		evs, err = c.tellWaiters(d, it)
	default:
		evs, err = c.cancelChildren(d, it)
	}
	if err != nil || len(evs) == 0 {
		return nothing, err
	}
	return Decision{ID: it.ID, Events: evs}, nil
}

// childDead ends a parent that does not outlive a child.
func (d *decider) childDead(it, child *events.Item) []events.Event {
	msg := "child " + child.ID.String() + " (" + string(child.Type) + ") is " + child.State.String()
	if child.Reason != "" {
		msg += ": " + child.Reason
	}
	if child.State == events.StateDead && child.Error != "" {
		msg += ": " + child.Error
	}
	return d.dead(it, &events.Dead{Reason: events.DeadOfChild, Attempts: it.Attempt, Error: events.Shorten(msg, events.MaxErrorText), Code: events.DeadOfChild, By: child.ID})
}

// childrenEnded decides what becomes of a parent when all its children have ended, or
// one of them has ended badly.
func (FollowUp) childrenEnded(d *decider, it *events.Item) ([]events.Event, error) {
	r := relationsOf(it)
	if r.Batch {
		return []events.Event{d.event(it, &events.Completed{Result: tally(&r)})}, nil
	}
	if r.Unmade() && (r.Failed == 0 || r.ChildPolicy == events.ChildContinue) {
		return nil, nil // SpawnPart makes the others
	}
	ids, err := d.state.childrenOf(it.ID, &r)
	if err != nil {
		return nil, err
	}
	kids, err := d.children(ids)
	if err != nil {
		return nil, err
	}
	if r.ChildPolicy != events.ChildContinue {
		for _, k := range kids {
			if k != nil && (k.State == events.StateDead || k.State == events.StateCancelled) {
				return d.childDead(it, k), nil
			}
		}
		if r.Failed > 0 { // of one that has been forgotten
			return d.dead(it, &events.Dead{Reason: events.DeadOfChild, Attempts: it.Attempt, Error: "a child has failed", Code: events.DeadOfChild}), nil
		}
	}
	out, err := d.outcomes(ids, kids)
	if err != nil {
		return nil, err
	}
	if !r.Continues {
		result := out.result()
		if result == nil {
			result = tally(&r)
		}
		return []events.Event{d.event(it, &events.Completed{Result: result, Unread: unreadBy(it)})}, nil
	}
	q := d.freed(it, reasonContinuation)
	q.AvailableAt, q.Outcomes = it.AvailableAt, out.all(true)
	return []events.Event{d.event(it, q)}, nil
}

// tally returns the number of children by how they have ended, as JSON.
func tally(r *events.Relations) json.RawMessage {
	return fmt.Appendf(nil, `{"total":%d,"completed":%d,"dead":%d,"cancelled":%d}`, r.Size(), r.Size()-r.Live-r.Failed, r.Failed-r.Cancelled, r.Cancelled)
}

// children returns what children have become, in order: for a merged one the item
// that it was merged into, nil for one that is gone.
func (d *decider) children(ids []events.ID) ([]*events.Item, error) {
	kids := make([]*events.Item, len(ids))
	for i, id := range ids {
		var err error
		if kids[i], err = d.canonical(id); err != nil {
			return nil, err
		}
	}
	return kids, nil
}

// cancelChildren cancels children of an item that has ended before them, except the
// children of a spawn made in parts and the items of a batch: see [EndBatchItem].
func (FollowUp) cancelChildren(d *decider, it *events.Item) ([]events.Event, error) {
	p, err := d.plan()
	if err != nil {
		return nil, err
	}
	r, n := relationsOf(it), 0
	for _, id := range r.Children {
		if n == followUpPage {
			break
		}
		kid, err := p.state.Item(id)
		if err != nil {
			return nil, err
		}
		if kid == nil || !live(kid.State) || relationsOf(kid).Parent != it.ID || relationsOf(kid).Spawn != r.Spawns {
			continue
		}
		n++
		if err := p.add(p.cancelled(kid, "parent_"+it.State.String(), it.ID)); err != nil {
			return nil, err
		}
	}
	return p.events, nil
}

// maxOutcomeError bounds the error text of one outcome, in bytes.
const maxOutcomeError = 512

// outcomes lists how the children of a spawn ended, for JSON. It becomes part of one
// event, so results are left out once their sum passes MaxOutcomesBytes, and error
// texts beyond as many bytes again.
type outcomes struct{ list []events.Outcome }

// outcomes collects how children ended. kids are the items of ids, nil for one that
// is gone.
func (d *decider) outcomes(ids []events.ID, kids []*events.Item) (*outcomes, error) {
	o := &outcomes{list: make([]events.Outcome, len(ids))}
	results, texts := events.MaxOutcomesBytes, events.MaxOutcomesBytes
	for i, k := range kids {
		out := &o.list[i]
		out.ID = ids[i]
		if k == nil {
			out.Omitted = true
			continue
		}
		out.State = k.State
		if len(ids) > events.MaxWholeSpawn {
			texts -= nameOutcome(out, k, texts)
		} else {
			nameOutcome(out, k, math.MaxInt)
		}
		if k.State == events.StateDead {
			if msg := events.Shorten(k.Error, maxOutcomeError); jsonSize(msg) <= texts {
				out.Error = msg
				texts -= jsonSize(msg)
			}
		}
		if !k.HasResult {
			continue
		}
		doc, err := d.state.Document(events.DocResult, k.ID)
		if err != nil {
			return nil, err
		}
		var n int
		if out.Result, n = compactJSON(doc); n > results || events.JSONDepth(doc) > events.MaxJSONDepth-2 {
			out.Result, out.Omitted = nil, true
			continue
		}
		results -= n
	}
	return o, nil
}

// nameOutcome fills in an outcome's type, reason and code, if they have room in so many
// bytes, and returns how many they take. Few children always have the room.
func nameOutcome(out *events.Outcome, k *events.Item, room int) int {
	code := ""
	if k.State == events.StateDead {
		code = k.Code
	}
	n := jsonSize(string(k.Type)) + jsonSize(k.Reason) + jsonSize(code)
	if n > room {
		return 0
	}
	out.Type, out.Reason, out.Code = k.Type, k.Reason, code
	return n
}

// compactJSON is a document as json.Marshal writes it within another, so that
// nothing rewrites it later, and its length.
func compactJSON(doc []byte) (json.RawMessage, int) {
	var b, escaped bytes.Buffer
	if json.Compact(&b, doc) != nil {
		return nil, events.MaxOutcomesBytes + 1 // never: it was checked when it was reported
	}
	json.HTMLEscape(&escaped, b.Bytes())
	return escaped.Bytes(), escaped.Len()
}

// all is the whole as JSON, with or without the results.
func (o *outcomes) all(results bool) json.RawMessage {
	list := o.list
	if !results {
		list = make([]events.Outcome, len(o.list))
		for i, out := range o.list {
			out.Omitted, out.Result, out.Error = out.Omitted || out.Result != nil, nil, ""
			list[i] = out
		}
	}
	data, err := json.Marshal(list)
	if err != nil {
		panic("outcomes that can't be written as JSON: " + err.Error()) // the results were checked
	}
	return data
}

// result is the whole as the result of an item: without the children's if they
// are too much, nil if it is too much even so.
func (o *outcomes) result() json.RawMessage {
	for _, with := range []bool{true, false} {
		if doc := o.all(with); len(doc) <= events.MaxResultBytes {
			return doc
		}
	}
	return nil
}
