package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

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
	if b.Of.IsZero() {
		a.keptRejected.set(a.ev.Seq, true, a.ev.Seq)
	}
	a.applyIntake(b.Intake)
	return nil
}

func applyRejectedPurged(a *applier, b *events.RejectedPurged) error {
	if b.Seq >= a.ev.Seq {
		return a.corrupt("event %d does not lie before it", b.Seq)
	}
	a.rejected = append(a.rejected, RejectedChange{Seq: b.Seq, Type: a.ev.Type, At: a.ev.At})
	a.keptRejected.set(b.Seq, false, a.ev.Seq)
	return nil
}

// Reject records an intake message that can't become an item. A rejected
// submission has a life of its own (it is stored, listed, replayed and pruned)
// because the publisher of a plain publish has its acknowledgement already and
// awaits no reply: an error reply alone would lose the submission in silence.
type Reject struct {
	Type events.Type // empty if not known
	events.Rejected
}

func (c Reject) decide(d *decider) (Decision, error) { return d.reject(c), nil }

// reject records a submission that becomes no item. Whatever it holds, the
// event stays in its bounds: nothing here may refuse, since the intake's
// position moves on only with an event.
func (d *decider) reject(c Reject) Decision {
	r := c.Rejected
	r.Code = events.Shorten(r.Code, events.MaxNameLen)
	r.Message = events.Shorten(r.Message, events.MaxErrorText)
	r.Subject = events.Shorten(r.Subject, events.MaxKeyLen)
	r.Intake = events.Intake{Seq: r.Intake.Seq, Site: r.Intake.Site, SiteSeq: r.Intake.SiteSeq} // what does not become an item holds no message id
	boundBody(&r)
	boundHeaders(&r)
	typ, err := events.ParseType(string(c.Type))
	if _, known := d.state.Type(typ); err != nil || !known && (len(d.state.types) >= events.MaxTypes || !typeAllowed(&d.state.limits, typ)) {
		typ = "" // the server keeps each subject in memory, and it becomes part of one
	}
	return Decision{ID: r.Of, Repeat: !r.Of.IsZero(), Events: []events.Event{d.typeEvent(typ, &r)}}
}

// boundBody cuts the original to its bound. JSON would damage what is not UTF-8,
// which is kept as bytes.
func boundBody(r *events.Rejected) {
	if r.Text != "" && !utf8.ValidString(r.Text) {
		r.Text, r.Bytes = "", []byte(r.Text)
	}
	if r.Text != "" {
		r.Bytes = nil
	}
	r.Size = max(r.Size, len(r.Text), len(r.Bytes))
	if len(r.Text) > events.MaxRejectedBytes {
		r.Text, r.Truncated = events.Cut(r.Text, events.MaxRejectedBytes), true
	}
	if len(r.Bytes) > events.MaxRejectedBytes {
		r.Bytes, r.Truncated = r.Bytes[:events.MaxRejectedBytes], true
	}
}

// boundHeaders keeps the headers that fit, in order of name.
func boundHeaders(r *events.Rejected) {
	if len(r.Headers) == 0 {
		r.Headers = nil
		return
	}
	kept, room := make(map[string][]string, len(r.Headers)), events.MaxRejectedHeaders
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		key := strings.ToValidUTF8(name, "\uFFFD")
		for _, v := range r.Headers[name] {
			v = strings.ToValidUTF8(v, "\uFFFD")
			// 8: what quotes, colon, brackets and commas take in the JSON.
			if room -= len(key) + len(v) + 8; room < 0 {
				r.Headers, r.Truncated = kept, true
				return
			}
			kept[key] = append(kept[key], v)
		}
	}
	r.Headers = kept
}

// CarryRejected re-states, in the round under way, what the projection keeps of
// submissions that became no item, from before the round: a page of each, in
// order. A page follows the one before; the last may be empty.
type CarryRejected struct {
	Rejected []events.KeptRejected
	Answers  []events.KeptAnswer
}

