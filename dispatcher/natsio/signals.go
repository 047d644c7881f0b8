package natsio

import (
	"slices"
	"sync"

	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/wire"
)

// MaxSignals bounds each list of signals. What does not fit is dropped, and found by the
// sweep, which is requested at once.
const MaxSignals = 8192

// Signals collects what other goroutines report to the loop. Leaving a signal never blocks.
type Signals struct {
	Wake chan struct{}
	// WordRoom has an element for each word of an ack run that is not handled yet.
	WordRoom chan struct{}
	maxAcks  int // room for everything that can be dispatched, and as much again

	mu   sync.Mutex // guards what follows
	left Taken
	acks []Stored
}

// Taken holds the signals that the loop takes at once.
type Taken struct {
	Registry bool // the registry has changed
	Sweep    bool
	Reload   bool                                      // start again from the log
	Cut      uint64                                    // the log has been cut below this frame
	Beats    map[events.WorkerID]map[events.Token]bool // each worker's runs, from its last heartbeat
	Offers   map[events.WorkerID]wire.Offer            // each worker's last

	// Of ack types.
	Failed  []events.Token // messages that could not be pushed
	Words   []ackmode.Word // bounded by their reader: see AckReader
	Looks   []ackmode.Look
	Made    []events.Type // types whose consumers exist; bounded by MaxTypes
	Missing bool          // the dispatch stream, or a consumer of it, must be made anew
	Another bool          // the dispatch stream was replaced
	Cleaned bool          // the requested removals from it are done
	Heard   bool          // all words from before this ownership are here
}

// Stored says at which sequence of the dispatch stream a message was stored.
type Stored struct {
	Token events.Token
	Seq   uint64
}

func NewSignals(maxRunning int) *Signals {
	return &Signals{Wake: make(chan struct{}, 1), WordRoom: make(chan struct{}, MaxSignals), maxAcks: MaxSignals + 2*maxRunning}
}

// Leave changes the signals by fn and wakes the loop.
func (s *Signals) Leave(fn func(*Taken)) {
	s.mu.Lock()
	fn(&s.left)
	s.mu.Unlock()
	nudge.Send(s.Wake)
}

func (s *Signals) RegistryChanged() { s.Leave(func(t *Taken) { t.Registry = true }) }
func (s *Signals) SweepNow()        { s.Leave(func(t *Taken) { t.Sweep = true }) }

// ClockChanged makes the loop look at what is due.
func (s *Signals) ClockChanged() { s.Leave(func(*Taken) {}) }

// LogCut reports that the log has been cut below a frame.
func (s *Signals) LogCut(below uint64) {
	s.Leave(func(t *Taken) { t.Cut = max(t.Cut, below) })
}

// Heartbeat keeps the last heartbeat of each worker; there are at most MaxWorkers.
func (s *Signals) Heartbeat(h *wire.Heartbeat) {
	runs := make(map[events.Token]bool, len(h.InFlight))
	for _, r := range h.InFlight {
		if tok, err := wire.ParseToken(r.Token); err == nil {
			runs[tok] = true
		}
	}
	s.Leave(func(t *Taken) {
		if t.Beats == nil {
			t.Beats = map[events.WorkerID]map[events.Token]bool{}
		}
		t.Beats[events.WorkerID(h.Worker)] = runs
	})
}

// Offered keeps the last offer of each worker; there are at most MaxWorkers.
func (s *Signals) Offered(o *wire.Offer) {
	s.Leave(func(t *Taken) {
		if t.Offers == nil {
			t.Offers = map[events.WorkerID]wire.Offer{}
		}
		t.Offers[events.WorkerID(o.Worker)] = *o
	})
}

// PushFailed reports that the message of an ack type was not stored.
func (s *Signals) PushFailed(token events.Token) {
	s.Leave(func(t *Taken) {
		if len(t.Failed) >= MaxSignals {
			t.Sweep = true
			return
		}
		t.Failed = append(t.Failed, token)
	})
}

// Pushed notes a message's sequence. It does not wake the loop, which reads it when it next
// needs it, and can do without it.
func (s *Signals) Pushed(t events.Token, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.acks) < s.maxAcks {
		s.acks = append(s.acks, Stored{Token: t, Seq: seq})
	}
}

// TakeAcks returns the sequences noted since the last call.
func (s *Signals) TakeAcks(reuse []Stored) []Stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	acks := s.acks
	s.acks = reuse[:0]
	return acks
}

// AckSignal leaves a word on a dispatch.
func (s *Signals) AckSignal(w ackmode.Word) {
	s.Leave(func(t *Taken) { t.Words = append(t.Words, w) })
}

// AckLooks leaves the results of inspecting dispatches.
func (s *Signals) AckLooks(looks []ackmode.Look) {
	s.Leave(func(t *Taken) { t.Looks = append(t.Looks, looks[:min(len(looks), max(0, s.maxAcks-len(t.Looks)))]...) })
}

// AckMade reports that a type's consumer exists.
func (s *Signals) AckMade(typ events.Type) {
	s.Leave(func(t *Taken) {
		if !slices.Contains(t.Made, typ) {
			t.Made = append(t.Made, typ)
		}
	})
}

func (s *Signals) AcksLost()    { s.Leave(func(t *Taken) { t.Another = true }) }
func (s *Signals) acksMissing() { s.Leave(func(t *Taken) { t.Missing = true }) }
func (s *Signals) AcksCleaned() { s.Leave(func(t *Taken) { t.Cleaned = true }) }
func (s *Signals) AcksHeard()   { s.Leave(func(t *Taken) { t.Heard = true }) }

// Take takes all signals left.
func (s *Signals) Take() Taken {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.left
	s.left = Taken{}
	return t
}
