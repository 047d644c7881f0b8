package core

import (
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
)

// The reasons that say how an item came to be as it is, where a repeated report
// must tell them apart. Workers can't give them for a release.
const (
	reasonSnoozed      = "snoozed"
	reasonContinuation = "continuation"
	reasonChildren     = "children"
	reasonBatch        = "batch"
)

// takeTerms takes over what a submission says beyond the plain.
func takeTerms(it *events.Item, t *events.SubmitOptions) {
	if t == nil {
		return
	}
	it.Group, it.ExpiresAt, it.OwnAttempts, it.OwnTimeout = t.Group, t.ExpiresAt, t.OwnAttempts, t.OwnTimeout
	it.DedupWindow = t.DedupWindow.Duration
	it.Estimate = t.Estimate.Duration
	if t.Score != nil {
		it.OrderAt = it.CreatedAt.Add(-t.Score.Duration)
	}
	if !t.Parent.IsZero() || t.AfterPolicy != "" {
		it.Relations = &events.Relations{Parent: t.Parent, Spawn: t.Spawn, Policy: t.AfterPolicy}
	}
}

// endedBy notes the item because of which this one has ended.
func endedBy(it *events.Item, by events.ID) {
	if !by.IsZero() {
		ownRelations(it).By = by
	}
}

func foldWaiting(_ *applier, _ *entry, it *events.Item, b *events.Waiting) error {
	it.Reason = b.Reason
	r := ownRelations(it)
	if len(b.For) > 0 {
		r.Waits, r.Behind = b.For, b.Behind
	}
	if !b.Ended.IsZero() {
		r.Waits = minus(r.Waits, []events.ID{b.Ended})
	}
	return nil
}

func foldSnoozed(a *applier, _ *entry, it *events.Item, b *events.Snoozed) error {
	handBack(it, a.ev)
	putOff(it, b.AvailableAt, a.ev.At)
	it.Reason = reasonSnoozed
	if b.Reason != "" {
		it.Reason += ": " + b.Reason
	}
	return nil
}

func foldProgressed(a *applier, _ *entry, it *events.Item, b *events.Progressed) error {
	it.Progress = events.Progress{Percent: b.Percent, Message: b.Message, At: a.ev.At}
	return nil
}

func foldCheckpointed(a *applier, _ *entry, it *events.Item, b *events.Checkpointed) error {
	it.HasCheckpoint = true
	a.setDocument(events.DocCheckpoint, it.ID, b.Checkpoint)
	return nil
}

// handBack ends a run that uses no attempt.
func handBack(it *events.Item, ev events.Event) {
	it.Attempt, it.Worker = ev.Attempt-1, ""
	it.QueuedAt = ev.At
	putOff(it, time.Time{}, time.Time{})
	it.ClaimedAt, it.StartBy, it.StartedAt, it.Deadline = time.Time{}, time.Time{}, time.Time{}, time.Time{}
}

func foldSpawned(a *applier, _ *entry, it *events.Item, b *events.Spawned) error {
	if b.Part > 0 {
		return a.foldPart(it, b)
	}
	if b.Batch {
		foldBatch(it, b, a.ev)
		return nil
	}
	if err := a.useSignals(it); err != nil {
		return err
	}
	r := ownRelations(it)
	if r.Declared > 0 {
		a.setDocument(events.DocChildren, it.ID, nil)
	}
	if r.HasChildren {
		a.setDocument(events.DocOutcomes, it.ID, nil)
	}
	r.Spawns, r.Children, r.Spawned, r.HasChildren = b.Spawn, b.Children, true, false
	r.Live, r.Failed = len(b.Children)-len(b.Existing), 0
	if len(b.Children) == 0 {
		r.Children = nil // not an empty list, which the store doesn't tell from none
	}
	r.Declared, r.Made, r.Part, r.Pending, r.Cancelled = b.Declared, 0, 0, b.Pending, 0
	r.ChildPolicy, r.Continues, r.Continuation = b.ChildPolicy, b.Continues, b.Continuation
	queued := it.QueuedAt
	handBack(it, a.ev)
	it.Reason, it.QueuedAt = reasonChildren, queued
	return nil
}

