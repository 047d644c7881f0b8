package layout

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// What is written once a batch, not once an item, is JSON: encoding/json sorts
// maps, so the same value always gives the same bytes, and a record gains a
// field without a new version.

func DecodeJSON[T any](what string, data []byte) (v T, err error) {
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("%s: %w: %w", what, ErrRecord, err)
	}
	return v, nil
}

// AppendHeld appends the record of a held key; its Ref is left to the key.
func AppendHeld(b []byte, h events.HeldKey) []byte {
	return append(AppendUint(AppendTime(append(b, h.ID[:]...), h.Until), uint64(h.N)), h.Digest...)
}

func DecodeHeld(ref events.KeyRef, data []byte) (events.HeldKey, error) {
	if len(data) < 32 {
		return events.HeldKey{}, fmt.Errorf("%s: %w", describeRef(ref), ErrRecord)
	}
	r := KeyReader{B: data}
	return events.HeldKey{Ref: ref, ID: r.ID(), Until: FromNanos(r.Nanos()), N: int64(r.Uint()), Digest: string(data[32:])}, nil
}

// Expired reports whether a held key does not exist any more.
func Expired(h events.HeldKey, m events.Meta) bool {
	return !h.Until.IsZero() && !h.Until.After(m.KeyTime(h.Ref.Kind))
}

// MergedRecord is the stored form of a merged submission; its position is in
// the key.
type MergedRecord struct {
	ID         events.ID         `json:"id"`
	At         time.Time         `json:"at"`
	Provenance events.Provenance `json:"provenance,omitzero"`
}

// replayedBrief says of a replay's params only whether there were any.
type replayedBrief struct {
	*events.Replayed
	Params   json.RawMessage `json:"params,omitempty"`
	Replaced bool            `json:"params_replaced,omitempty"`
}

// checkpointedBrief leaves the checkpoint out.
type checkpointedBrief struct{}

func (checkpointedBrief) Kind() events.Kind { return events.KindCheckpointed }

// maxHistoryPayload bounds the payload of a signal in an item's history, in bytes: the
// log has longer ones.
const maxHistoryPayload = 1 << 10

// signalledBrief leaves a long payload out.
type signalledBrief struct {
	*events.Signalled
	Payload json.RawMessage `json:"payload,omitempty"`
	Omitted bool            `json:"payload_omitted"`
}

func ReplacesParams(data []byte) bool {
	var b replayedBrief
	return json.Unmarshal(data, &b) == nil && b.Replaced
}

// AppendHistory appends an event's record in its item's history: its packed form
// without what the key, the item and the documents beside it already say. It changes ev: it
// takes those out.
func AppendHistory(b []byte, ev *events.Event) ([]byte, error) {
	of := ev.ID
	ev.ID, ev.Type = events.ID{}, ""
	switch body := ev.Body.(type) {
	case *events.Queued:
		if body.Outcomes != nil {
			brief := *body
			brief.Outcomes = nil
			ev.Body = &brief
		}
	case *events.Checkpointed:
		ev.Body = checkpointedBrief{}
	case *events.Signalled:
		if len(body.Payload) > maxHistoryPayload {
			ev.Body = signalledBrief{Signalled: body, Omitted: true}
		}
	case *events.Replayed:
		ev.Body = replayedBrief{Replayed: body, Replaced: body.Params != nil}
	}
	return ev.AppendPacked(b, of)
}

// HistoryJSON is the JSON of a record in the history of the item of.
func HistoryJSON(of events.ID, seq events.Seq, record []byte) ([]byte, error) {
	data, err := events.UnpackJSON(nil, of, record)
	if err != nil {
		return nil, fmt.Errorf("event %d of item %s: %w", seq, of, ErrRecord)
	}
	return data, nil
}

func DecodeHistory(id events.ID, t events.Type, seq events.Seq, record []byte) (h wire.HistoryEvent, err error) {
	data, err := HistoryJSON(id, seq, record)
	if err == nil {
		h, err = DecodeJSON[wire.HistoryEvent](fmt.Sprintf("event %d of item %s", seq, id), data)
	}
	h.Seq, h.ID, h.Type = seq, id.String(), string(t)
	return h, err
}

func DecodeID(data []byte) (id events.ID, err error) {
	if len(data) != len(id) {
		return id, ErrRecord
	}
	return events.ID(data), nil
}

func DecodeUint(data []byte) (uint64, error) {
	if len(data) != 8 {
		return 0, ErrRecord
	}
	return binary.BigEndian.Uint64(data), nil
}

// WholeTo is the event by which the clock was last set back, if that was before
// a moment: the events before it are then of its past, whatever their times say.
func WholeTo(m events.Meta, until time.Time) events.Seq {
	if until.Before(m.SetBackTo) {
		return 0
	}
	return m.SetBackAt
}
