package natsio

import (
	"slices"
	"sync"

	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// MaxSignals bounds each list of signals. What does not fit is dropped, and found by the
// sweep, which is requested at once.
const MaxSignals = 8192

// Signals collects what other goroutines report to the loop. Leaving a signal never blocks.
type Signals struct {
	Wake chan struct{}
	// WordRoom has an element for each word of a native run that is not handled yet.
	WordRoom chan struct{}
	maxAcks  int // room for everything that can be dispatched, and as much again

	mu   sync.Mutex // guards what follows
	left Taken
	acks []Stored
}

// Taken holds the signals that the loop takes at once.
type Taken struct {
	Registry bool // the registry has changed
	Lost     bool // the dispatch stream was replaced
	Sweep    bool
	Reload   bool           // start again from the log
	Cut      uint64         // the log has been cut below this frame
	Failed   []events.Token // messages that could not be pushed
	Spent    []events.Token // unclaimed messages that will not be delivered again
	Expired  []Expiry
	Beats    map[events.WorkerID]map[events.Token]bool // each worker's runs, from its last heartbeat
	Offers   map[events.WorkerID]wire.Offer            // each worker's last
	Types    map[events.Type]bool                      // types whose consumers must be made anew

	Lanes []lanes.Key // lanes that were last found to have consumers; bounded by MaxSignals

	Words   []ackmode.Word // bounded by their reader: see AckReader
	Looks   []ackmode.Look
	Made    []events.Type // native types whose consumers exist; bounded by MaxTypes
	Native  bool          // the native stream, or a consumer of it, must be made anew
	Another bool          // the native stream was replaced
	Cleaned bool          // the requested removals from it are done
	Heard   bool          // all words from before this ownership are here
}

// Stored says at which sequence of its stream a message was stored.
type Stored struct {
	Token  events.Token
	Seq    uint64
	Native bool
}

// Expiry is the end of a dispatch's lease, as the server reported it.
type Expiry struct {
	ID    events.ID
	Token events.Token
	Seq   uint64 // sequence of the dispatched message; 0: it is gone
}

func NewSignals(maxRunning int) *Signals {
	return &Signals{Wake: make(chan struct{}, 1), WordRoom: make(chan struct{}, MaxSignals), maxAcks: MaxSignals + 2*maxRunning}
}

// Leave changes the signals by fn and wakes the loop.
func (s *Signals) Leave(fn func(*Taken)) {
	s.mu.Lock()
	fn(&s.left)
	s.mu.Unlock()
	select {
	case s.Wake <- struct{}{}:
	default:
	}
}

func (s *Signals) RegistryChanged() { s.Leave(func(t *Taken) { t.Registry = true }) }
func (s *Signals) DispatchLost()    { s.Leave(func(t *Taken) { t.Lost = true }) }
func (s *Signals) SweepNow()        { s.Leave(func(t *Taken) { t.Sweep = true }) }

// ClockChanged makes the loop look at what is due.
func (s *Signals) ClockChanged() { s.Leave(func(*Taken) {}) }

// LogCut reports that the log has been cut below a frame.
func (s *Signals) LogCut(below uint64) {
	s.Leave(func(t *Taken) { t.Cut = max(t.Cut, below) })
}

func (s *Signals) PushFailed(token events.Token) {
	s.Leave(func(t *Taken) { t.Failed = bounded(t, t.Failed, token) })
}

func (s *Signals) MessageSpent(token events.Token) {
	s.Leave(func(t *Taken) { t.Spent = bounded(t, t.Spent, token) })
}

func (s *Signals) LeaseExpired(e Expiry) {
	s.Leave(func(t *Taken) { t.Expired = bounded(t, t.Expired, e) })
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

func (s *Signals) consumersWanted(typ events.Type) {
	s.Leave(func(t *Taken) {
		if t.Types == nil {
			t.Types = map[events.Type]bool{}
		}
		t.Types[typ] = true
	})
}

// ConsumersFound reports which lanes have consumers.
func (s *Signals) ConsumersFound(lanes []lanes.Key) {
	s.Leave(func(t *Taken) { t.Lanes = lanes[:min(len(lanes), MaxSignals)] })
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

// PushedNative notes a message's sequence in the native stream.
func (s *Signals) PushedNative(t events.Token, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.acks) < s.maxAcks {
		s.acks = append(s.acks, Stored{Token: t, Seq: seq, Native: true})
	}
}

// AckSignal leaves a word on a native dispatch.
func (s *Signals) AckSignal(w ackmode.Word) {
	s.Leave(func(t *Taken) { t.Words = append(t.Words, w) })
}

// NativeLooks leaves the results of inspecting native dispatches.
func (s *Signals) NativeLooks(looks []ackmode.Look) {
	s.Leave(func(t *Taken) { t.Looks = append(t.Looks, looks[:min(len(looks), max(0, s.maxAcks-len(t.Looks)))]...) })
}

func (s *Signals) NativeMade(typ events.Type) {
	s.Leave(func(t *Taken) {
		if !slices.Contains(t.Made, typ) {
			t.Made = append(t.Made, typ)
		}
	})
}

func (s *Signals) NativeLost()    { s.Leave(func(t *Taken) { t.Another = true }) }
func (s *Signals) nativeMissing() { s.Leave(func(t *Taken) { t.Native = true }) }
func (s *Signals) NativeCleaned() { s.Leave(func(t *Taken) { t.Cleaned = true }) }
func (s *Signals) NativeHeard()   { s.Leave(func(t *Taken) { t.Heard = true }) }

// TakeAcks returns the sequences noted since the last call.
func (s *Signals) TakeAcks(reuse []Stored) []Stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	acks := s.acks
	s.acks = reuse[:0]
	return acks
}

func bounded[T any](t *Taken, list []T, v T) []T {
	if len(list) >= MaxSignals {
		t.Sweep = true
		return list
	}
	return append(list, v)
}

func (s *Signals) Take() Taken {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.left
	s.left = Taken{}
	return t
}
