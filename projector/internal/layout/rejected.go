package layout

import (
	"fmt"
	"time"

	"github.com/streamwright/streamwright/events"
)

// RejectedRecord is a rejected submission. One that was purged keeps its place
// and size, so that which others are kept depends on the log's position alone.
type RejectedRecord struct {
	Type   events.Type      `json:"type,omitempty"`
	At     time.Time        `json:"at,omitzero"`
	Size   int64            `json:"size"` // what it counts as against the bound
	Body   *events.Rejected `json:"body,omitempty"`
	Purged bool             `json:"purged,omitempty"`
}

// AnswerRecord is the answer to a message of the intake stream that became no
// item.
type AnswerRecord struct {
	Seq events.Seq `json:"seq"`         // of the rejected event
	Of  events.ID  `json:"of,omitzero"` // a duplicate: the item that it repeats
}

// RejectedBook counts the rejected submissions and answers that are kept.
type RejectedBook struct {
	Count   int64 `json:"count"`
	Bytes   int64 `json:"bytes"`
	Answers int64 `json:"answers"`
	// From is set while a log that has been cut is read up to the end of the
	// round at its head: what lies before it had to go, also what the round
	// tells only now.
	From events.Seq `json:"from,omitempty"`
}

func (v View) RejectedBook() (b RejectedBook, err error) {
	_, err = v.Get(MetaKey(MetaRejected), func(data []byte) error {
		b, err = DecodeJSON[RejectedBook]("the book of rejected submissions", data)
		return err
	})
	return b, err
}

func DecodeRejected(key, value []byte) (events.Seq, RejectedRecord, error) {
	k := KeyReader{B: key[1:]}
	seq := k.Seq()
	if k.Err != nil {
		return 0, RejectedRecord{}, fmt.Errorf("%s: %w", DescribeKey(key), ErrRecord)
	}
	rec, err := DecodeJSON[RejectedRecord](DescribeKey(key), value)
	return seq, rec, err
}

func (v View) RejectedAt(seq events.Seq) (rec RejectedRecord, has bool, err error) {
	key := AppendRejectedKey(nil, seq)
	has, err = v.Get(key, func(value []byte) error {
		_, rec, err = DecodeRejected(key, value)
		return err
	})
	return rec, has, err
}

func DecodeAnswer(key, value []byte) (events.KeptAnswer, error) {
	k := KeyReader{B: key[1:]}
	intake := k.Uint()
	if k.Err != nil {
		return events.KeptAnswer{}, fmt.Errorf("%s: %w", DescribeKey(key), ErrRecord)
	}
	a, err := DecodeJSON[AnswerRecord](DescribeKey(key), value)
	return events.KeptAnswer{Intake: intake, Seq: a.Seq, Of: a.Of}, err
}
