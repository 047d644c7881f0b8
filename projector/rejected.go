package projector

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// rejectedRecord is a rejected submission. One that was purged keeps its place
// and size, so that which others are kept depends on the log's position alone.
type rejectedRecord struct {
	Type   events.Type      `json:"type,omitempty"`
	At     time.Time        `json:"at,omitzero"`
	Size   int64            `json:"size"` // what it counts as against the bound
	Body   *events.Rejected `json:"body,omitempty"`
	Purged bool             `json:"purged,omitempty"`
}

// answerRecord is what a message of the intake stream became, if no item.
type answerRecord struct {
	Seq events.Seq `json:"seq"`         // of the rejected event
	Of  events.ID  `json:"of,omitzero"` // a duplicate: the item that it repeats
}

// rejectedBook counts what is kept of both.
type rejectedBook struct {
	Count   int64 `json:"count"`
	Bytes   int64 `json:"bytes"`
	Answers int64 `json:"answers"`
	// From is set while a log that has been cut is read up to the end of the
	// round at its head: what lies before it had to go, also what the round
	// tells only now.
	From events.Seq `json:"from,omitempty"`
}

// rejectedStart is where what is kept begins: all before has gone, and not to
// look there saves stepping over what it left behind. Zero is right, too.
type rejectedStart struct {
	seq    events.Seq
	intake uint64
}

func (v view) rejectedBook() (b rejectedBook, err error) {
	_, err = v.get(metaKey(metaRejected), func(data []byte) error {
		b, err = decodeJSON[rejectedBook]("the book of rejected submissions", data)
		return err
	})
	return b, err
}

// rejectedWrite is the rejected submissions of one Commit under way.
type rejectedWrite struct {
	b     *pebble.Batch
	v     view
	book  rejectedBook
	limit rejectedLimits
	start rejectedStart
	cut   events.Seq // all before go
	// cutAnswers is that of the answers, by the events that gave them.
	cutAnswers events.Seq

	fresh map[events.Seq]rejectedRecord // in the batch, not in the store
	order []events.Seq                  // of fresh
	asked []asked                       // intake messages whose answers are in the batch
}

type asked struct {
	intake uint64
	seq    events.Seq // of the answer
}

// rejectedLimits are the bounds of what is kept; smaller in tests.
type rejectedLimits struct {
	count, bytes, answers int64
}

var defaultRejectedLimits = rejectedLimits{events.MaxRejectedKept, events.MaxRejectedKeptBytes, events.MaxAnswersKept}

// rejected writes the submissions that became no item, and lets the oldest go.
func (w *writer) rejected(b *pebble.Batch, db *pebble.DB, c *core.Changes) error {
	if len(c.Rejected) == 0 {
		return nil
	}
	book, err := view{db}.rejectedBook()
	if err != nil {
		return err
	}
	r := rejectedWrite{b: b, v: view{db}, book: book, limit: w.limits, start: w.rejectedStart, fresh: map[events.Seq]rejectedRecord{}}
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
	data, err := json.Marshal(r.book)
	if err != nil {
		return err
	}
	return b.Set(metaKey(metaRejected), data, nil)
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
		if err := r.answer(c.Body.Intake.Seq, answerRecord{Seq: c.Seq, Of: c.Body.Of}); err != nil {
			return err
		}
	}
	if !c.Body.Of.IsZero() {
		return nil // it is answered by its item
	}
	return r.keep(c.Seq, rejectedRecord{Type: c.Type, At: c.At, Size: c.Body.KeptBytes(), Body: c.Body})
}

// keep keeps a rejected submission that is not there.
func (r *rejectedWrite) keep(seq events.Seq, rec rejectedRecord) error {
	r.book.Count++
	r.book.Bytes += rec.Size
	r.fresh[seq], r.order = rec, append(r.order, seq)
	return r.set(seq, rec)
}

// answer keeps the answer to an intake message.
func (r *rejectedWrite) answer(intake uint64, a answerRecord) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	r.book.Answers++
	r.asked = append(r.asked, asked{intake, a.Seq})
	return r.b.Set(appendAnswerKey(nil, intake), data, nil)
}

