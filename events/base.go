package events

import "time"

// Base is what [State] stands on: the projection as of its last applied
// batch. Lookups answer nil (or false) with no error for what is not there.
// The items that it returns are the State's to keep, and never written.
type Base interface {
	Meta() (Meta, error)
	Types() ([]TypeInfo, error)
	Item(ID) (*Item, error)
	// Params returns an item's params, nil for an unknown item.
	Params(ID) ([]byte, error)
	Key(KeyRef) (HeldKey, bool, error)
	// ExpiringKeys returns up to limit keys whose Until is set and not after
	// t, in order of Until.
	ExpiringKeys(t time.Time, limit int) ([]HeldKey, error)
	// FirstExpiry is the earliest Until of all keys, the zero time for none.
	FirstExpiry() (time.Time, error)
}

// Changes is what a run of whole decisions has changed: the difference
// between two positions of the log, which the projection writes in one atomic
// batch. It holds final values: applying the Changes of several runs one after
// the other, or those of one longer run, leaves the same store.
type Changes struct {
	Meta    Meta // as of Meta.Applied
	Types   []TypeInfo
	Items   []ItemChange
	Params  []Blob
	Results []Blob
	Keys    []KeyChange
	Merged  []MergedEntry
	History []Event // of items, in order; Seq set
	// Checksum is that of the event at Meta.Applied, see [Checksum].
	Checksum uint64
}

// ItemChange is an item before (nil: it did not exist) and after.
type ItemChange struct{ Old, New *Item }

// Blob is a document kept beside an item. Nil Data removes it.
type Blob struct {
	ID   ID
	Data []byte
}

// KeyChange is a key before and after. Had and Has say which of the two exist.
type KeyChange struct {
	Old, New HeldKey
	Had, Has bool
}

// Empty is the Base of an empty log.
type Empty struct{}

func (Empty) Meta() (Meta, error)                            { return Meta{}, nil }
func (Empty) Types() ([]TypeInfo, error)                     { return nil, nil }
func (Empty) Item(ID) (*Item, error)                         { return nil, nil }
func (Empty) Params(ID) ([]byte, error)                      { return nil, nil }
func (Empty) Key(KeyRef) (HeldKey, bool, error)              { return HeldKey{}, false, nil }
func (Empty) ExpiringKeys(time.Time, int) ([]HeldKey, error) { return nil, nil }
func (Empty) FirstExpiry() (time.Time, error)                { return time.Time{}, nil }
