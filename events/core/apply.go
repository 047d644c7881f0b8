package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/policy"
)

// Frame prepares for the events of a frame, by an owner's epoch, before which the log
// has so many events. It reports false for a frame to be passed over: see
// [events.Meta.PassesOver]. It errs, with an error that wraps [events.ErrCorrupt], if
// events are missing.
func (s *State) Frame(seq uint64, by events.Epoch, before uint64) (bool, error) {
	m := events.Meta{Applied: s.meta.Applied, Epoch: max(s.meta.Epoch, s.newest)}
	switch {
	case m.PassesOver(seq, by):
		s.stale = append(s.stale, seq)
		return false, nil
	case s.meta.Applied == 0:
		s.meta.Events = before
	case s.meta.Events != before:
		return false, fmt.Errorf("frame %d: %w: the log has %d events before it, and %d are known", seq, events.ErrCorrupt, before, s.meta.Events)
	}
	s.newest = by
	return true, nil
}

// noteStale records the frames that were passed over before the event that is applied now.
func (a *applier) noteStale() error {
	if len(a.meta.Stale)+len(a.stale) > maxStale {
		return a.corrupt("%d frames since the log was last cut are of owners that had been succeeded: the log takes in what it must refuse", len(a.meta.Stale)+len(a.stale))
	}
	a.meta.Stale = slices.Concat(a.meta.Stale, a.stale)
	a.stale = nil
	return nil
}

// Apply folds one event in. Its Seq must lie behind the last one applied. It errs, with
// an error that wraps [events.ErrCorrupt], when the event can't have been decided in
// this state; with an [*events.NewerError] when the log has a format level above
// what the state reads; and with the base's own error when that can't be read.
//
// After an error the state is of no use any more: load it anew, or stop.
//
// It is the only way in which the state changes: live, at a restart, in a
// follower, and in a rebuild.
func (s *State) Apply(ev events.Event) error {
	a := &s.applier
	*a = applier{State: s, ev: ev, base: ev.Seq, lastAt: s.meta.LastAt}
	if ev.Seq <= s.meta.Applied {
		return a.corrupt("it lies behind event %d", s.meta.Applied)
	}
	if ev.Body == nil {
		return a.corrupt("this program does not know its kind: use a newer one")
	}
	if k := ev.Body.Kind(); k != ev.Kind {
		return a.corrupt("it has the payload of %s", k)
	}
	if len(s.stale) > 0 {
		if err := a.noteStale(); err != nil {
			return err
		}
	}
	s.changed = true
	s.meta.Applied = ev.Seq
	s.meta.Events++
	if ev.At.After(a.lastAt) {
		s.meta.LastAt = ev.At
		if ev.At.After(s.meta.Ahead) {
			s.meta.Ahead = time.Time{}
		}
	}
	if err := a.mayRead(); err != nil {
		return err
	}
	f := &folds[ev.Kind]
	if s.meta.Partial {
		if skip, err := a.skips(f); skip || err != nil {
			return err
		}
	}
	if f.apply != nil {
		return f.apply(a)
	}
	return a.applyToItem(f.item)
}

// applier folds one event into the state.
type applier struct {
	*State
	ev     events.Event
	base   events.Seq // the BaseSeq of the event's item; of one that is new, the event's position
	lastAt time.Time  // Meta.LastAt before the event
}

// fold says what events of a kind do to the state.
type fold struct {
	// item folds the payload into the event's item, whose state follows the
	// transition table. A nil item changes nothing else.
	item func(*applier, *entry, *events.Item) error
	// apply, if set, does all there is to do in its place.
	apply func(*applier) error
	// restated says that the end of a round states in full what such an event
	// changes. Until then, who reads a log that has been cut passes it over.
	restated bool
}