func (r *rejectedWrite) set(seq events.Seq, rec rejectedRecord) error {
	data, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	return r.b.Set(appendRejectedKey(nil, seq), data, nil)
}

// purge forgets one, if it is there.
func (r *rejectedWrite) purge(seq events.Seq) error {
	rec, has := r.fresh[seq]
	if !has {
		var err error
		if rec, has, err = r.v.rejectedAt(seq); !has || err != nil {
			return err
		}
	}
	rec = rejectedRecord{Size: rec.Size, Purged: true}
	if _, has := r.fresh[seq]; has {
		r.fresh[seq] = rec
	}
	return r.set(seq, rec)
}

// goes reports whether the oldest has to go: it lies before the cut, or there
// is too much.
func (r *rejectedWrite) goes(seq events.Seq) bool {
	return seq < r.cut || r.book.Count > r.limit.count || r.book.Bytes > r.limit.bytes
}

// trim lets the oldest go, those of the store and those of this batch.
func (r *rejectedWrite) trim() error {
	if !r.goes(r.cut) && r.cut == 0 {
		return nil
	}
	drop := func(seq events.Seq, size int64) error {
		r.book.Count--
		r.book.Bytes -= size
		r.start.seq = seq + 1
		return r.b.Delete(appendRejectedKey(nil, seq), nil)
	}
	dropFresh := func(below events.Seq) (err error) {
		for ; err == nil && len(r.order) > 0 && r.order[0] < below && r.goes(r.order[0]); r.order = r.order[1:] {
			err = drop(r.order[0], r.fresh[r.order[0]].Size)
		}
		return err
	}
	err := r.v.scan([]byte{prefixRejected}, appendRejectedKey(nil, r.start.seq), func(key, value []byte) (bool, error) {
		seq, rec, err := decodeRejected(key, value)
		if err == nil {
			err = dropFresh(seq)
		}
		if err != nil || !r.goes(seq) || len(r.order) > 0 && r.order[0] < seq {
			return false, err
		}
		return true, drop(seq, rec.Size)
	})
	if err != nil {
		return err
	}
	return dropFresh(math.MaxUint64)
}

func (r *rejectedWrite) trimAnswers() error {
	goes := func(seq events.Seq) bool { return seq < r.cutAnswers || r.book.Answers > r.limit.answers }
	if !goes(r.cutAnswers) && r.cutAnswers == 0 {
		return nil
	}
	drop := func(intake uint64) error {
		r.book.Answers--
		r.start.intake = intake + 1
		return r.b.Delete(appendAnswerKey(nil, intake), nil)
	}
	dropFresh := func(below events.Seq) (err error) {
		for ; err == nil && len(r.asked) > 0 && r.asked[0].seq < below && goes(r.asked[0].seq); r.asked = r.asked[1:] {
			err = drop(r.asked[0].intake)
		}
		return err
	}
	err := r.v.scan([]byte{prefixAnswer}, appendAnswerKey(nil, r.start.intake), func(key, value []byte) (bool, error) {
		a, err := decodeAnswer(key, value)
		if err == nil {
			err = dropFresh(a.Seq)
		}
		if err != nil || !goes(a.Seq) || len(r.asked) > 0 && r.asked[0].seq < a.Seq {
			return false, err
		}
		return true, drop(a.Intake)
	})
	if err != nil {
		return err
	}
	return dropFresh(math.MaxUint64)
}

func decodeRejected(key, value []byte) (events.Seq, rejectedRecord, error) {
	k := keyReader{b: key[1:]}
	seq := k.seq()
	if k.err != nil {
		return 0, rejectedRecord{}, fmt.Errorf("%s: %w", describeKey(key), errRecord)
	}
	rec, err := decodeJSON[rejectedRecord](describeKey(key), value)
	return seq, rec, err
}

