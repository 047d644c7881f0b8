package events

import "time"

// The bounds of what is kept of submissions that became no item. Of those
// rejected, the newest that fit both bounds are kept, by the bytes of their
// originals; of the answers to intake messages, the newest.
const (
	MaxRejectedKept      = 10_000
	MaxRejectedKeptBytes = 64 << 20
	MaxAnswersKept       = 100_000
)

// RejectedPurged is the payload of rejected_purged: the rejected submission of
// event Seq is kept no longer.
type RejectedPurged struct {
	Seq    Seq    `json:"seq"`
	Reason string `json:"reason"` // purged
}

func (*RejectedPurged) kind() Kind { return KindRejectedPurged }

// PurgeRejected forgets the rejected submission of an event.
type PurgeRejected struct {
	Seq    Seq
	Type   Type   // of the submission; empty if it had none
	Reason string // empty: "purged"
}

func (PurgeRejected) command() {}

// RejectedChange is a submission that became no item, to be kept; or, without
// Body, one to be kept no longer; or, with Cut or CutAnswers, that all before
// those positions go with the log; or what a round re-states, for who begins to
// read with that: it comes behind newer ones, but in order itself.
type RejectedChange struct {
	Cut        Seq
	CutAnswers Seq

	Restated       *KeptRejected
	RestatedAnswer *KeptAnswer

	Seq    Seq // of its rejected event
	Type   Type
	At     time.Time
	Body   *Rejected
	Answer bool // it is the first answer to its intake message
}

// applyRejected keeps a submission that became no item. It comes before the
// intake's position moves.
func (s *State) applyRejected(ev Event, b *Rejected) error {
	s.meta.Rejected++
	s.rejected = append(s.rejected, RejectedChange{Seq: ev.Seq, Type: ev.Type, At: ev.At, Body: b, Answer: b.Intake.Seq > s.meta.IntakeSeq})
	s.applyIntake(b.Intake)
	return nil
}

func (s *State) applyRejectedPurged(ev Event, b *RejectedPurged) error {
	if b.Seq >= ev.Seq {
		return s.corrupt(ev, "event %d does not lie before it", b.Seq)
	}
	s.rejected = append(s.rejected, RejectedChange{Seq: b.Seq, Type: ev.Type, At: ev.At})
	s.purgedRejected.set(b.Seq, true, ev.Seq)
	return nil
}

// KeptBytes is what a rejected submission counts as against
// MaxRejectedKeptBytes.
func (r *Rejected) KeptBytes() int64 {
	const beside = 256 // subject, code, and what the record itself takes
	n := beside + len(r.Text) + len(r.Bytes) + len(r.Message)
	for name, values := range r.Headers {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return int64(n)
}
