package core

import (
	"time"

	"github.com/streamwright/streamwright/events"
)

// PurgeRejected forgets the rejected submission of an event.
type PurgeRejected struct {
	Seq    events.Seq
	Type   events.Type // of the submission; empty if it had none
	Reason string      // empty: "purged"
}

// RejectedChange is a submission that became no item, to be kept; or, without
// Body, one to be kept no longer; or, with Cut or CutAnswers, that all before
// those positions go with the log; or what a round re-states, for who begins to
// read with that: it comes behind newer ones, but in order itself.
type RejectedChange struct {
	Cut        events.Seq
	CutAnswers events.Seq

	Restated       *events.KeptRejected
	RestatedAnswer *events.KeptAnswer

	Seq    events.Seq // of its rejected event
	Type   events.Type
	At     time.Time
	Body   *events.Rejected
	Answer bool // it is the first answer to its intake message
}

// applyRejected keeps a submission that became no item. It comes before the
// intake's position moves.
func applyRejected(a *applier, b *events.Rejected) error {
	a.meta.Rejected++
	a.rejected = append(a.rejected, RejectedChange{Seq: a.ev.Seq, Type: a.ev.Type, At: a.ev.At, Body: b, Answer: b.Intake.Seq > a.meta.IntakeSeq})
	a.applyIntake(b.Intake)
	return nil
}

func applyRejectedPurged(a *applier, b *events.RejectedPurged) error {
	if b.Seq >= a.ev.Seq {
		return a.corrupt("event %d does not lie before it", b.Seq)
	}
	a.rejected = append(a.rejected, RejectedChange{Seq: b.Seq, Type: a.ev.Type, At: a.ev.At})
	a.purgedRejected.set(b.Seq, true, a.ev.Seq)
	return nil
}
