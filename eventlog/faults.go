package eventlog

import (
	"errors"

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
	Rival   *Write  // of FaultConflict; its Before follows from the stream
	Land    Landing // of FaultLate
	Foreign int     // of FaultForeign: how many
}

var errInjected = errors.New("injected fault")

// send gives an append to the stream, under the fault. An *apiError is a refusal, any
// other means that there is no answer. REQUIRES: m.mu.
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
		_ = s.store(publish{message: s.rival(*f.Rival)}) // no checks but the bound: it has won
	case FaultForeign:
		for range f.Foreign {
			_ = s.store(publish{message: message{data: []byte(`{"stream":"X","seq":1}`)}})
		}
	}
	if err := s.store(p); err != nil {
		return err
	}
	return nil
}

// rival is the message of another writer. REQUIRES: mu.
func (s *MemoryStream) rival(w Write) message {
	for i := len(s.msgs) - 1; i >= 0; i-- {
		if h, foreign, err := readHeader(&s.msgs[i]); foreign == "" && err == nil {
			w.Before = h.Before + uint64(h.count)
			break
		}
	}
	msg, err := newEncoder(wire.Default, s.partition).encode(&w, maxMemoryFrame)
	if err != nil {
		panic("eventlog: a fault's rival events can't be encoded: " + err.Error())
	}
	return message{header: msg.Header, data: msg.Data}
}