// folds has the fold of each kind.
var folds = [events.NumKinds]fold{
	events.KindCreated:      whole(applyCreated),
	events.KindMerged:       onItem(foldMerged),
	events.KindQueued:       onItem(foldQueued),
	events.KindClaimed:      onItem(foldClaimed),
	events.KindRunning:      onItem(foldRunning),
	events.KindCompleted:    onItem(foldCompleted),
	events.KindFailed:       onItem(foldFailed),
	events.KindDead:         onItem(foldDead),
	events.KindCancelled:    onItem(foldCancelled),
	events.KindSpawned:      onItem(foldSpawned),
	events.KindWaiting:      onItem(foldWaiting),
	events.KindReleased:     onItem(foldReleased),
	events.KindSnoozed:      onItem(foldSnoozed),
	events.KindProgressed:   onItem(foldProgressed),
	events.KindCheckpointed: onItem(foldCheckpointed),
	events.KindRescheduled:  onItem(foldRescheduled),
	events.KindReplayed:     onItem(foldReplayed),
	events.KindParked:       onItem(foldParked),
	events.KindSignalled:    onItem(foldSignalled),
	events.KindTokenGiven:   onItem(foldTokenGiven),
	events.KindReminded:     onItem(foldReminded),

	events.KindRejected:       whole(applyRejected),
	events.KindRejectedPurged: whole(applyRejectedPurged),
	events.KindOwned:          whole(applyOwned),
	events.KindTypeConfigured: whole(applyTypeConfigured),
	events.KindTypeForgotten:  whole(applyTypeForgotten),
	events.KindFormatRaised:   whole(applyFormatRaised),
	events.KindSnapshot:       whole(applySnapshot),
	events.KindCarried:        whole(applyCarried),
	events.KindPruned:         whole(applyPruned),

	events.KindPaused:            restated(applyPaused),
	events.KindResumed:           restated(applyResumed),
	events.KindCircuitOpened:     restated(applyCircuit[*events.CircuitOpened]),
	events.KindCircuitHalfOpened: restated(applyCircuit[*events.CircuitHalfOpened]),
	events.KindCircuitClosed:     restated(applyCircuit[*events.CircuitClosed]),
	events.KindScheduleSet:       restated(applyScheduleSet),
	events.KindScheduleRemoved:   restated(applyScheduleRemoved),
	events.KindScheduleFired:     restated(applyScheduleFired),
	events.KindCauseNoted:        restated(applyCauseNoted),
	events.KindDrainSet:          restated(applyDrainSet),
	events.KindDrainEnded:        restated(applyDrainEnded),
	events.KindNamespaceSet:      restated(applyNamespaceSet),
	events.KindNamespaceRemoved:  restated(applyNamespaceRemoved),
}

func onItem[B events.Body](f func(*applier, *entry, *events.Item, B) error) fold {
	return fold{item: func(a *applier, e *entry, it *events.Item) error { return f(a, e, it, a.ev.Body.(B)) }}
}

func whole[B events.Body](f func(*applier, B) error) fold {
	return fold{apply: func(a *applier) error { return f(a, a.ev.Body.(B)) }}
}

func restated[B events.Body](f func(*applier, B) error) fold {
	r := whole(f)
	r.restated = true
	return r
}

func (a *applier) corrupt(format string, args ...any) error {
	return fmt.Errorf("apply event %d (%s of %s): %w: %s", a.ev.Seq, a.ev.Kind, a.ev.ID, events.ErrCorrupt, fmt.Sprintf(format, args...))
}

func applyCreated(a *applier, b *events.Created) error {
	if e, err := a.entry(a.ev.ID); err != nil {
		return err
	} else if e != nil {
		return a.corrupt("the item exists")
	}
	it := &events.Item{
		ID: a.ev.ID, Type: a.ev.Type, State: events.StateCreated, Priority: b.Priority,
		MaxAttempts: b.MaxAttempts, Timeout: b.Timeout.Duration,
		DedupKey: b.DedupKey, IdempotencyKey: b.IdempotencyKey, Capabilities: b.Capabilities,
		Tenant: b.Tenant, Labels: b.Labels, Provenance: b.Provenance, SubmittedBy: a.ev.By, Trace: b.Trace, Digest: b.Digest,
		IntakeSeq: b.Intake.Seq, MsgID: b.Intake.MsgID, AvailableAt: b.AvailableAt, CreatedAt: a.ev.At, CreatedSeq: a.ev.Seq, BaseSeq: a.ev.Seq, Seq: a.ev.Seq,
	}
	if b.Delayed {
		it.WaitsFrom = a.ev.At
	}
	takeTerms(it, b.SubmitOptions)
	if err := a.joinBatch(it); err != nil {
		return err
	}
	a.insert(it, b.Params)
	a.setDocument(events.DocParams, a.ev.ID, b.Params)
	a.record()
	a.count(it, +1)
	// An item that is not merged takes its key, which is free or taken from its holder.
	it.HoldsKey = b.DedupKey != "" && (b.SubmitOptions == nil || b.DedupPolicy != events.DedupDistinct)
	if b.IdempotencyKey != "" {
		a.setKey(events.HeldKey{Ref: events.KeyRef{Kind: events.KeyIdempotency, Type: a.ev.Type, Key: b.IdempotencyKey}, ID: a.ev.ID, Until: b.IdempotencyUntil, Digest: contentDigest(a.ev.Type, b)}, true)
	}
	if b.SubmitOptions != nil {
		a.applyRates(a.ev.Type, b.Rates)
	}
	if b.Intake.MsgID != "" {
		if at := b.Intake.MsgIDUntil.Add(-events.MsgIDWindow); at.After(a.meta.MsgIDAt) {
			a.meta.MsgIDAt = at
		}
		a.setKey(events.HeldKey{Ref: msgID(it), ID: a.ev.ID, Until: b.Intake.MsgIDUntil}, true)
	}
	a.applyIntake(b.Intake)
	return nil
}

