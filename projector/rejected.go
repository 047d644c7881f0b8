package projector

import (
	"errors"
	"math"
	"slices"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/internal/layout"
)

// rejectedStart is the first rejected submission and answer that are kept.
// Starting there saves stepping over what earlier ones have left behind. Zero
// is correct, only slower.
type rejectedStart struct {
	seq    events.Seq
	intake uint64
}

// rejectedWrite is the rejected submissions of one Commit under way.
type rejectedWrite struct {
	b     *batch
	v     layout.View
	book  layout.RejectedBook
	limit rejectedLimits
	start rejectedStart
	cut   events.Seq // all before go
	// cutAnswers is that of the answers, by the events that gave them.
	cutAnswers events.Seq

	fresh map[events.Seq]layout.RejectedRecord // in the batch, not in the store
	order []events.Seq                         // of fresh
	asked []asked                              // intake messages whose answers are in the batch
}

type asked struct {
	intake uint64
	seq    events.Seq // of the answer
}

// rejectedLimits bound the rejected submissions that are kept; smaller in
// tests.
type rejectedLimits struct {
	count, bytes, answers int64
}

var defaultRejectedLimits = rejectedLimits{events.MaxRejectedKept, events.MaxRejectedKeptBytes, events.MaxAnswersKept}

// rejected writes the submissions that became no item, and lets the oldest go.
func (w *writer) rejected(b *batch, v layout.View, c *core.Changes) error {
	if len(c.Rejected) == 0 {
		return nil
	}
	book, err := v.RejectedBook()
	if err != nil {
		return err
	}
	r := rejectedWrite{b: b, v: v, book: book, limit: w.limits, start: w.rejectedStart, fresh: map[events.Seq]layout.RejectedRecord{}}
	r.start.seq = max(r.start.seq, book.From)
	for i := range c.Rejected {
		if err := r.add(&c.Rejected[i]); err != nil {
			return err
		}
	}
	r.sorted()
	if err := errors.Join(r.trim(), r.trimAnswers()); err != nil {
		return err
	}
	w.rejectedStart = r.start
	if r.book.From = 0; c.Meta.Partial {
		r.book.From = r.start.seq
	}
	b.setJSON(layout.MetaKey(layout.MetaRejected), r.book)
	return nil
}

func (r *rejectedWrite) add(c *core.RejectedChange) error {
	switch {
	case c.Cut > 0 || c.CutAnswers > 0:
		r.cut, r.cutAnswers = max(r.cut, c.Cut), max(r.cutAnswers, c.CutAnswers)
		return nil
	case c.Restated != nil:
		return r.restate(c.Restated)
	case c.RestatedAnswer != nil:
		return r.restateAnswer(c.RestatedAnswer)
	case c.Body == nil:
		return r.purge(c.Seq)
	}
	if c.Answer {
		r.answer(c.Body.Intake.Seq, layout.AnswerRecord{Seq: c.Seq, Of: c.Body.Of})
	}
	if c.Body.Of.IsZero() { // else it is answered by its item
		r.keep(c.Seq, layout.RejectedRecord{Type: c.Type, At: c.At, Size: c.Body.KeptBytes(), Body: c.Body})
	}
	return nil
}

// keep keeps a rejected submission that is not there.
func (r *rejectedWrite) keep(seq events.Seq, rec layout.RejectedRecord) {
	r.book.Count++
	r.book.Bytes += rec.Size
	r.fresh[seq], r.order = rec, append(r.order, seq)
	r.b.setJSON(layout.AppendRejectedKey(nil, seq), rec)
}

// answer keeps the answer to an intake message.
func (r *rejectedWrite) answer(intake uint64, a layout.AnswerRecord) {
	r.book.Answers++
	r.asked = append(r.asked, asked{intake, a.Seq})
	r.b.setJSON(layout.AppendAnswerKey(nil, intake), a)
}

// record returns a rejected submission that is kept, and whether it is in the
// batch alone.
func (r *rejectedWrite) record(seq events.Seq) (rec layout.RejectedRecord, fresh, has bool, err error) {
	if rec, fresh = r.fresh[seq]; fresh {
		return rec, true, true, nil
	}
	rec, has, err = r.v.RejectedAt(seq)
	return rec, false, has, err
}

// purge forgets one, if it is there.
func (r *rejectedWrite) purge(seq events.Seq) error {
	rec, fresh, has, err := r.record(seq)
	if !has || err != nil {
		return err
	}
	rec = layout.RejectedRecord{Size: rec.Size, Purged: true}
	if fresh {
		r.fresh[seq] = rec
	}
	r.b.setJSON(layout.AppendRejectedKey(nil, seq), rec)
	return nil
}

// goes reports whether the oldest has to go: it lies before the cut, or there
// is too much.
func (r *rejectedWrite) goes(seq events.Seq) bool {
	return seq < r.cut || r.book.Count > r.limit.count || r.book.Bytes > r.limit.bytes
}

// trim drops the oldest, in the store and in this batch.
func (r *rejectedWrite) trim() error {
	if !r.goes(r.cut) && r.cut == 0 {
		return nil
	}
	drop := func(seq events.Seq, size int64) {
		r.book.Count--
		r.book.Bytes -= size
		r.start.seq = seq + 1
		r.b.delete(layout.AppendRejectedKey(nil, seq))
	}
	dropFresh := func(below events.Seq) {
		for ; len(r.order) > 0 && r.order[0] < below && r.goes(r.order[0]); r.order = r.order[1:] {
			drop(r.order[0], r.fresh[r.order[0]].Size)
		}
	}
	err := r.v.Scan([]byte{layout.PrefixRejected}, layout.AppendRejectedKey(nil, r.start.seq), func(key, value []byte) (bool, error) {
		seq, rec, err := layout.DecodeRejected(key, value)
		if err != nil {
			return false, err
		}
		dropFresh(seq)
		if !r.goes(seq) || len(r.order) > 0 && r.order[0] < seq {
			return false, nil
		}
		drop(seq, rec.Size)
		return true, nil
	})
	dropFresh(math.MaxUint64)
	return err
}

