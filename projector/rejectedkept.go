package projector

import (
	"fmt"
	"slices"

	"github.com/streamwright/streamwright/events"
)

// restate keeps a rejected submission as a round tells it. What lies in front of
// one that had to go is gone as well: it must not come back because it is the
// smaller of the two.
func (r *rejectedWrite) restate(k *events.KeptRejected) error {
	_, has := r.fresh[k.Seq]
	if !has {
		var err error
		if _, has, err = r.v.rejectedAt(k.Seq); err != nil {
			return err
		}
	}
	if has || k.Seq < r.start.seq {
		return nil
	}
	return r.keep(k.Seq, rejectedRecord{Type: k.Type, At: k.At, Size: k.Size, Body: k.Body, Purged: k.Body == nil})
}

// restateAnswer keeps the answer to an intake message as a round tells it.
func (r *rejectedWrite) restateAnswer(a *events.KeptAnswer) error {
	has, err := r.v.get(appendAnswerKey(nil, a.Intake), func([]byte) error { return nil })
	if err != nil || has || a.Intake < r.start.intake {
		return err
	}
	return r.answer(a.Intake, answerRecord{Seq: a.Seq, Of: a.Of})
}

// sorted brings what is in the batch into order: what was restated came late.
func (r *rejectedWrite) sorted() {
	slices.Sort(r.order)
	slices.SortFunc(r.asked, func(a, b asked) int { return int(a.seq) - int(b.seq) })
}

// RejectedKept returns where what is kept of submissions that became no item
// begins, or below if all of it lies behind that.
func (s *Store) RejectedKept(below events.Seq) (kept events.RejectedKept, err error) {
	kept = events.RejectedKept{From: below, Answers: below}
	err = s.snapshot(func(v view) error {
		err := v.scan([]byte{prefixRejected}, []byte{prefixRejected}, func(key, value []byte) (bool, error) {
			seq, _, err := decodeRejected(key, value)
			kept.From = min(kept.From, seq)
			return false, err
		})
		if err != nil {
			return err
		}
		return v.scan([]byte{prefixAnswer}, []byte{prefixAnswer}, func(key, value []byte) (bool, error) {
			a, err := decodeAnswer(key, value)
			kept.Answers = min(kept.Answers, a.Seq)
			return false, err
		})
	})
	return kept, err
}

// KeptRejected returns the rejected submissions that are kept, with those that
// were purged, from one on and below another, in order: as many as come to about
// so many bytes, one at least; and which comes next, 0 for none.
func (s *Store) KeptRejected(from, below events.Seq, bytes int64) (page []events.KeptRejected, next events.Seq, err error) {
	err = s.snapshot(func(v view) error {
		return v.scan([]byte{prefixRejected}, appendRejectedKey(nil, from), func(key, value []byte) (bool, error) {
			seq, rec, err := decodeRejected(key, value)
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
	err = s.snapshot(func(v view) error {
		return v.scan([]byte{prefixAnswer}, appendAnswerKey(nil, from), func(key, value []byte) (bool, error) {
			a, err := decodeAnswer(key, value)
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

func decodeAnswer(key, value []byte) (events.KeptAnswer, error) {
	k := keyReader{b: key[1:]}
	intake := k.uint()
	if k.err != nil {
		return events.KeptAnswer{}, fmt.Errorf("%s: %w", describeKey(key), errRecord)
	}
	a, err := decodeJSON[answerRecord](describeKey(key), value)
	return events.KeptAnswer{Intake: intake, Seq: a.Seq, Of: a.Of}, err
}
