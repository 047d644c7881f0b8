package events

// State is the partition as of its last decided event: see the package
// comment. Owned by one goroutine.
type State struct{ base Base }

// NewState loads what is always in memory (the partition's record, the types)
// and starts an overlay over base.
func NewState(base Base) (*State, error) { panic("being written") }

// Apply folds one event in. Its Seq must be the next. Events of one decision
// are applied together by the caller.
func (s *State) Apply(ev Event) error { panic("being written") }

// TakeChanges returns what has changed since the last call, or nil. The
// caller must call Projected once it is written.
func (s *State) TakeChanges() *Changes { panic("being written") }

// Projected tells the State that its base has everything up to seq, so that
// what no later event has touched may leave memory.
func (s *State) Projected(seq Seq) { panic("being written") }

// Meta is the partition's record.
func (s *State) Meta() Meta { panic("being written") }

// Item returns the item, nil if there is none.
func (s *State) Item(id ID) (*Item, error) { panic("being written") }