// foldContinuation keeps how the children ended for the run that follows.
func (a *applier) foldContinuation(it *events.Item, b *events.Queued) {
	it.Reason = reasonContinuation
	r := ownRelations(it)
	if b.Outcomes != nil {
		r.HasChildren = true
		a.setDocument(events.DocOutcomes, it.ID, b.Outcomes)
	}
}

// dropOutcomes lets go of what a further run would have needed.
func (a *applier) dropOutcomes(it *events.Item) {
	r := it.Relations
	if r == nil {
		return
	}
	if r.Spawned {
		it.Reason = reasonChildren
	}
	if r.HasChildren {
		ownRelations(it).HasChildren = false
		a.setDocument(events.DocOutcomes, it.ID, nil)
	}
}

// before holds the fields of an item from before an event. Comparing them with the
// item keeps the counts of items, and what other items know of this one, right
// whatever the event was.
type before struct {
	state  events.ItemState
	waits  []events.ID
	worker events.WorkerID
	probe  bool
}

func beforeOf(it *events.Item) before {
	b := before{state: it.State, worker: it.Worker, probe: it.Probe}
	if it.Relations != nil {
		b.waits = it.Relations.Waits
	}
	return b
}

// running reports whether an item in this state has a run.
func running(st events.ItemState) bool {
	return st == events.StateClaimed || st == events.StateRunning
}

// live reports whether an item in this state is still to end, and has begun.
func live(st events.ItemState) bool { return st > events.StateCreated && !st.Terminal() }

// retie updates what other items know of an item after an event; was holds its fields
// from before. Items that are gone (pruned) are passed over.
func (a *applier) retie(it *events.Item, was before, at time.Time) error {
	if it.DedupKey != "" {
		if err := a.rekey(it, live(was.state), at); err != nil {
			return err
		}
	}
	if it.HasCheckpoint && it.State.Terminal() {
		it.HasCheckpoint = false
		a.setDocument(events.DocCheckpoint, it.ID, nil)
	}
	if s := it.Signals; s != nil && s.Wait != nil && s.Wait.Ended == "" && it.State != events.StateWaiting {
		ownSignals(it).Wait = nil
	}
	if it.Relations == nil {
		return nil
	}
	if was.state == events.StateWaiting && it.State != events.StateWaiting {
		r := ownRelations(it)
		r.Waits, r.Behind, r.Spawned, r.Pending = nil, events.ID{}, false, ""
	}
	if err := a.rewait(it, was.waits); err != nil {
		return err
	}
	if it.State.Terminal() != was.state.Terminal() && !it.Relations.Parent.IsZero() {
		if err := a.tellParent(it, was.state); err != nil {
			return err
		}
	}
	a.noteFollowUp(it)
	return nil
}

// rekey gives an item its dedup key when its life begins, and takes it away
// when that ends.
func (a *applier) rekey(it *events.Item, was bool, at time.Time) error {
	ref := events.KeyRef{Kind: events.KeyDedup, Type: it.Type, Key: it.DedupKey}
	switch now := live(it.State); {
	case now && !was:
		return a.takeKey(it, ref, at)
	case was && !now && it.HoldsKey:
		held := events.HeldKey{Ref: ref, ID: it.ID}
		if it.State == events.StateCompleted && it.DedupWindow > 0 {
			held.Until = at.Add(it.DedupWindow)
		}
		a.setKey(held, !held.Until.IsZero())
	}
	if it.State.Terminal() {
		it.HoldsKey = false
	}
	return nil
}

// takeKey makes an item the holder of its key, as its HoldsKey says: a former holder
// loses it. The state of the key would show that too, except in a log that has been
// cut, whose reader may not know the holder yet. Without HoldsKey a free key is taken
// all the same: in logs from before dedup_policy was always recorded, items with the
// policy distinct hold their keys.
func (a *applier) takeKey(it *events.Item, ref events.KeyRef, at time.Time) error {
	held, has, err := a.Key(ref, at)
	if err != nil {
		return err
	}
	taken := has && held.Until.IsZero() && held.ID != it.ID
	if !it.HoldsKey && (taken || a.meta.Partial) {
		return nil
	}
	if taken || has && a.unseen() { // who misses this event would leave the key to its window
		other, err := a.other(held.ID)
		if err != nil {
			return err
		}
		if other != nil {
			other.HoldsKey = false
		}
	}
	it.HoldsKey = true
	a.setKey(events.HeldKey{Ref: ref, ID: it.ID}, true)
	return nil
}