// trimAnswers is trim for the answers.
func (r *rejectedWrite) trimAnswers() error {
	goes := func(seq events.Seq) bool { return seq < r.cutAnswers || r.book.Answers > r.limit.answers }
	if !goes(r.cutAnswers) && r.cutAnswers == 0 {
		return nil
	}
	drop := func(intake uint64) {
		r.book.Answers--
		r.start.intake = intake + 1
		r.b.delete(layout.AppendAnswerKey(nil, intake))
	}
	dropFresh := func(below events.Seq) {
		for ; len(r.asked) > 0 && r.asked[0].seq < below && goes(r.asked[0].seq); r.asked = r.asked[1:] {
			drop(r.asked[0].intake)
		}
	}
	err := r.v.Scan([]byte{layout.PrefixAnswer}, layout.AppendAnswerKey(nil, r.start.intake), func(key, value []byte) (bool, error) {
		a, err := layout.DecodeAnswer(key, value)
		if err != nil {
			return false, err
		}
		dropFresh(a.Seq)
		if !goes(a.Seq) || len(r.asked) > 0 && r.asked[0].seq < a.Seq {
			return false, nil
		}
		drop(a.Intake)
		return true, nil
	})
	dropFresh(math.MaxUint64)
	return err
}

// restate keeps a rejected submission as a round states it. Submissions in
// front of one that had to go are gone as well: a smaller one must not come
// back.
func (r *rejectedWrite) restate(k *events.KeptRejected) error {
	_, _, has, err := r.record(k.Seq)
	if err != nil || has || k.Seq < r.start.seq {
		return err
	}
	r.keep(k.Seq, layout.RejectedRecord{Type: k.Type, At: k.At, Size: k.Size, Body: k.Body, Purged: k.Body == nil})
	return nil
}

// restateAnswer keeps the answer to an intake message as a round states it.
func (r *rejectedWrite) restateAnswer(a *events.KeptAnswer) error {
	has, err := r.v.Get(layout.AppendAnswerKey(nil, a.Intake), func([]byte) error { return nil })
	if err != nil || has || a.Intake < r.start.intake {
		return err
	}
	r.answer(a.Intake, layout.AnswerRecord{Seq: a.Seq, Of: a.Of})
	return nil
}

// sorted sorts the submissions in the batch: restated ones came late.
func (r *rejectedWrite) sorted() {
	slices.Sort(r.order)
	slices.SortFunc(r.asked, func(a, b asked) int { return int(a.seq) - int(b.seq) })
}

// RejectedFrom returns where the kept rejected submissions and their answers
// begin, or below if all of them lie behind that.
func (s *Store) RejectedFrom(below events.Seq) (kept events.RejectedKept, err error) {
	kept = events.RejectedKept{From: below, Answers: below}
	err = s.Snapshot(func(v layout.View) error {
		err := v.Scan([]byte{layout.PrefixRejected}, []byte{layout.PrefixRejected}, func(key, value []byte) (bool, error) {
			seq, _, err := layout.DecodeRejected(key, value)
			kept.From = min(kept.From, seq)
			return false, err
		})
		if err != nil {
			return err
		}
		return v.Scan([]byte{layout.PrefixAnswer}, []byte{layout.PrefixAnswer}, func(key, value []byte) (bool, error) {
			a, err := layout.DecodeAnswer(key, value)
			kept.Answers = min(kept.Answers, a.Seq)
			return false, err
		})
	})
	return kept, err
}

// KeptRejected returns the rejected submissions that are kept, purged ones
// included, from position from and below position below, in order: at least
// one, and as many as come to about bytes bytes. next is the position of the
// next one, 0 for none.
func (s *Store) KeptRejected(from, below events.Seq, bytes int64) (page []events.KeptRejected, next events.Seq, err error) {
	err = s.Snapshot(func(v layout.View) error {
		return v.Scan([]byte{layout.PrefixRejected}, layout.AppendRejectedKey(nil, from), func(key, value []byte) (bool, error) {
			seq, rec, err := layout.DecodeRejected(key, value)
			if err != nil || seq >= below {
				return false, err
			}
			if bytes -= int64(len(value)); bytes < 0 && len(page) > 0 {
				next = seq
				return false, nil
			}
			page = append(page, events.KeptRejected{Seq: seq, Type: rec.Type, At: rec.At, Size: rec.Size, Body: rec.Body})
			return true, nil
		})
	})
	return page, next, err
}

// KeptAnswers returns the answers that are kept to messages of the intake stream
// that became no item, from a message on and given below a position, in order, at
// most limit of them; and which message comes next, 0 for none.
func (s *Store) KeptAnswers(from uint64, below events.Seq, limit int) (page []events.KeptAnswer, next uint64, err error) {
	err = s.Snapshot(func(v layout.View) error {
		return v.Scan([]byte{layout.PrefixAnswer}, layout.AppendAnswerKey(nil, from), func(key, value []byte) (bool, error) {
			a, err := layout.DecodeAnswer(key, value)
			if err != nil || a.Seq >= below {
				return false, err
			}
			if len(page) == limit {
				next = a.Intake
				return false, nil
			}
			page = append(page, a)
			return true, nil
		})
	})
	return page, next, err
}
