package dispatcher

import (
	"slices"
	"sync"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// maxSignals bounds each list of signals. What does not fit is dropped and
// found by the sweep, which is asked for at once.
const maxSignals = 8192

// signals is where other goroutines leave word for the loop. Leaving word
// never blocks.
type signals struct {
	wake chan struct{}
	// wordRoom has an element for each word of a native run that is not heard yet.
	wordRoom chan struct{}
	maxAcks  int // room for everything that can be dispatched, and as much again

	mu   sync.Mutex // guards what follows
	left taken
	acks []pushAck
}

// taken is what the loop takes at once.
type taken struct {
	registry bool // the registry has changed
	lost     bool // the dispatch stream is another
	sweep    bool
	reload   bool           // start again from the log
	cut      events.Seq     // the log has been cut below it
	failed   []events.Token // messages that could not be pushed
	spent    []events.Token // unclaimed messages that will not be delivered any more
	expired  []expiry
	beats    map[events.WorkerID]map[events.Token]bool // what each worker runs, as it last said
	types    map[events.Type]bool                      // whose consumers are to be made anew

	lanes []lanes.Key // that have consumers, as they were last found; bounded by maxSignals

	words   []nativeWord // bounded by their reader: see nativeReader
	looks   []nativeLook
	made    []events.Type // native types whose consumers are there; bounded by MaxTypes
	native  bool          // the native stream, or a consumer of it, is to be made anew
	another bool          // the native stream is another
	cleaned bool          // what was asked to be removed from it has been
	heard   bool          // all words of before this ownership are left
}

// pushAck says where in the dispatch stream a message went.
type pushAck struct {
	token  events.Token
	seq    uint64
	native bool
}

// expiry is the end of a dispatch's lease, as the server told it.
type expiry struct {
	id    events.ID
	token events.Token
	seq   uint64 // of the dispatched message; 0: it is gone
}

func newSignals(maxRunning int) *signals {
	return &signals{wake: make(chan struct{}, 1), wordRoom: make(chan struct{}, maxSignals), maxAcks: maxSignals + 2*maxRunning}
}

// leave changes the signals by fn and wakes the loop.
func (s *signals) leave(fn func(*taken)) {
	s.mu.Lock()
	fn(&s.left)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *signals) registryChanged() { s.leave(func(t *taken) { t.registry = true }) }
func (s *signals) dispatchLost()    { s.leave(func(t *taken) { t.lost = true }) }
func (s *signals) sweepNow()        { s.leave(func(t *taken) { t.sweep = true }) }

// clockChanged has the loop look at what is due.
func (s *signals) clockChanged() { s.leave(func(*taken) {}) }

// logCut says that the log has been cut below a position.
func (s *signals) logCut(below events.Seq) {
	s.leave(func(t *taken) { t.cut = max(t.cut, below) })
}

func (s *signals) pushFailed(token events.Token) {
	s.leave(func(t *taken) { t.failed = bounded(t, t.failed, token) })
}

func (s *signals) messageSpent(token events.Token) {
	s.leave(func(t *taken) { t.spent = bounded(t, t.spent, token) })
}

func (s *signals) leaseExpired(e expiry) {
	s.leave(func(t *taken) { t.expired = bounded(t, t.expired, e) })
}

// heartbeat keeps the last one of each worker, of which there are at most
// MaxWorkers.
func (s *signals) heartbeat(h *wire.Heartbeat) {
	runs := make(map[events.Token]bool, len(h.InFlight))
	for _, r := range h.InFlight {
		if tok, err := wire.ParseToken(r.Token); err == nil {
			runs[tok] = true
		}
	}
	s.leave(func(t *taken) {
		if t.beats == nil {
			t.beats = map[events.WorkerID]map[events.Token]bool{}
		}
		t.beats[events.WorkerID(h.Worker)] = runs
	})
}

func (s *signals) consumersWanted(typ events.Type) {
	s.leave(func(t *taken) {
		if t.types == nil {
			t.types = map[events.Type]bool{}
		}
		t.types[typ] = true
	})
}

// consumersFound leaves which lanes have consumers.
func (s *signals) consumersFound(lanes []lanes.Key) {
	s.leave(func(t *taken) { t.lanes = lanes[:min(len(lanes), maxSignals)] })
}

// pushed notes a message's place. It wakes nobody: the loop reads it before it
// next needs it, and can do without.
func (s *signals) pushed(t events.Token, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.acks) < s.maxAcks {
		s.acks = append(s.acks, pushAck{token: t, seq: seq})
	}
}

// pushedNative notes where in the native stream a message went.
func (s *signals) pushedNative(t events.Token, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.acks) < s.maxAcks {
		s.acks = append(s.acks, pushAck{token: t, seq: seq, native: true})
	}
}

// nativeWord leaves what was heard of a native dispatch.
func (s *signals) nativeWord(w nativeWord) {
	s.leave(func(t *taken) { t.words = append(t.words, w) })
}

// nativeLooks leaves what an inspection of native dispatches has found.
func (s *signals) nativeLooks(looks []nativeLook) {
	s.leave(func(t *taken) { t.looks = append(t.looks, looks[:min(len(looks), max(0, s.maxAcks-len(t.looks)))]...) })
}

func (s *signals) nativeMade(typ events.Type) {
	s.leave(func(t *taken) {
		if !slices.Contains(t.made, typ) {
			t.made = append(t.made, typ)
		}
	})
}

func (s *signals) nativeLost()    { s.leave(func(t *taken) { t.another = true }) }
func (s *signals) nativeMissing() { s.leave(func(t *taken) { t.native = true }) }
func (s *signals) nativeCleaned() { s.leave(func(t *taken) { t.cleaned = true }) }
func (s *signals) nativeHeard()   { s.leave(func(t *taken) { t.heard = true }) }

// takeAcks returns the places noted since the last call.
func (s *signals) takeAcks(reuse []pushAck) []pushAck {
	s.mu.Lock()
	defer s.mu.Unlock()
	acks := s.acks
	s.acks = reuse[:0]
	return acks
}

func bounded[T any](t *taken, list []T, v T) []T {
	if len(list) >= maxSignals {
		t.sweep = true
		return list
	}
	return append(list, v)
}

func (s *signals) take() taken {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.left
	s.left = taken{}
	return t
}