// applyIntake moves the position of the intake, or of a site, on.
func (a *applier) applyIntake(in events.Intake) { a.meta.Answer(in) }

func applyOwned(a *applier, b *events.Owned) error {
	if b.Epoch < a.meta.Epoch || (b.Epoch == a.meta.Epoch && !b.Barrier) {
		return a.corrupt("epoch %d after %d", b.Epoch, a.meta.Epoch)
	}
	a.meta.Epoch, a.meta.Owner = b.Epoch, b.Owner
	if !b.Barrier {
		a.meta.RoundAt = 0 // the round of another owner is never ended
	}
	if b.Clock != nil && a.ev.At.Before(a.lastAt) {
		a.setBack()
	}
	return nil
}

func applyTypeConfigured(a *applier, b *events.TypeConfigured) error {
	t := a.typeOf(a.ev.Type)
	if t.info.Settings.Circuit != b.Settings.Circuit && t.info.Circuit.State == events.CircuitShut {
		t.info.Circuit = policy.Cleared(t.info.Circuit) // what was counted by the old ones is of no use
	}
	t.info.Settings, t.info.Source = b.Settings, b.Source
	return nil
}

// applyToItem moves an item along the transition table.
func (a *applier) applyToItem(fold func(*applier, *entry, *events.Item) error) error {
	e, err := a.entry(a.ev.ID)
	if err != nil {
		return err
	}
	if e == nil {
		return a.corrupt("there is no such item")
	}
	next, ok := events.Next(e.cur.State, a.ev.Kind)
	if !ok {
		return a.corrupt("the item is %s", e.cur.State)
	}
	if a.ev.Type != e.cur.Type {
		return a.corrupt("it is of type %q, the item of type %q", a.ev.Type, e.cur.Type)
	}
	a.base = e.cur.BaseSeq
	it := a.writable(e)
	was := beforeOf(it)
	a.count(it, -1)
	it.State, it.Seq = next, a.ev.Seq
	if err := fold(a, e, it); err != nil {
		return err
	}
	a.count(it, +1)
	a.followRun(was, it)
	if err := a.countRuns(it, was); err != nil {
		return err
	}
	a.record()
	a.touch(e, a.ev.Seq)
	return a.retie(it, was, a.ev.At)
}

func foldQueued(a *applier, _ *entry, it *events.Item, b *events.Queued) error {
	it.QueuedAt, it.OrderAt, it.Reason = a.ev.At, b.OrderAt, ""
	if !b.AvailableAt.Equal(it.AvailableAt) {
		putOff(it, b.AvailableAt, a.ev.At)
	}
	it.Worker = ""
	if b.Timeout.Duration > 0 {
		it.Timeout = b.Timeout.Duration
	}
	switch {
	case b.Reason == reasonContinuation:
		a.foldContinuation(it, b)
	case isWaitEnd(b.Reason):
		it.Reason = b.Reason
		endWait(it, events.WaitEnd(b.Reason), b.Signals)
		return a.unanswered(it)
	}
	return nil
}

// putOff has an item wait until at, counted from a moment; zero: somebody named at.
func putOff(it *events.Item, at, from time.Time) {
	if it.AvailableAt, it.WaitsFrom = at, from; at.IsZero() {
		it.WaitsFrom = time.Time{}
	}
}

