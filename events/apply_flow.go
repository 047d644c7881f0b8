package events

import (
	"slices"
	"time"
)

// The reasons that say how an item came to be as it is, where a repeated report
// must tell them apart. Workers can't give them for a release.
const (
	reasonSnoozed      = "snoozed"
	reasonContinuation = "continuation"
	reasonChildren     = "children"
	reasonChildDead    = "child_dead"
	reasonBatch        = "batch"
	reasonNotSpawned   = "children_not_made"
)

// takeTerms takes over what a submission says beyond the plain.
func (it *Item) takeTerms(t *Terms) {
	if t == nil {
		return
	}
	it.Group, it.ExpiresAt, it.OwnAttempts, it.OwnTimeout = t.Group, t.ExpiresAt, t.OwnAttempts, t.OwnTimeout
	it.DedupWindow = time.Duration(t.DedupWindowMS) * time.Millisecond
	it.Estimate = time.Duration(t.EstimateMS) * time.Millisecond
	if t.ScoreMS != nil {
		it.OrderAt = it.CreatedAt.Add(-time.Duration(*t.ScoreMS) * time.Millisecond)
	}
	if !t.Parent.IsZero() || t.AfterPolicy != "" {
		it.Relations = &Relations{Parent: t.Parent, Spawn: t.Spawn, Policy: t.AfterPolicy}
	}
}

// takesKey reports whether the item, if it is not merged, takes its dedup key:
// it is free then, or taken from its holder.
func (t *Terms) takesKey() bool { return t == nil || t.DedupPolicy != DedupDistinct }

// endedBy notes the item because of which this one has ended.
func (it *Item) endedBy(by ID) {
	if by.IsZero() {
		return
	}
	r := it.relations()
	r.By = by
	it.Relations = &r
}

// foldFlow is fold for the kinds of waiting, spawning and long runs.
func (s *State) foldFlow(e *entry, it *Item, ev Event) error {
	switch b := ev.Body.(type) {
	case *Waiting:
		r := it.relations()
		if len(b.For) > 0 {
			r.Waits, r.Behind = b.For, b.Behind
		}
		if !b.Ended.IsZero() {
			r.Waits = without(r.Waits, b.Ended)
		}
		it.Relations, it.Reason = &r, b.Reason
	case *Spawned:
		return s.foldSpawned(it, b, ev)
	case *Snoozed:
		it.handBack(ev)
		it.AvailableAt, it.Reason = b.AvailableAt, reasonSnoozed
		if b.Reason != "" {
			it.Reason += ": " + b.Reason
		}
	case *Progressed:
		it.Progress = Progress{Percent: b.Percent, Message: b.Message, At: ev.At}
	case *Checkpointed:
		it.HasCheckpoint = true
		s.setDocument(DocCheckpoint, it.ID, b.Checkpoint)
	default:
		return s.corrupt(ev, "this program does not know its kind: use a newer one")
	}
	return nil
}

// handBack ends a run that uses no attempt.
func (it *Item) handBack(ev Event) {
	it.Attempt, it.Worker = ev.Attempt-1, ""
	it.QueuedAt, it.AvailableAt = ev.At, time.Time{}
	it.ClaimedAt, it.StartBy, it.StartedAt, it.Deadline = time.Time{}, time.Time{}, time.Time{}, time.Time{}
}

func (s *State) foldSpawned(it *Item, b *Spawned, ev Event) error {
	if b.Part > 0 {
		return s.foldPart(it, b, ev)
	}
	if b.Batch {
		it.foldBatch(b, ev)
		return nil
	}
	r := it.relations()
	if r.Declared > 0 {
		s.setDocument(DocChildren, it.ID, nil)
	}
	if r.HasChildren {
		s.setDocument(DocOutcomes, it.ID, nil)
	}
	r.Spawns, r.Children, r.Spawned, r.HasChildren = b.Spawn, b.Children, true, false
	r.Live, r.Failed = len(b.Children)-len(b.Existing), 0
	if len(b.Children) == 0 {
		r.Children = nil // not an empty list, which the store doesn't tell from none
	}
	r.Declared, r.Made, r.Part, r.Pending, r.Cancelled = b.Declared, 0, 0, b.Pending, 0
	r.ChildPolicy, r.Continues, r.Continuation = b.ChildPolicy, b.Continues, b.Continuation
	queued := it.QueuedAt
	it.handBack(ev)
	it.Relations, it.Reason, it.QueuedAt = &r, reasonChildren, queued
	return nil
}

// foldContinuation keeps how the children ended for the run that follows.
func (s *State) foldContinuation(it *Item, b *Queued) {
	it.Reason = reasonContinuation
	r := it.relations()
	if b.Outcomes != nil {
		r.HasChildren = true
		s.setDocument(DocOutcomes, it.ID, b.Outcomes)
	}
	it.Relations = &r
}

// foldCompleted lets go of what a further run would have needed.
func (s *State) foldCompleted(it *Item) {
	r := it.Relations
	if r == nil {
		return
	}
	if r.Spawned {
		it.Reason = reasonChildren
	}
	if r.HasChildren {
		c := *r
		c.HasChildren = false
		it.Relations = &c
		s.setDocument(DocOutcomes, it.ID, nil)
	}
}

// without is a copy of ids without one, nil for none.
func without(ids []ID, gone ID) []ID {
	var left []ID
	for _, id := range ids {
		if id != gone {
			left = append(left, id)
		}
	}
	return left
}

// ties are what others know of an item: by comparing them before and after an
// event, whatever it is, the others are kept right.
type ties struct {
	state ItemState
	waits []ID
}

