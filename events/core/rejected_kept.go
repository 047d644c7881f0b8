package core

import (
	"github.com/streamwright/streamwright/events"
)

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
		return Decision{}, events.Refuse(events.CodeWrongState, "no round of snapshots is under way")
	}
	p := pages{of: events.Snapshot{Round: d.state.meta.Round, Mark: events.MarkRejected}}
	for _, r := range c.Rejected {
		if r.Seq >= d.state.meta.RoundAt {
			return Decision{}, events.Refuse(events.CodeWrongState, "the rejected submission of event %d lies behind the begin of the round", r.Seq)
		}
		if purged, _ := d.state.purgedRejected.get(r.Seq); purged { // the projection does not know it yet
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
	return Decision{Events: d.snapshots(p.list), Repeat: len(p.list) == 0}, nil
}

// pages fills snapshots up to carriedBytes each.
type pages struct {
	of   events.Snapshot // what each of them says
	list []*events.Snapshot
	size int // of the last
}

// room is the snapshot that has room for so many bytes more.
func (p *pages) room(bytes int) *events.Snapshot {
	if len(p.list) == 0 || p.size > 0 && p.size+bytes > carriedBytes {
		s := p.of
		p.list, p.size = append(p.list, &s), 0
	}
	p.size += bytes
	return p.list[len(p.list)-1]
}

func (d *decider) snapshots(list []*events.Snapshot) (evs []events.Event) {
	for _, s := range list {
		evs = append(evs, events.Event{Kind: events.KindSnapshot, At: d.now, Body: s})
	}
	return evs
}

// restateRejected takes over what a round says of submissions that became no
// item.
func (a *applier) restateRejected(b *events.Snapshot) {
	for i := range b.Rejected {
		a.rejected = append(a.rejected, RejectedChange{Restated: &b.Rejected[i]})
	}
	for i := range b.Answers {
		a.rejected = append(a.rejected, RejectedChange{RestatedAnswer: &b.Answers[i]})
	}
}

// cutRejected lets go of what the round that has ended did not re-state. A round
// without Kept, as they once were, re-states nothing of it.
func (a *applier) cutRejected(b *events.Snapshot) {
	cut := RejectedChange{Cut: a.meta.RoundAt, CutAnswers: a.meta.RoundAt}
	if b.Kept != nil {
		cut.Cut, cut.CutAnswers = b.Kept.From, b.Kept.Answers
	}
	if cut.Cut > 0 || cut.CutAnswers > 0 {
		a.rejected = append(a.rejected, cut)
	}
}