func foldClaimed(a *applier, _ *entry, it *events.Item, b *events.Claimed) error {
	a.applyRates(it.Type, b.Rates)
	it.Attempt, it.Worker, it.Token, it.Reason, it.Progress = a.ev.Attempt, a.ev.Worker, b.Token, "", events.Progress{}
	it.ClaimedAt, it.StartBy, it.StartedAt, it.Deadline = a.ev.At, b.StartBy, time.Time{}, time.Time{}
	if !b.DeliveredAt.IsZero() {
		it.ClaimedAt = b.DeliveredAt
	}
	return nil
}

func foldRunning(a *applier, _ *entry, it *events.Item, b *events.Running) error {
	it.StartedAt, it.Deadline = a.ev.At, b.Deadline
	hasStarted(it)
	if it.Worker.Ack() {
		it.StartedAt = it.ClaimedAt
	}
	return nil
}

// hasStarted notes that an item has started: it no longer expires, whatever becomes
// of its runs.
func hasStarted(it *events.Item) { it.ExpiresAt = time.Time{} }

func foldCompleted(a *applier, e *entry, it *events.Item, b *events.Completed) error {
	it.FinishedAt, it.HasResult, it.Reason = a.ev.At, b.Result != nil, ""
	if b.TimedOut {
		it.Reason = string(events.WaitTimedOut)
	}
	a.dropOutcomes(it)
	if err := a.useSignals(it); err != nil {
		return err
	}
	if b.Result != nil {
		a.setDocument(events.DocResult, it.ID, b.Result)
	}
	a.dropParams(e)
	return a.ended(it)
}

func foldFailed(_ *applier, _ *entry, it *events.Item, b *events.Failed) error {
	it.Error, it.Code, it.Retryable = b.Error, b.Code, b.Retryable
	if !it.StartedAt.IsZero() || b.Code != events.FailLeaseExpired { // its worker may report a failure without the start
		hasStarted(it)
	}
	it.MaxAttempts = b.MaxAttempts
	if b.Spared {
		it.Spared++
	}
	return nil
}

func foldDead(a *applier, e *entry, it *events.Item, b *events.Dead) error {
	it.Reason, it.FinishedAt = b.Reason, a.ev.At
	if b.Error != "" || b.Code != "" {
		it.Error, it.Code = b.Error, b.Code
	}
	endedBy(it, b.By)
	a.causes.died(it, b, a.ev.At)
	a.dropParams(e)
	return a.ended(it)
}

func foldReleased(a *applier, _ *entry, it *events.Item, b *events.Released) error {
	handBack(it, a.ev)
	it.Reason = b.Reason
	return nil
}

// foldMerged tells the canonical item of one that has become part of it.
func foldMerged(a *applier, _ *entry, it *events.Item, b *events.Merged) error {
	it.MergedInto, it.Reason, it.FinishedAt = b.Into, b.Reason, a.ev.At
	into, err := a.entry(b.Into)
	if err != nil {
		return err
	}
	if into == nil && a.meta.Partial {
		return nil // it is carried later
	}
	if into == nil || b.Into == it.ID {
		return a.corrupt("it is merged into %s, which is itself or does not exist", b.Into)
	}
	a.writable(into).MergedCount++
	into.cur.Seq = a.ev.Seq
	a.touch(into, a.ev.Seq)
	a.meta.Merges++
	a.merged = append(a.merged, events.MergedEntry{Into: b.Into, Seq: a.ev.Seq, ID: it.ID, At: a.ev.At, Provenance: it.Provenance})
	return nil
}

// dropParams lets go of what only a dispatch needs, if it can be had again.
func (a *applier) dropParams(e *entry) {
	if max(e.cur.CreatedSeq, e.cur.BaseSeq, e.paramsAt) > a.projected {
		return
	}
	a.cacheBytes -= len(e.params)
	e.params = nil
}

// count keeps the type's counters.
func (a *applier) count(it *events.Item, by int64) {
	t := a.typeOf(it.Type)
	t.info.Counts[it.State] += by
	if it.State == events.StateQueued {
		t.info.Queued[it.Priority] += by
	}
}

// insert adds an item that does not exist.
func (a *applier) insert(it *events.Item, params []byte) *entry {
	e := a.items[it.ID]
	if e == nil {
		e = &entry{id: it.ID}
		a.items[it.ID] = e
	} else if e.cur != nil { // pruned and kept: its id is used again
		a.erase(e)
	}
	e.cur, e.params, e.fresh, e.reborn = it, params, true, e.prev != nil
	a.markDirty(e)
	a.cacheBytes += len(params)
	a.touch(e, a.meta.Applied)
	return e
}