func tiesOf(it *Item) ties {
	t := ties{state: it.State}
	if it.Relations != nil {
		t.waits = it.Relations.Waits
	}
	return t
}

// live reports whether an item in this state is still to end, and has begun.
func (st ItemState) live() bool { return st > StateCreated && !st.Terminal() }

// retie brings what others know of an item, which was so before an event, up to
// date. What is not there any more (it was pruned) is passed over.
func (s *State) retie(it *Item, was ties, at time.Time) error {
	if it.DedupKey != "" {
		if err := s.rekey(it, was.state.live(), at); err != nil {
			return err
		}
	}
	if it.HasCheckpoint && it.State.Terminal() {
		it.HasCheckpoint = false
		s.setDocument(DocCheckpoint, it.ID, nil)
	}
	if it.Relations == nil {
		return nil
	}
	if was.state == StateWaiting && it.State != StateWaiting {
		r := it.relations()
		r.Waits, r.Behind, r.Spawned, r.Pending = nil, ID{}, false, ""
		it.Relations = &r
	}
	if err := s.rewait(it, was.waits); err != nil {
		return err
	}
	if it.State.Terminal() != was.state.Terminal() && !it.Relations.Parent.IsZero() {
		if err := s.tellParent(it, was.state); err != nil {
			return err
		}
	}
	s.noteFollowUp(it)
	return nil
}

// rekey gives an item its dedup key when its life begins, and takes it away
// when that ends.
func (s *State) rekey(it *Item, was bool, at time.Time) error {
	ref := KeyRef{KeyDedup, it.Type, it.DedupKey}
	switch now := it.State.live(); {
	case now && !was:
		return s.takeKey(it, ref, at)
	case was && !now && it.HoldsKey:
		held := HeldKey{Ref: ref, ID: it.ID}
		if it.State == StateCompleted && it.DedupWindow > 0 {
			held.Until = at.Add(it.DedupWindow)
		}
		s.setKey(held, !held.Until.IsZero())
	}
	if it.State.Terminal() {
		it.HoldsKey = false
	}
	return nil
}

// takeKey makes an item the holder of its key, as its HoldsKey says: from then
// on a former holder is none. What the key is here says that too, but not in a
// log that has been cut, whose reader may not know the holder yet. Without it a
// free key is taken all the same: a log from before dedup_policy had to say so
// has items whose policy is distinct and which hold their keys.
func (s *State) takeKey(it *Item, ref KeyRef, at time.Time) error {
	held, has, err := s.Key(ref, at)
	if err != nil {
		return err
	}
	taken := has && held.Until.IsZero() && held.ID != it.ID
	if !it.HoldsKey && (taken || s.meta.Partial) {
		return nil
	}
	if taken || has && s.actorBase < s.meta.RoundAt { // who misses this event would leave the key to its window
		other, err := s.other(held.ID)
		if err != nil {
			return err
		}
		if other != nil {
			other.HoldsKey = false
		}
	}
	it.HoldsKey = true
	s.setKey(HeldKey{Ref: ref, ID: it.ID}, true)
	return nil
}

// other returns another item than the event's for writing, nil if it is not
// there.
func (s *State) other(id ID) (*Item, error) {
	e, err := s.entry(id)
	if e == nil || err != nil {
		return nil, err
	}
	it := s.writable(e)
	s.touch(e, s.meta.Applied)
	return it, nil
}

// rewait notes what an item waits for no longer, and what it waits for now.
func (s *State) rewait(it *Item, was []ID) error {
	now := it.Relations.Waits
	if slices.Equal(was, now) {
		return nil
	}
	had := make(map[ID]bool, len(was))
	for _, of := range was {
		had[of] = true
	}
	for _, of := range now {
		if had[of] {
			delete(had, of)
			continue
		}
		if err := s.await(of, it.ID, +1); err != nil {
			return err
		}
	}
	for _, of := range was {
		if !had[of] {
			continue
		}
		if err := s.await(of, it.ID, -1); err != nil {
			return err
		}
	}
	return nil
}

// await notes that an item is waited for by one more, or one less.
func (s *State) await(of, by ID, n int) error {
	s.setWait(of, by, n > 0)
	up, err := s.other(of)
	if up == nil || err != nil {
		return err
	}
	r := up.relations()
	r.Awaited += n
	up.Relations = &r
	s.noteFollowUp(up)
	return nil
}

// tellParent counts a child's end, or that it is live again. Such a one counts
// for its parent only if that still waits for it.
func (s *State) tellParent(it *Item, was ItemState) error {
	p, err := s.entry(it.Relations.Parent)
	if p == nil || err != nil {
		return err
	}
	pr := p.cur.relations()
	if pr.Spawns != it.Relations.Spawn {
		if s.actorBase < s.meta.RoundAt { // who knows less of the item may count it all the same
			s.writable(p)
			s.touch(p, s.meta.Applied)
		}
		return nil
	}
	ended := it.State.Terminal()
	if !ended {
		if err := s.leans(it, p.id); err != nil {
			return err
		}
	}
	if !ended && !(p.cur.State == StateWaiting && pr.Spawned) {
		r := it.relations()
		r.Spawn = 0
		it.Relations = &r
		return nil
	}
	n, st := 1, was
	if ended {
		n, st = -1, it.State
	}
	pr.Live += n
	if st == StateDead || st == StateCancelled {
		pr.Failed -= n
	}
	if st == StateCancelled && pr.InParts() { // older ones don't tell them apart
		pr.Cancelled -= n
	}
	parent := s.writable(p)
	s.touch(p, s.meta.Applied)
	parent.Relations = &pr
	s.noteFollowUp(parent)
	return nil
}
