package projector

import (
	"fmt"
	"time"

	"github.com/streamwright/streamwright/events"
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

func (v view) rejectedBook() (b rejectedBook, err error) {
	_, err = v.get(metaKey(metaRejected), func(data []byte) error {
		b, err = decodeJSON[rejectedBook]("the book of rejected submissions", data)
		return err
	})
	return b, err
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

func decodeAnswer(key, value []byte) (events.KeptAnswer, error) {
	k := keyReader{b: key[1:]}
	intake := k.uint()
	if k.err != nil {
		return events.KeptAnswer{}, fmt.Errorf("%s: %w", describeKey(key), errRecord)
	}
	a, err := decodeJSON[answerRecord](describeKey(key), value)
	return events.KeptAnswer{Intake: intake, Seq: a.Seq, Of: a.Of}, err
}
