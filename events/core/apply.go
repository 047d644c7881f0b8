package core

import (
	"fmt"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/policy"
)

// Apply folds one event in. Its Seq must lie behind the last one applied (a
// reader may have skipped messages that are no events of ours). It errs, with
// an error that wraps [events.ErrCorrupt], when the event can't have been decided in
// this state, and with the base's own error when that can't be read.
//
// After an error the state is of no use any more: load it anew, or stop.
//
// It is the only way in which the state changes: live, at a restart, in a
// follower, and in a rebuild.
func (s *State) Apply(ev events.Event) error {
	if ev.Seq <= s.meta.Applied {
		return s.corrupt(ev, "it lies behind event %d", s.meta.Applied)
	}
	if ev.Body == nil {
		return s.corrupt(ev, "this program does not know its kind: use a newer one")
	}
	if k := ev.Body.Kind(); k != ev.Kind {
		return s.corrupt(ev, "it has the payload of %s", k)
	}
	s.changed = true
	s.meta.Applied = ev.Seq
	was := s.meta.LastAt
	if ev.At.After(was) {
		s.meta.LastAt = ev.At
		if ev.At.After(s.meta.Ahead) {
			s.meta.Ahead = time.Time{}
		}
	}
	s.actor, s.actorBase = ev.ID, ev.Seq
	if s.meta.Partial {
		if done, err := s.applyPartial(ev); done || err != nil {
			return err
		}
	}
	switch b := ev.Body.(type) {
	case *events.Created:
		return s.applyCreated(ev, b)
	case *events.Rejected:
		return s.applyRejected(ev, b)
	case *events.RejectedPurged:
		return s.applyRejectedPurged(ev, b)
	case *events.Owned:
		if b.Epoch < s.meta.Epoch || (b.Epoch == s.meta.Epoch && !b.Barrier) {
			return s.corrupt(ev, "epoch %d after %d", b.Epoch, s.meta.Epoch)
		}
		s.meta.Epoch, s.meta.Owner = b.Epoch, b.Owner
		if !b.Barrier {
			s.meta.RoundAt = 0 // the round of another owner is never ended
		}
		if b.Clock != nil && ev.At.Before(was) {
			s.setBack(ev, was)
		}
		return nil
	case *events.TypeConfigured:
		t := s.typeOf(ev.Type)
		if t.info.Settings.Circuit != b.Settings.Circuit && t.info.Circuit.State == events.CircuitShut {
			t.info.Circuit = policy.Cleared(t.info.Circuit) // what was counted by the old ones is of no use
		}
		t.info.Settings, t.info.Source = b.Settings, b.Source
		return nil
	case *events.TypeForgotten:
		return s.applyForgotten(ev)
	case *events.Paused, *events.Resumed, *events.CircuitOpened, *events.CircuitHalfOpened, *events.CircuitClosed:
		return s.applyCircuit(ev)
	case *events.ScheduleSet, *events.ScheduleRemoved, *events.ScheduleFired:
		return s.applySchedule(ev)
	case *events.DrainSet, *events.DrainEnded:
		return s.applyDrain(ev)
	case *events.CauseNoted:
		return s.applyCause(ev, b)
	case *events.Snapshot, *events.Carried, *events.Pruned:
		return s.applyRetention(ev)
	}
	return s.applyToItem(ev)
}

func (s *State) corrupt(ev events.Event, format string, args ...any) error {
	return fmt.Errorf("apply event %d (%s of %s): %w: %s", ev.Seq, ev.Kind, ev.ID, events.ErrCorrupt, fmt.Sprintf(format, args...))
}

func (s *State) applyCreated(ev events.Event, b *events.Created) error {
	if e, err := s.entry(ev.ID); err != nil {
		return err
	} else if e != nil {
		return s.corrupt(ev, "the item exists")
	}
	it := &events.Item{
		ID: ev.ID, Type: ev.Type, State: events.StateCreated, Priority: b.Priority,
		MaxAttempts: b.MaxAttempts, Timeout: time.Duration(b.TimeoutMS) * time.Millisecond,
		DedupKey: b.DedupKey, IdempotencyKey: b.IdempotencyKey, Capabilities: b.Capabilities,
		Tenant: b.Tenant, Labels: b.Labels, Provenance: b.Provenance, Trace: b.Trace, Digest: b.Digest,
		IntakeSeq: b.Intake.Seq, MsgID: b.Intake.MsgID, AvailableAt: b.AvailableAt, CreatedAt: ev.At, CreatedSeq: ev.Seq, BaseSeq: ev.Seq, Seq: ev.Seq,
	}
	takeTerms(it, b.Terms)
	if err := s.joinBatch(it); err != nil {
		return err
	}
	s.insert(it, b.Params)
	s.setDocument(events.DocParams, ev.ID, b.Params)
	s.record(ev)
	s.count(it, +1)
	it.HoldsKey = b.DedupKey != "" && takesKey(b.Terms)
	if b.IdempotencyKey != "" {
		s.setKey(events.HeldKey{Ref: events.KeyRef{Kind: events.KeyIdempotency, Type: ev.Type, Key: b.IdempotencyKey}, ID: ev.ID, Until: b.IdempotencyUntil}, true)
	}
	if b.Terms != nil {
		s.applyRates(ev.Type, b.Rates)
	}
	if b.Intake.MsgID != "" {
		if at := b.Intake.MsgIDUntil.Add(-events.MsgIDWindow); at.After(s.meta.MsgIDAt) {
			s.meta.MsgIDAt = at
		}
		s.setKey(events.HeldKey{Ref: msgID(it), ID: ev.ID, Until: b.Intake.MsgIDUntil}, true)
	}
	s.applyIntake(b.Intake)
	return nil
}