// other returns another item than the event's for writing, nil if it is not
// there.
func (a *applier) other(id events.ID) (*events.Item, error) {
	e, err := a.entry(id)
	if e == nil || err != nil {
		return nil, err
	}
	it := a.writable(e)
	a.touch(e, a.meta.Applied)
	return it, nil
}

// rewait notes what an item waits for no longer, and what it waits for now.
func (a *applier) rewait(it *events.Item, was []events.ID) error {
	now := it.Relations.Waits
	if slices.Equal(was, now) {
		return nil
	}
	for _, of := range minus(now, was) {
		if err := a.await(of, it.ID, +1); err != nil {
			return err
		}
	}
	for _, of := range minus(was, now) {
		if err := a.await(of, it.ID, -1); err != nil {
			return err
		}
	}
	return nil
}

// minus returns the ids that are not among others, nil for none.
func minus(ids, others []events.ID) (left []events.ID) {
	gone := make(map[events.ID]bool, len(others))
	for _, id := range others {
		gone[id] = true
	}
	for _, id := range ids {
		if !gone[id] {
			left = append(left, id)
		}
	}
	return left
}

// await notes that an item is waited for by one more, or one less.
func (a *applier) await(of, by events.ID, n int) error {
	a.setWait(of, by, n > 0)
	up, err := a.other(of)
	if up == nil || err != nil {
		return err
	}
	ownRelations(up).Awaited += n
	a.noteFollowUp(up)
	return nil
}

// tellParent counts a child's end, or that it is live again. Such a one counts
// for its parent only if that still waits for it.
func (a *applier) tellParent(it *events.Item, was events.ItemState) error {
	p, err := a.entry(it.Relations.Parent)
	if p == nil || err != nil {
		return err
	}
	pr := relationsOf(p.cur)
	if pr.Spawns != it.Relations.Spawn {
		if a.unseen() { // who knows less of the item may count it all the same
			a.writable(p)
			a.touch(p, a.meta.Applied)
		}
		return nil
	}
	ended := it.State.Terminal()
	if !ended {
		if err := a.dependsOn(it, p.id); err != nil {
			return err
		}
	}
	if !ended && !(p.cur.State == events.StateWaiting && pr.Spawned) {
		ownRelations(it).Spawn = 0
		return nil
	}
	n, st := 1, was
	if ended {
		n, st = -1, it.State
	}
	pr.Live += n
	if st == events.StateDead || st == events.StateCancelled {
		pr.Failed -= n
	}
	if st == events.StateCancelled && pr.InParts() { // older ones don't tell them apart
		pr.Cancelled -= n
	}
	parent := a.writable(p)
	a.touch(p, a.meta.Applied)
	parent.Relations = &pr
	a.noteFollowUp(parent)
	return nil
}

// msgID is the key of the message that the item came with.
func msgID(it *events.Item) events.KeyRef {
	return events.KeyRef{Kind: events.KeyMsgID, Type: it.Type, Key: it.MsgID}
}

// allKeys returns the keys that can lead to the item.
func allKeys(it *events.Item) []events.KeyRef {
	refs := keyRefs(it)
	if it.MsgID != "" {
		refs = append(refs, msgID(it))
	}
	return refs
}

// keyRefs returns the keys that the submitter chose for the item.
func keyRefs(it *events.Item) (refs []events.KeyRef) {
	if it.DedupKey != "" {
		refs = append(refs, events.KeyRef{Kind: events.KeyDedup, Type: it.Type, Key: it.DedupKey})
	}
	if it.IdempotencyKey != "" {
		refs = append(refs, events.KeyRef{Kind: events.KeyIdempotency, Type: it.Type, Key: it.IdempotencyKey})
	}
	return refs
}

// ownRelations gives the item, which is written, a copy of its relations, since
// the copy that it had may be another's too.
func ownRelations(it *events.Item) *events.Relations {
	r := relationsOf(it)
	it.Relations = &r
	return &r
}

// relationsOf returns a copy of the item's relations, the zero value for none.
func relationsOf(it *events.Item) events.Relations {
	if it.Relations == nil {
		return events.Relations{}
	}
	return *it.Relations
}
