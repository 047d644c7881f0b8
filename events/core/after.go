package core

import (
	"cmp"
	"slices"

	"github.com/streamwright/streamwright/events"
)

// upstream holds the items that a submission comes after.
type upstream struct {
	waits []events.ID  // have not ended; each once, in the order given
	bad   *events.Item // the first that has ended badly; nil for none
}

func (s *submission) upstream() (upstream, error) {
	var up upstream
	seen := make(map[events.ID]bool, len(s.c.After))
	for _, id := range s.c.After {
		it, err := s.canonical(id)
		if err != nil {
			return up, err
		}
		if it == nil {
			return up, events.Refuse(events.CodeNotFound, "there is no item %s to come after: check the id, and submit what comes first before", id)
		}
		if seen[it.ID] {
			continue
		}
		seen[it.ID] = true
		switch {
		case live(it.State):
			if blocked, err := s.waitsForParent(it.ID); err != nil {
				return up, err
			} else if blocked {
				return up, events.Refuse(events.CodeBadRequest, "the item can't come after %s, which waits for its parent %s: they would wait for each other for ever", it.ID, s.parent.ID)
			}
			up.waits = append(up.waits, it.ID)
		case endedBadly(it) && up.bad == nil:
			up.bad = it
		}
	}
	return up, nil
}

// tellWaiters tells items that wait for one that it has ended.
func (FollowUp) tellWaiters(d *decider, up *events.Item) ([]events.Event, error) {
	ids, err := d.state.Waiters(up.ID, events.ID{}, followUpPage)
	if err != nil {
		return nil, err
	}
	p, err := d.plan()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		it, err := p.state.Item(id)
		if err != nil {
			return nil, err
		}
		if it == nil || it.State != events.StateWaiting || !slices.Contains(relationsOf(it).Waits, up.ID) {
			continue
		}
		if err := p.add(p.upstreamEnded(it, up)...); err != nil {
			return nil, err
		}
	}
	return p.events, nil
}

// upstreamEnded decides what an item does when up, which it waits for, has ended.
func (d *decider) upstreamEnded(it, up *events.Item) []events.Event {
	r := relationsOf(it)
	bad := endedBadly(up) && r.Behind != up.ID
	left := len(r.Waits) - 1
	ended := d.event(it, &events.Waiting{Reason: it.Reason, Ended: up.ID, Left: left})
	switch {
	case r.Spawned && bad && r.ChildPolicy != events.ChildContinue:
		return d.childDead(it, up)
	case r.Spawned:
		return []events.Event{ended}
	case bad && r.Policy != events.AfterRun:
		return d.badEnd(it, up, cmp.Or(r.Policy, events.AfterCancel))
	case left > 0:
		return []events.Event{ended}
	}
	return []events.Event{d.event(it, d.freed(it, "after"))}
}

// endedBadly reports whether an ended item counts as failed for the items that come
// after it: a batch does when one of its items has failed.
func endedBadly(it *events.Item) bool {
	r := relationsOf(it)
	return it.State != events.StateCompleted || r.Batch && r.Failed > 0
}

// badEnd ends an item because up, which it waits for, has ended badly.
func (d *decider) badEnd(it, up *events.Item, policy events.AfterPolicy) []events.Event {
	reason, how := events.UpstreamReason(up.State), "is "+up.State.String()
	if up.State == events.StateCompleted {
		how = "is a batch with items that have failed"
	}
	if policy == events.AfterDead {
		return d.dead(it, &events.Dead{Reason: reason, Attempts: it.Attempt, Error: "item " + up.ID.String() + ", which it comes after, " + how, By: up.ID})
	}
	return []events.Event{d.cancelled(it, reason, up.ID)}
}

// freed queues an item that has waited: behind the items that are queued already,
// unless its place was settled before.
func (d *decider) freed(it *events.Item, reason string) *events.Queued {
	q := &events.Queued{Reason: reason, OrderAt: d.now}
	if at := it.AvailableAt.Add(-d.tooLate(it.WaitsFrom)); at.After(d.now) {
		q.AvailableAt, q.OrderAt = at, at
	}
	if !it.OrderAt.IsZero() {
		q.OrderAt = it.OrderAt
	}
	return q
}

// maxBlockWalk bounds the items that waitsForParent looks at. Beyond it, the
// answer is yes.
const maxBlockWalk = 2000

// waitsForParent reports whether an item is the parent of what is submitted, or
// waits for that parent, directly or through others. The submission must not wait
// for it: they would wait for each other for ever. Only a spawn can close such a
// ring, since nothing waits yet for any other submission.
func (d *decider) waitsForParent(id events.ID) (bool, error) {
	if d.parent == nil {
		return false, nil
	}
	seen := map[events.ID]bool{id: true}
	for queue := []events.ID{id}; len(queue) > 0; queue = queue[1:] {
		if queue[0] == d.parent.ID || len(seen) > maxBlockWalk {
			return true, nil
		}
		it, err := d.state.Item(queue[0])
		if err != nil {
			return false, err
		}
		if it == nil || it.State != events.StateWaiting {
			continue
		}
		r := relationsOf(it)
		next := r.Waits
		if r.Spawned && r.InParts() { // not listed here: only the way up is looked at
			if below, err := d.parentIsBelow(it.ID); below || err != nil {
				return true, err
			}
		}
		if r.Spawned {
			next = slices.Concat(next, r.Children)
		}
		for _, n := range next {
			if !seen[n] {
				seen[n] = true
				queue = append(queue, n)
			}
		}
	}
	return false, nil
}

// maxParents bounds the items that are looked at above one.
const maxParents = 100

// parentIsBelow reports whether an item has spawned the parent of what is
// submitted, through however many others.
func (d *decider) parentIsBelow(id events.ID) (bool, error) {
	at := d.parent
	for range maxParents {
		up := relationsOf(at).Parent
		if up.IsZero() || up == id {
			return up == id, nil
		}
		var err error
		if at, err = d.state.Item(up); at == nil || err != nil {
			return false, err
		}
	}
	return true, nil
}