// applyIntake moves the intake position on.
func (s *State) applyIntake(in events.Intake) { s.meta.IntakeSeq = max(s.meta.IntakeSeq, in.Seq) }

// applyToItem moves an item along the transition table.
func (s *State) applyToItem(ev events.Event) error {
	e, err := s.entry(ev.ID)
	if err != nil {
		return err
	}
	if e == nil {
		return s.corrupt(ev, "there is no such item")
	}
	next, ok := events.Next(e.cur.State, ev.Kind)
	if !ok {
		return s.corrupt(ev, "the item is %s", e.cur.State)
	}
	if ev.Type != e.cur.Type {
		return s.corrupt(ev, "it is of type %q, the item of type %q", ev.Type, e.cur.Type)
	}
	s.actorBase = e.cur.BaseSeq
	it := s.writable(e)
	was, ran := tiesOf(it), isRunning(it)
	run := runOf(it)
	s.count(it, -1)
	it.State, it.Seq = next, ev.Seq
	if err := s.fold(e, it, ev); err != nil {
		return err
	}
	s.count(it, +1)
	s.followRun(run, it, ev)
	if err := s.countRuns(it, ran); err != nil {
		return err
	}
	s.record(ev)
	s.touch(e, ev.Seq)
	return s.retie(it, was, ev.At)
}

// fold writes the payload's part of a transition into the item.
func (s *State) fold(e *entry, it *events.Item, ev events.Event) error {
	switch b := ev.Body.(type) {
	case *events.Queued:
		it.QueuedAt, it.OrderAt, it.AvailableAt, it.Reason = ev.At, b.OrderAt, b.AvailableAt, ""
		it.Worker = ""
		if b.TimeoutMS > 0 {
			it.Timeout = time.Duration(b.TimeoutMS) * time.Millisecond
		}
		if b.Reason == reasonContinuation {
			s.foldContinuation(it, b)
		}
	case *events.Merged:
		it.MergedInto, it.Reason, it.FinishedAt = b.Into, b.Reason, ev.At
		return s.foldMerged(it, b, ev)
	case *events.Claimed:
		s.applyRates(it.Type, b.Rates)
		it.Attempt, it.Worker, it.Token, it.Reason, it.Progress = ev.Attempt, ev.Worker, b.Token, "", events.Progress{}
		it.ClaimedAt, it.StartBy, it.StartedAt, it.Deadline = ev.At, b.StartBy, time.Time{}, time.Time{}
		if !b.DeliveredAt.IsZero() {
			it.ClaimedAt = b.DeliveredAt
		}
	case *events.Running:
		it.StartedAt, it.Deadline = ev.At, b.Deadline
		if it.Worker.Native() {
			it.StartedAt = it.ClaimedAt
		}
	case *events.Completed:
		it.FinishedAt, it.HasResult, it.Reason = ev.At, b.Result != nil, ""
		s.foldCompleted(it)
		if b.Result != nil {
			s.setDocument(events.DocResult, it.ID, b.Result)
		}
		s.dropParams(e)
	case *events.Failed:
		it.Error, it.Code, it.Retryable = b.Error, b.Code, b.Retryable
		if b.MaxAttempts != 0 {
			it.MaxAttempts = b.MaxAttempts
		}
	case *events.Dead:
		it.Reason, it.FinishedAt = b.Reason, ev.At
		if b.Error != "" || b.Code != "" {
			it.Error, it.Code = b.Error, b.Code
		}
		endedBy(it, b.By)
		s.died(it, b, ev.At)
		s.dropParams(e)
	case *events.Cancelled:
		it.Reason, it.FinishedAt = b.Reason, ev.At
		endedBy(it, b.By)
		s.dropParams(e)
	case *events.Released:
		it.Attempt, it.Worker, it.Reason = ev.Attempt-1, "", b.Reason
		it.QueuedAt, it.AvailableAt = ev.At, time.Time{}
		it.ClaimedAt, it.StartBy, it.StartedAt, it.Deadline = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	case *events.Rescheduled:
		it.Priority, it.OrderAt, it.AvailableAt = b.Priority, b.OrderAt, b.AvailableAt
	case *events.Replayed:
		if it.Cause != "" {
			s.leftDead(it, ev.At)
		}
		s.foldReplayed(e, it, b, ev)
	default:
		return s.foldFlow(e, it, ev)
	}
	return nil
}

// foldMerged tells the canonical item of one that has become part of it.
func (s *State) foldMerged(it *events.Item, b *events.Merged, ev events.Event) error {
	into, err := s.entry(b.Into)
	if err != nil {
		return err
	}
	if into == nil && s.meta.Partial {
		return nil // it is carried later
	}
	if into == nil || b.Into == it.ID {
		return s.corrupt(ev, "it is merged into %s, which is itself or does not exist", b.Into)
	}
	s.writable(into).MergedCount++
	into.cur.Seq = ev.Seq
	s.touch(into, ev.Seq)
	s.meta.Merges++
	s.merged = append(s.merged, events.MergedEntry{Into: b.Into, Seq: ev.Seq, ID: it.ID, At: ev.At, Provenance: it.Provenance})
	return nil
}

// dropParams lets go of what only a dispatch needs, if it can be had again.
func (s *State) dropParams(e *entry) {
	if max(e.cur.CreatedSeq, e.cur.BaseSeq, e.paramsAt) > s.projected {
		return
	}
	s.cacheBytes -= len(e.params)
	e.params = nil
}

// count keeps the type's counters.
func (s *State) count(it *events.Item, by int64) {
	t := s.typeOf(it.Type)
	t.info.Counts[it.State] += by
	if it.State == events.StateQueued {
		t.info.Queued[it.Priority] += by
	}
}
