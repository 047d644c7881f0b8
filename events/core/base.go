package core

import (
	"github.com/streamwright/streamwright/events"
)

// Base is the projection under a [State], as of its last applied
// batch. Lookups answer nil (or false) with no error for what is not there.
// The items that it returns are the State's to keep, and never written.
type Base interface {
	Meta() (events.Meta, error)
	Types() ([]events.TypeInfo, error)
	Item(events.ID) (*events.Item, error)
	// Document returns what is kept beside an item, nil for nothing.
	Document(events.DocKind, events.ID) ([]byte, error)
	Key(events.KeyRef) (events.HeldKey, bool, error)
	// Records returns all records of a kind.
	Records(events.RecordKind) ([]events.Record, error)
	// Waiters returns the items that wait for one (whose Relations.Waits name
	// it), in ascending order, those behind an id, at most limit of them.
	Waiters(of, behind events.ID, limit int) ([]events.ID, error)
	// RejectedKept reports whether the rejected submission of an event is kept.
	RejectedKept(events.Seq) (bool, error)
}

// Keeper is a Base that may keep items whose retention is over. The State marks them
// ([events.Item.PrunedSeq]) in place of removing them, and otherwise goes on as if they
// were gone. What an operator has purged is removed all the same.
type Keeper interface {
	KeepsPruned() bool
}

// BatchBase is a Base that reads many items at once more cheaply than one by one.
type BatchBase interface {
	// Load calls fn with each of the items that exists, and its params if they
	// are asked for. ids are in ascending order.
	Load(ids []events.ID, withParams bool, fn func(*events.Item, []byte)) error
}

// Changes holds what a run of whole decisions has changed: the difference
// between two positions of the log, which the projection writes in one atomic
// batch. It holds final values: applying the Changes of several runs one after
// the other, or the Changes of one longer run, leaves the same store.
//
// A key whose Until is set and not after Meta.KeyTime has expired: the writer
// leaves it out, and removes expired keys that it holds, so that the keys in a
// store depend on its position alone. A key may be given to another holder, with
// a later Until, before the writer has removed the expired one: an expiry found
// in an index belongs to the key only if its Until is the same.
type Changes struct {
	Meta      events.Meta // as of Meta.Applied
	Types     []events.TypeInfo
	Forgotten []events.Type // nothing is kept of these types, unless they are in Types
	Items     []ItemChange
	Documents []Document // the last of a kind and item counts
	Keys      []KeyChange
	Records   []events.Record // one for each that has changed
	Merged    []events.MergedEntry
	History   []events.Event   // of items, in order; Seq set
	Noted     []events.Event   // of causes, for whoever wants to be told
	Rejected  []RejectedChange // in order
	// Restated are histories as a carried event tells them, and Folds what is
	// to go of a history that has become too long. An item is in one of them at
	// most.
	Restated []EncodedHistory
	Folds    []events.Fold
	// SetBack is set when the clock was set back on the way: keys of the base whose
	// Until is not after its time are gone, whatever Meta.KeyTime is now. They go
	// before Keys are written.
	SetBack KeyTimes
	// Checksum is the checksum of the frame of the event at Meta.Applied (see [events.Checksum]).
	// Whoever has the stored bytes fills it in.
	Checksum uint64
}

// ItemChange is an item before (nil: it did not exist) and after (nil: it has
// been pruned, and all that is kept of it or beside it goes).
type ItemChange struct{ Old, New *events.Item }

// Document is kept beside an item. Nil Data removes it.
type Document struct {
	Kind events.DocKind
	ID   events.ID
	Data []byte
}

// KeyChange is a key's holder, or (Has false) that it is free.
type KeyChange struct {
	Key events.HeldKey
	Has bool
}

// Empty is the Base of an empty log.
type Empty struct{}

func (Empty) Meta() (events.Meta, error)                         { return events.Meta{}, nil }
func (Empty) Types() ([]events.TypeInfo, error)                  { return nil, nil }
func (Empty) Item(events.ID) (*events.Item, error)               { return nil, nil }
func (Empty) Document(events.DocKind, events.ID) ([]byte, error) { return nil, nil }
func (Empty) Key(events.KeyRef) (events.HeldKey, bool, error)    { return events.HeldKey{}, false, nil }

func (Empty) Records(events.RecordKind) ([]events.Record, error)     { return nil, nil }
func (Empty) Waiters(events.ID, events.ID, int) ([]events.ID, error) { return nil, nil }
func (Empty) RejectedKept(events.Seq) (bool, error)                  { return false, nil }

// EncodedHistory holds entries of an item's history, encoded as they are kept.
type EncodedHistory struct {
	ID      events.ID
	History []events.StoredEvent
}

// FoldItem returns an item as its own events, in order from its created on, leave
// it. It leaves out what other items' events have done to it: submissions merged
// into it, items that wait for it.
func FoldItem(evs []events.Event) (*events.Item, error) {
	base := foldBase{stubs: map[events.ID]*events.Item{}}
	for _, ev := range evs {
		if b, ok := ev.Body.(*events.Merged); ok {
			base.stubs[b.Into] = &events.Item{ID: b.Into, Type: ev.Type, State: events.StateQueued}
		}
	}
	s, err := NewState(base)
	if err != nil {
		return nil, err
	}
	for _, ev := range evs {
		if err := s.Apply(ev); err != nil {
			return nil, err
		}
	}
	if len(evs) == 0 {
		return nil, nil
	}
	return s.Item(evs[0].ID)
}

// foldBase holds nothing but what an item was merged into.
type foldBase struct {
	Empty
	stubs map[events.ID]*events.Item
}

func (b foldBase) Item(id events.ID) (*events.Item, error) { return b.stubs[id], nil }
