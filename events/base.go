package events

import (
	"encoding/json"
)

// Base is what [State] stands on: the projection as of its last applied
// batch. Lookups answer nil (or false) with no error for what is not there.
// The items that it returns are the State's to keep, and never written.
type Base interface {
	Meta() (Meta, error)
	Types() ([]TypeInfo, error)
	Item(ID) (*Item, error)
	// Document returns what is kept beside an item, nil for nothing.
	Document(DocKind, ID) ([]byte, error)
	Key(KeyRef) (HeldKey, bool, error)
	// Records returns all records of a kind.
	Records(RecordKind) ([]Record, error)
	// Waiters returns the items that wait for one (whose Relations.Waits name
	// it), in ascending order, those behind an id, at most limit of them.
	Waiters(of, behind ID, limit int) ([]ID, error)
}

// Loader is a Base that reads many items at once more cheaply than one by one.
type Loader interface {
	// Load calls fn with each of the items that exists, and its params if they
	// are asked for. ids are in ascending order.
	Load(ids []ID, withParams bool, fn func(*Item, []byte)) error
}

// Changes is what a run of whole decisions has changed: the difference
// between two positions of the log, which the projection writes in one atomic
// batch. It holds final values: applying the Changes of several runs one after
// the other, or those of one longer run, leaves the same store.
//
// A key whose Until is set and not after Meta.KeyTime has expired: the writer
// leaves it out, and removes those that it holds, so that the keys which a
// store holds depend on its position alone. A key may be given to another
// holder, with a later Until, before the writer has removed the expired one:
// an expiry found in an index is only that of the key if its Until is the same.
type Changes struct {
	Meta      Meta // as of Meta.Applied
	Types     []TypeInfo
	Forgotten []Type // types of which nothing is kept, but for those in Types
	Items     []ItemChange
	Documents []Document // the last of a kind and item counts
	Keys      []KeyChange
	Records   []Record // one for each that has changed
	Merged    []MergedEntry
	History   []Event          // of items, in order; Seq set
	Noted     []Event          // of causes, for whoever wants to be told
	Rejected  []RejectedChange // in order
	// Restated are histories as a carried event tells them, and Folds what is
	// to go of a history that has become too long. An item is in one of them at
	// most.
	Restated []Restated
	Folds    []Fold
	// SetBack is set when the clock was set back on the way: keys of the base whose
	// Until is not after its time are gone, whatever Meta.KeyTime is now. They go
	// before Keys are written.
	SetBack KeyTimes
	// Checksum is that of the event at Meta.Applied (see [Checksum]), filled in
	// by whoever has the stored bytes.
	Checksum uint64
}

// ItemChange is an item before (nil: it did not exist) and after (nil: it has
// been pruned, and all that is kept of it or beside it goes).
type ItemChange struct{ Old, New *Item }

// DocKind says what a document kept beside an item is.
type DocKind byte

// The kinds of documents.
const (
	DocParams     DocKind = 'p'
	DocResult     DocKind = 'r'
	DocCheckpoint DocKind = 'x' // what the last checkpointed run has saved
	DocOutcomes   DocKind = 'o' // how the children of the last spawn ended: a JSON array of Outcome
	DocChildren   DocKind = 'c' // the children of a spawn that is made in parts: a JSON array of ID
)

// DocKinds lists them all.
var DocKinds = [...]DocKind{DocParams, DocResult, DocCheckpoint, DocOutcomes, DocChildren}

// Document is kept beside an item. Nil Data removes it.
type Document struct {
	Kind DocKind
	ID   ID
	Data []byte
}

// RecordKind says what a [Record] is of.
type RecordKind byte

// The kinds of records.
const (
	RecordSchedule RecordKind = 's'
	RecordWorker   RecordKind = 'w' // a worker's circuit
	RecordCause    RecordKind = 'c' // what items have died of
	RecordDrain    RecordKind = 'd' // that a worker is to drain
)

// Record is one of the few things, in number, that belong to the partition as a
// whole; all of them are in memory. Nil Data removes it.
type Record struct {
	Kind RecordKind      `json:"kind"`
	Key  string          `json:"key"`
	Data json.RawMessage `json:"data,omitempty"`
}

// KeyChange is a key's holder, or (Has false) that it is free.
type KeyChange struct {
	Key HeldKey
	Has bool
}

// Empty is the Base of an empty log.
type Empty struct{}

func (Empty) Meta() (Meta, error)                  { return Meta{}, nil }
func (Empty) Types() ([]TypeInfo, error)           { return nil, nil }
func (Empty) Item(ID) (*Item, error)               { return nil, nil }
func (Empty) Document(DocKind, ID) ([]byte, error) { return nil, nil }
func (Empty) Key(KeyRef) (HeldKey, bool, error)    { return HeldKey{}, false, nil }

func (Empty) Records(RecordKind) ([]Record, error) { return nil, nil }
func (Empty) Waiters(ID, ID, int) ([]ID, error)    { return nil, nil }
