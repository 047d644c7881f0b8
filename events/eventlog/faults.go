package eventlog

import (
	"errors"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Landing says when a message that was given up arrives after all, if it still
// fits then.
type Landing uint8

// The moments at which a given-up message can land.
const (
	LandOnDemand  Landing = iota // when MemoryStream.Land is called
	LandAfterLast                // just after the next Last has been answered
	LandAfterRead                // just after the next Read has taken its snapshot
)

// FaultKind is a way in which one append goes wrong.
type FaultKind uint8

// The faults.
const (
	// FaultNone: nothing.
	FaultNone FaultKind = iota
	// FaultConflict: a rival's events are stored when N of ours are, before the
	// next. With Atomic a rival can only come first.
	FaultConflict
	// FaultLost: nothing is stored, and there is no answer.
	FaultLost
	// FaultAckLost: all is stored, and there is no answer.
	FaultAckLost
	// FaultPrefix: the first N are stored, the others are lost, and there is no
	// answer. With Atomic it is FaultLost.
	FaultPrefix
	// FaultLate: the first N are stored, the others arrive later (see Landing),
	// and there is no answer. With Atomic all arrive later.
	FaultLate
	// FaultFull: the storage takes N of ours and then no more. With Atomic it
	// takes none.
	FaultFull
	// FaultForeign: Foreign foreign messages are stored when N of ours are, before
	// the next. With Atomic they can only come first.
	FaultForeign
)

// Fault is a fault of one append of a Memory.
type Fault struct {
	Kind  FaultKind
	N     int            // events of the append that are stored before it strikes
	Rival []events.Event // of FaultConflict
	Land  Landing        // of FaultLate

	Foreign int // of FaultForeign: how many
}

var errInjected = errors.New("injected fault")

// send gives an append to the stream, under the fault. REQUIRES: m.mu.
func (m *Memory) send(after events.Seq, ps []publish, evs []events.Event, f Fault) error {
	s := m.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	ambiguous := func(cause error) error {
		m.open = false
		return &AmbiguousError{Expected: after, Count: len(ps), Cause: cause}
	}
	cut := min(f.N, len(ps))
	if m.Atomic {
		cut = 0
	}
	switch f.Kind {
	case FaultLost:
		return ambiguous(errInjected)
	case FaultAckLost:
		_, _ = s.storeAll(ps, m.Atomic)
		return ambiguous(errInjected)
	case FaultPrefix, FaultLate:
		_, _ = s.storeAll(ps[:cut], m.Atomic)
		if f.Kind == FaultLate {
			s.parked = append(s.parked, parked{ps[cut:], m.Atomic, f.Land})
		}
		return ambiguous(errInjected)
	}
	stored, err := s.storeAll(ps[:cut], m.Atomic)
	if f.Kind == FaultFull && err == nil {
		err = &apiError{Code: codeStoreFailed, Description: "maximum bytes exceeded"}
	}
	if f.Kind == FaultConflict {
		for _, p := range rivals(s.partition, f.Rival) {
			_, _ = s.store(p) // no checks but the bound
		}
	}
	if f.Kind == FaultForeign {
		for range f.Foreign {
			_, _ = s.store(publish{message: message{subject: ForeignSubject(s.partition), data: []byte(`{"stream":"X","seq":1}`)}}) // no checks but the bound
		}
	}
	if err == nil {
		var n int
		n, err = s.storeAll(ps[cut:], m.Atomic)
		stored += n
	}
	if err != nil && err.fenced() && s.foreign(after+events.Seq(stored), s.last()) {
		return &interruptedError{FencedError{Expected: after, Found: s.last(), Detail: err.Description}, keptOf(after, evs[:stored]), s.last()}
	}
	return m.verdict(after, stored, err, ambiguous)
}

// ForeignSubject returns a subject of a partition's stream that no event has.
func ForeignSubject(partition int) string {
	return wire.Default.Event(partition, "x", events.KindCreated)
}

// verdict returns the outcome of an append, once the fate of its messages is
// known.
func (m *Memory) verdict(after events.Seq, stored int, err *apiError, ambiguous func(error) error) error {
	switch {
	case err == nil:
		return nil
	case err.fenced():
		return &FencedError{Expected: after, Found: m.stream.last(), Detail: err.Description}
	case err.full():
		m.open = stored == 0
		return &FullError{Expected: after, Prefix: stored > 0, Detail: err.Error()}
	}
	return ambiguous(err)
}

// storeAll sends messages one behind the other, not stopping at a refusal, as
// a pipelining writer does. It returns how many were stored and the first
// refusal. REQUIRES: s.mu.
func (s *MemoryStream) storeAll(ps []publish, atomic bool) (stored int, first *apiError) {
	if atomic && len(ps) > 0 {
		if err := s.batch(ps); err != nil {
			return 0, err
		}
		return len(ps), nil
	}
	for _, p := range ps {
		if _, err := s.store(p); err == nil {
			stored++
		} else if first == nil {
			first = err
		}
	}
	return stored, first
}

// rivals are the messages of another writer, with no expectations: it has won.
func rivals(partition int, evs []events.Event) []publish {
	if len(evs) == 0 {
		return nil
	}
	m := NewMemoryStream(partition).Open()
	if err := m.enc.encode(evs, 1<<30); err != nil {
		panic("eventlog: a fault's rival events can't be encoded: " + err.Error())
	}
	ps := m.publishes(0, len(evs))
	for i := range ps {
		ps[i].expectSeq, ps[i].expectID = nil, ""
	}
	return ps
}