// decide splits a page over as many events as it needs.
func (c CarryRejected) decide(d *decider) (Decision, error) {
	if d.state.meta.RoundAt == 0 {
		return Decision{}, errNoRound
	}
	p := pages[events.Snapshot]{of: events.Snapshot{Round: d.state.meta.Round, Mark: events.MarkRejected}}
	for _, r := range c.Rejected {
		if r.Seq >= d.state.meta.RoundAt {
			return Decision{}, events.Refuse(events.CodeWrongState, "the rejected submission of event %d lies behind the begin of the round", r.Seq)
		}
		if kept, changed := d.state.keptRejected.get(r.Seq); changed && !kept { // the projection does not know it yet
			r = events.KeptRejected{Seq: r.Seq, Size: r.Size}
		}
		s := p.room(jsonSize(r))
		s.Rejected = append(s.Rejected, r)
	}
	for _, a := range c.Answers {
		s := p.room(jsonSize(a))
		s.Answers = append(s.Answers, a)
	}
	if len(p.list) > events.MaxDecisionEvents {
		return Decision{}, events.Refuse(events.CodeTooLarge, "a page of rejected submissions has %d events, at most %d are allowed: ask for less at once", len(p.list), events.MaxDecisionEvents)
	}
	return Decision{Events: d.snapshots(p.list), Parts: true, Repeat: len(p.list) == 0}, nil
}

// restateRejected takes over what a round says of submissions that became no
// item.
func (a *applier) restateRejected(b *events.Snapshot) {
	for i := range b.Rejected {
		r := &b.Rejected[i]
		a.rejected = append(a.rejected, RejectedChange{Restated: r})
		a.keptRejected.set(r.Seq, r.Body != nil, a.ev.Seq)
	}
	for i := range b.Answers {
		a.rejected = append(a.rejected, RejectedChange{RestatedAnswer: &b.Answers[i]})
	}
}

// cutRejected drops what the round that has ended did not re-state. An old round,
// without Kept, re-states nothing of it.
func (a *applier) cutRejected(b *events.Snapshot) {
	cut := RejectedChange{Cut: a.meta.RoundAt, CutAnswers: a.meta.RoundAt}
	if b.Kept != nil {
		cut.Cut, cut.CutAnswers = b.Kept.From, b.Kept.Answers
	}
	a.rejectedFrom = max(a.rejectedFrom, cut.Cut)
	if cut.Cut > 0 || cut.CutAnswers > 0 {
		a.rejected = append(a.rejected, cut)
	}
}

// RejectedKept reports whether the rejected submission of an event is kept.
func (s *State) RejectedKept(seq events.Seq) (bool, error) {
	if seq == 0 || seq < s.rejectedFrom {
		return false, nil
	}
	if kept, changed := s.keptRejected.get(seq); changed {
		return kept, nil
	}
	kept, err := s.base.RejectedKept(seq)
	if err != nil {
		return false, fmt.Errorf("look up the rejected submission of event %d: %w", seq, err)
	}
	return kept, nil
}

// RejectedGone refuses what is about a rejected submission that is not kept.
func RejectedGone(seq events.Seq) error {
	return events.Refuse(events.CodeNotFound, "no rejected submission of event %d is kept: the newest %d are, up to %d MiB; list them (rejected)", seq, events.MaxRejectedKept, events.MaxRejectedKeptBytes>>20)
}

// mustKeep refuses what is about the rejected submission of an event that is not kept.
func (d *decider) mustKeep(seq events.Seq) error {
	kept, err := d.state.RejectedKept(seq)
	if err == nil && !kept {
		err = RejectedGone(seq)
	}
	return err
}

// decide forgets a rejected submission.
func (c PurgeRejected) decide(d *decider) (Decision, error) {
	if err := d.mustKeep(c.Seq); err != nil {
		return Decision{}, err
	}
	reason, err := reasonOr(c.Reason, "purged")
	if err != nil {
		return Decision{}, err
	}
	return Decision{Events: []events.Event{d.typeEvent(c.Type, &events.RejectedPurged{Seq: c.Seq, Reason: reason})}}, nil
}
