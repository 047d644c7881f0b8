package events

import (
	"encoding/json"
	"fmt"
	"time"
)

// Snapshot is the payload of snapshot. A round of it re-states all that is
// known, so that the log in front of the round can be cut: a snapshot "begin",
// then a carried for each item whose base lies in front of that, snapshots
// "rejected" with what is kept of submissions that became no item, and at last,
// in one decision, snapshots "part" and one "end" with what else belongs to no
// item. A round without its end means nothing.
type Snapshot struct {
	Round uint64 `json:"round"`
	Mark  string `json:"mark"`           // begin, rejected, part, end
	Part  int    `json:"part,omitempty"` // counts the parts of a round's end, from 1
	// Level is the log's format level, set with the begin of a round if it is above
	// 1, and Version the program that raised it: the event that did is cut away.
	Level   int        `json:"level,omitempty"`
	Version string     `json:"version,omitempty"`
	Meta    *Meta      `json:"meta,omitempty"`
	Types   []TypeInfo `json:"types,omitempty"` // without the counters, which follow from the items
	Records []Record   `json:"records,omitempty"`
	Keys    []HeldKey  `json:"keys,omitempty"`

	Rejected []KeptRejected `json:"rejected,omitempty"`
	Answers  []KeptAnswer   `json:"answers,omitempty"`
	// Kept is set with the end of a round that has re-stated those two.
	Kept *RejectedKept `json:"kept,omitempty"`
}

// The marks of a [Snapshot].
const (
	MarkBegin    = "begin"
	MarkRejected = "rejected"
	MarkPart     = "part"
	MarkEnd      = "end"
)

// Carried is the payload of carried: all that is known of an item, or a part
// of it if that is much. The first part has the item; nothing else is decided before the
// last.
type Carried struct {
	Part      int               `json:"part"`
	Parts     int               `json:"parts"`
	Item      *Item             `json:"item,omitempty"`
	Keys      []HeldKey         `json:"keys,omitempty"` // that lead to it
	Documents []CarriedDocument `json:"documents,omitempty"`
	Merged    []MergedEntry     `json:"merged,omitempty"`
	History   []StoredEvent     `json:"history,omitempty"`
	Fold      *Fold             `json:"fold,omitempty"`
}

// CarriedDocument is a document of a carried item.
type CarriedDocument struct {
	Kind DocKind         `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// StoredEvent is an entry of an item's history, in the projection's form: an
// event's JSON without what stands beside it.
type StoredEvent struct {
	Seq  Seq             `json:"seq"`
	Data json.RawMessage `json:"event"`
}

// Fold shortens what is kept of an item: the history's entries From to To
// become one, at To, that says how many they were; the submissions merged into
// it up to MergedTo are counted only.
type Fold struct {
	ID       ID              `json:"-"`
	From     Seq             `json:"from,omitempty"` // 0: none
	To       Seq             `json:"to,omitempty"`
	Marker   json.RawMessage `json:"marker,omitempty"`
	MergedTo Seq             `json:"merged_to,omitempty"` // 0: none
}

// Pruned is the payload of pruned: the item is forgotten, and its id may be
// used again.
type Pruned struct {
	Reason string `json:"reason"` // retention, purged
}

func (*Snapshot) Kind() Kind { return KindSnapshot }
func (*Carried) Kind() Kind  { return KindCarried }
func (*Pruned) Kind() Kind   { return KindPruned }

// names are the forms in JSON of kinds that are single letters in the store;
// a letter without a name stands for itself.
type names map[byte]string

func (n names) text(k byte) ([]byte, error) {
	if s := n[k]; s != "" {
		return []byte(s), nil
	}
	return []byte{k}, nil
}

func (n names) parse(what string, b []byte) (byte, error) {
	for k, s := range n {
		if s == string(b) {
			return k, nil
		}
	}
	if len(b) != 1 {
		return 0, fmt.Errorf("%q is no kind of %s", Clip(string(b), 64), what)
	}
	return b[0], nil
}

var (
	docNames    = names{byte(DocParams): "params", byte(DocResult): "result", byte(DocCheckpoint): "checkpoint", byte(DocOutcomes): "outcomes", byte(DocChildren): "children", byte(DocMailbox): "mailbox", byte(DocQuestion): "question"}
	recordNames = names{byte(RecordSchedule): "schedule", byte(RecordWorker): "worker", byte(RecordCause): "cause", byte(RecordDrain): "drain", byte(RecordNamespace): "namespace"}
	keyNames    = names{byte(KeyDedup): "dedup", byte(KeyIdempotency): "idempotency", byte(KeyMsgID): "msg_id", byte(KeyRate): "rate", byte(KeyGroup): "group"}
)

// MarshalText implements encoding.TextMarshaler.
func (k DocKind) MarshalText() ([]byte, error) { return docNames.text(byte(k)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *DocKind) UnmarshalText(b []byte) (err error) {
	*(*byte)(k), err = docNames.parse("document", b)
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (k RecordKind) MarshalText() ([]byte, error) { return recordNames.text(byte(k)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *RecordKind) UnmarshalText(b []byte) (err error) {
	*(*byte)(k), err = recordNames.parse("record", b)
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (k KeyKind) MarshalText() ([]byte, error) { return keyNames.text(byte(k)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *KeyKind) UnmarshalText(b []byte) (err error) {
	*(*byte)(k), err = keyNames.parse("key", b)
	return err
}

// RejectedPurged is the payload of rejected_purged: the rejected submission of
// event Seq is kept no longer.
type RejectedPurged struct {
	Seq    Seq    `json:"seq"`
	Reason string `json:"reason"` // purged
}

func (*RejectedPurged) Kind() Kind { return KindRejectedPurged }

// KeptBytes returns the size with which a rejected submission counts towards
// MaxRejectedKeptBytes.
func (r *Rejected) KeptBytes() int64 {
	const beside = 256 // subject, code, and what the record itself takes
	n := beside + len(r.Text) + len(r.Bytes) + len(r.Message)
	for name, values := range r.Headers {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return int64(n)
}

// KeptRejected is a rejected submission as a round re-states it. Of one that was
// purged only Seq and Size are left: it keeps its place among the newest, so
// that which others are kept depends on the log alone.
type KeptRejected struct {
	Seq  Seq       `json:"seq"` // of its rejected event
	Type Type      `json:"type,omitempty"`
	At   time.Time `json:"at,omitzero"`
	Size int64     `json:"size"`               // its share of the bound; see [Rejected.KeptBytes]
	Body *Rejected `json:"rejected,omitempty"` // nil: it was purged
}

// KeptAnswer is the answer to a message of the intake stream that became no item, as
// a round re-states it.
type KeptAnswer struct {
	Intake uint64 `json:"intake_seq"`
	Seq    Seq    `json:"seq"`         // of its rejected event
	Of     ID     `json:"of,omitzero"` // a duplicate: the item that it repeats
}

// RejectedKept says, at a round's end, from where on the round has re-stated
// what is kept of submissions that became no item: all before has made room.
type RejectedKept struct {
	From    Seq `json:"from"`    // the rejected submissions
	Answers Seq `json:"answers"` // the answers to intake messages, by the event that gave them
}
