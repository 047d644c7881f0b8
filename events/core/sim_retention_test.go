package core

import (
	"iter"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
)

// retentionStep draws a step of the log's own life: an item pruned, a part of a
// round, or time for retention to pass.
func (s *sim) retentionStep() {
	switch rapidInt(s, "retention", 9) {
	case 0:
		s.do(BeginCut{})
	case 1, 2:
		s.do(Prune{ID: s.anID()})
	case 3:
		s.now = s.now.Add(pick(s, "age", time.Hour, events.DefaultRetain, events.DefaultRetainDead))
	case 4, 5:
		for range rapidInt(s, "carried", 5) {
			s.carryOne()
		}
	case 6:
		s.do(Own{Owner: "o", Version: "v"})
	default:
		s.wholeRound()
	}
}

// uncarried are the items that a round must still carry, in order.
func (s *sim) uncarried() (ids []events.ID) {
	for id, e := range s.oracle.items {
		if e.cur != nil && e.cur.BaseSeq < s.oracle.meta.RoundAt {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, compareIDs)
	return ids
}

func (s *sim) carryOne() {
	if ids := s.uncarried(); len(ids) > 0 {
		s.carry(pick(s, "carry", ids...))
	}
}

// carry carries an item with what the projection holds of it, which must have
// caught up with the item.
func (s *sim) carry(id events.ID) {
	if !s.live.Projectable(id) {
		s.settle()
	}
	if !s.live.Projectable(id) {
		s.t.Fatalf("%s does not settle", id)
	}
	s.do(Carry{ID: id, History: slices.Clone(s.base.history[id]), Merged: s.base.mergedInto(id)})
}

// wholeRound ends the round under way, or one that it begins, with other steps
// between its own.
func (s *sim) wholeRound() {
	if s.oracle.meta.Epoch == 0 {
		s.do(Own{Owner: "o", Version: "v"})
	}
	if s.oracle.meta.RoundAt == 0 {
		s.do(BeginCut{})
	}
	for i := 0; i < 1000; i++ {
		ids := s.uncarried()
		if len(ids) == 0 {
			break
		}
		s.carry(pick(s, "carry", ids...))
		if i < 20 && s.chance("meanwhile", 40) {
			s.meanwhile()
		}
		if s.oracle.meta.RoundAt == 0 {
			return // another owner has come
		}
	}
	kept := s.carryRejected()
	if s.oracle.meta.RoundAt == 0 {
		return
	}
	loose := slices.DeleteFunc(slices.Collect(maps.Values(s.base.keys)), func(k events.HeldKey) bool { return !k.Ref.Kind.Unowned() })
	slices.SortFunc(loose, func(a, b events.HeldKey) int { return slices.Compare([]byte(dumpKey(a)), []byte(dumpKey(b))) })
	s.do(EndCut{Keys: loose, Kept: kept})
}

// carryRejected re-states what is kept of submissions that became no item, page
// by page, of a projection that lags, with other steps in between.
func (s *sim) carryRejected() *events.RejectedKept {
	begin := s.oracle.meta.RoundAt
	if s.base.meta.Applied < begin {
		s.settle() // the loop waits for that as well
	}
	kept := &events.RejectedKept{From: begin, Answers: begin}
	rejected, answers := s.base.keptBefore(begin)
	if len(rejected) > 0 {
		kept.From = rejected[0].Seq
	}
	if len(answers) > 0 {
		kept.Answers = answers[0].Seq
	}
	for from := events.Seq(0); s.oracle.meta.RoundAt == begin; {
		rejected, answers = s.base.keptBefore(begin)
		rejected = slices.DeleteFunc(rejected, func(r events.KeptRejected) bool { return r.Seq < from })
		answers = slices.DeleteFunc(answers, func(a events.KeptAnswer) bool { return a.Seq < from })
		if len(rejected) == 0 && len(answers) == 0 {
			break
		}
		n, m := min(len(rejected), 2), min(len(answers), 2)
		from = begin
		if n < len(rejected) {
			from = min(from, rejected[n].Seq)
		}
		if m < len(answers) {
			from = min(from, answers[m].Seq)
		}
		rejected = slices.DeleteFunc(rejected, func(r events.KeptRejected) bool { return r.Seq >= from })
		answers = slices.DeleteFunc(answers, func(a events.KeptAnswer) bool { return a.Seq >= from })
		s.do(CarryRejected{Rejected: rejected, Answers: answers})
		if s.chance("meanwhile", 40) {
			s.meanwhile()
		}
	}
	return kept
}

// meanwhile is a step in the midst of a round.
func (s *sim) meanwhile() {
	switch rapidInt(s, "meanwhile step", 13) {
	case 0, 1:
		s.do(s.submit())
	case 2:
		s.do(s.claim())
	case 3:
		s.do(s.report())
	case 4:
		s.do(s.operator())
	case 5:
		s.project()
	case 6:
		s.restart()
	case 7:
		s.do(Prune{ID: s.anID()})
	case 8:
		s.do(s.flowCommand())
	case 9:
		s.now = s.now.Add(pick(s, "pass", time.Second, events.MsgIDWindow, events.DefaultRetain))
	case 10:
		if seqs := slices.Sorted(maps.Keys(s.base.rejected)); len(seqs) > 0 {
			s.do(PurgeRejected{Seq: pick(s, "rejected", seqs...)})
		}
	case 12, 13:
		s.do(s.waitCommand())
	case 11:
		s.do(s.replayCommand())
	}
}

// cutAt are the frames with which the log may begin: those of the begins of
// the rounds that have ended.
func (s *sim) cutAt() (cuts []uint64) {
	begun := uint64(0)
	for seq := uint64(1); seq <= uint64(len(s.log)); seq++ {
		ev := s.decode(events.SeqOf(seq, len(s.log[seq-1].lines)-1))
		switch b := ev.Body.(type) {
		case *events.Owned:
			if !b.Barrier {
				begun = 0
			}
		case *events.Snapshot:
			switch b.Mark {
			case events.MarkBegin:
				begun = seq
			case events.MarkEnd:
				cuts = append(cuts, begun)
			}
		}
	}
	return cuts
}

func rapidInt(s *sim, label string, most int) int { return rapid.IntRange(0, most).Draw(s.t, label) }

// present are the items that a state has in memory and that exist.
func present(s *State) iter.Seq2[events.ID, *entry] {
	return func(yield func(events.ID, *entry) bool) {
		for id, e := range s.items {
			if e.cur != nil && !yield(id, e) {
				return
			}
		}
	}
}