func (v view) rejectedAt(seq events.Seq) (rec rejectedRecord, has bool, err error) {
	key := appendRejectedKey(nil, seq)
	has, err = v.get(key, func(value []byte) error {
		_, rec, err = decodeRejected(key, value)
		return err
	})
	return rec, has, err
}

// Rejected returns a page of the rejected submissions that are kept, newest
// first, without their originals. Its errors are [*events.Error] for what the
// caller got wrong.
func (s *Store) Rejected(q wire.ListRejected) (page wire.RejectedListed, err error) {
	page.Rejected = []wire.Rejected{}
	limit := q.Limit
	if limit == 0 {
		limit = DefaultListLimit
	}
	if limit < 1 || limit > MaxListLimit {
		return page, events.Refuse(events.CodeBadRequest, "limit is %d: it must be 1 to %d; follow next_cursor for more", limit, MaxListLimit)
	}
	end := after([]byte{prefixRejected})
	if q.Cursor != "" {
		seq, err := strconv.ParseUint(q.Cursor, 10, 64)
		if err != nil {
			return page, events.Refuse(events.CodeBadRequest, "cursor is malformed: use next_cursor of the page before, unchanged")
		}
		end = appendRejectedKey(nil, events.Seq(seq))
	}
	err = s.snapshot(func(v view) error {
		return v.backward([]byte{prefixRejected}, end, func(key, value []byte) (bool, error) {
			seq, rec, err := decodeRejected(key, value)
			if err != nil || rec.Purged || q.Type != "" && string(rec.Type) != q.Type || q.Code != "" && rec.Body.Code != q.Code {
				return true, err
			}
			if len(page.Rejected) == limit {
				page.NextCursor = page.Rejected[limit-1].Seq.String()
				return false, nil
			}
			page.Rejected = append(page.Rejected, fromRejected(seq, rec, false))
			return true, nil
		})
	})
	return page, err
}

// RejectedOf returns a rejected submission with its original, by the sequence
// of its event; false if none is kept.
func (s *Store) RejectedOf(seq events.Seq) (r wire.Rejected, found bool, err error) {
	err = s.lookup(func(v view) error {
		rec, has, err := v.rejectedAt(seq)
		if found = has && !rec.Purged; found {
			r = fromRejected(seq, rec, true)
		}
		return err
	})
	return r, found && err == nil, err
}

// Answer is what a message of the intake stream became, if no item: the
// rejected event, and the item that it repeats, if it is a duplicate. found is
// false for one that became an item, that is not answered yet, or whose answer
// is too old to be kept.
func (s *Store) Answer(intake uint64) (seq events.Seq, of events.ID, found bool, err error) {
	err = s.lookup(func(v view) error {
		found, err = v.get(appendAnswerKey(nil, intake), func(value []byte) error {
			a, err := decodeJSON[answerRecord](fmt.Sprintf("the answer to intake message %d", intake), value)
			seq, of = a.Seq, a.Of
			return err
		})
		return err
	})
	return seq, of, found, err
}

func fromRejected(seq events.Seq, rec rejectedRecord, whole bool) wire.Rejected {
	b := rec.Body
	r := wire.Rejected{Seq: seq, At: rec.At, Type: string(rec.Type), Code: b.Code, Message: b.Message, Subject: b.Subject,
		Size: b.Size, Truncated: b.Truncated, IntakeSeq: b.Intake.Seq}
	if whole {
		r.Headers, r.Text, r.Bytes = b.Headers, b.Text, b.Bytes
	}
	return r
}

// backward calls fn for each key of a prefix before end, the last first, until
// fn says no more.
func (v view) backward(prefix, end []byte, fn func(key, value []byte) (more bool, err error)) error {
	it, err := v.r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: end})
	if err != nil {
		return err
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		value, err := it.ValueAndErr()
		more := false
		if err == nil {
			more, err = fn(it.Key(), value)
		}
		if err != nil {
			return errors.Join(err, it.Close())
		}
		if !more {
			break
		}
	}
	return errors.Join(it.Error(), it.Close())
}
