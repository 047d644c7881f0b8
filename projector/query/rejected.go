package query

import (
	"fmt"
	"strconv"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector/internal/layout"
	"github.com/streamwright/streamwright/wire"
)

// Rejected returns a page of the rejected submissions that are kept, newest
// first, without their originals. Its errors are [*events.Error] for what the
// caller got wrong.
func (s Reader) Rejected(q wire.ListRejected) (page wire.RejectedListed, err error) {
	page.Rejected = []wire.Rejected{}
	limit := q.Limit
	if limit == 0 {
		limit = DefaultListLimit
	}
	if limit < 1 || limit > MaxListLimit {
		return page, events.Refuse(events.CodeBadRequest, "limit is %d: it must be 1 to %d; follow next_cursor for more", limit, MaxListLimit)
	}
	end := layout.After([]byte{layout.PrefixRejected})
	if q.Cursor != "" {
		seq, err := strconv.ParseUint(q.Cursor, 10, 64)
		if err != nil {
			return page, events.Refuse(events.CodeBadRequest, "cursor is malformed: use next_cursor of the page before, unchanged")
		}
		end = layout.AppendRejectedKey(nil, events.Seq(seq))
	}
	err = s.snapshot(func(v layout.View) error {
		return v.Backward([]byte{layout.PrefixRejected}, end, func(key, value []byte) (bool, error) {
			seq, rec, err := layout.DecodeRejected(key, value)
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
func (s Reader) RejectedOf(seq events.Seq) (r wire.Rejected, found bool, err error) {
	err = s.snapshot(func(v layout.View) error {
		rec, has, err := v.RejectedAt(seq)
		if found = has && !rec.Purged; found {
			r = fromRejected(seq, rec, true)
		}
		return err
	})
	return r, found && err == nil, err
}

// Answer returns the answer to a message of the intake stream that became no
// item: the rejected event, and for a duplicate the item that it repeats. found
// is false for a message that became an item or is not answered yet, and for an
// answer too old to be kept.
func (s Reader) Answer(intake uint64) (seq events.Seq, of events.ID, found bool, err error) {
	err = s.snapshot(func(v layout.View) error {
		found, err = v.Get(layout.AppendAnswerKey(nil, intake), func(value []byte) error {
			a, err := layout.DecodeJSON[layout.AnswerRecord](fmt.Sprintf("the answer to intake message %d", intake), value)
			seq, of = a.Seq, a.Of
			return err
		})
		return err
	})
	return seq, of, found, err
}

func fromRejected(seq events.Seq, rec layout.RejectedRecord, whole bool) wire.Rejected {
	b := rec.Body
	r := wire.Rejected{Seq: seq, At: rec.At, Type: string(rec.Type), Code: b.Code, Message: b.Message, Subject: b.Subject,
		Size: b.Size, Truncated: b.Truncated, IntakeSeq: b.Intake.Seq}
	if whole {
		r.Headers, r.Text, r.Bytes = b.Headers, b.Text, b.Bytes
	}
	return r
}
