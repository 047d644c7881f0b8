package logtest

import (
	"errors"

	"github.com/streamwright/streamwright/eventlog"
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
	// FaultConflict: a rival's frame is stored before ours.
	FaultConflict
	// FaultLost: nothing is stored, and there is no answer.
	FaultLost
	// FaultAckLost: it is stored, and there is no answer.
	FaultAckLost
	// FaultLate: it arrives later (see Landing), and there is no answer.
	FaultLate
	// FaultFull: the storage takes nothing.
	FaultFull
	// FaultForeign: foreign messages are stored before ours.
	FaultForeign
)

// Fault is a fault of one append of a Memory.
type Fault struct {
	Kind    FaultKind
	Rival   *eventlog.Write // of FaultConflict; its Before follows from the stream
	Land    Landing         // of FaultLate
	Foreign int             // of FaultForeign: how many
}

// PurgeFault is a way in which one Purge of a Memory goes wrong.
type PurgeFault uint8

// The faults of a Purge: nothing; there is no answer, and it was not done; or
// it was.
const (
	PurgeOK PurgeFault = iota
	PurgeLost
	PurgeAckLost
)

// ScriptPurges sets the faults of the coming purges, one for each.
func (m *Memory) ScriptPurges(faults ...PurgeFault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.purges = append(m.purges[:0:0], faults...)
}

var errInjected = errors.New("injected fault")

// send gives an append to the stream, under the fault. It fails with errInjected if there is no
// answer; other errors are refusals. REQUIRES: m.mu.
func (m *Memory) send(p publish, f Fault) error {
	s := m.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	switch f.Kind {
	case FaultLost:
		return errInjected
	case FaultAckLost:
		_ = s.store(p)
		return errInjected
	case FaultLate:
		s.parked = append(s.parked, parked{p, f.Land})
		return errInjected
	case FaultFull:
		return errStreamFull
	case FaultConflict:
		_ = s.store(publish{Stored: s.rival(*f.Rival)}) // no checks but the bound: it has won
	case FaultForeign:
		for range f.Foreign {
			_ = s.store(publish{Stored: eventlog.Stored{Data: []byte(`{"stream":"X","seq":1}`)}})
		}
	}
	return s.store(p)
}

// rival is the message of another writer. REQUIRES: mu.
func (s *MemoryStream) rival(w eventlog.Write) eventlog.Stored {
	for i := len(s.msgs) - 1; i >= 0; i-- {
		if d := eventlog.Decode(&s.msgs[i]); d.Foreign == "" && d.Err == nil {
			w.Before = d.Frame.Before + uint64(len(d.Frame.Events))
			break
		}
	}
	p, err := message(s.partition, 0, &w)
	if err != nil {
		panic("logtest: a fault's rival events can't be encoded: " + err.Error())
	}
	return p.Stored
}
