package dispatcher

import (
	"sync"

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

	mu       sync.Mutex // guards what follows
	registry bool       // the registry has changed
	lost     bool       // the dispatch stream is another
	sweep    bool
	reload   bool           // start again from the log
	failed   []events.Token // messages that could not be pushed
	expired  []expiry
	beats    []wire.Heartbeat
	types    []events.Type // whose consumers are to be made anew
	acks     []pushAck
}

// pushAck says where in the dispatch stream a message went.
type pushAck struct {
	token events.Token
	seq   uint64
}

// expiry is the end of a dispatch's lease, as the server told it.
type expiry struct {
	id    events.ID
	token events.Token
	seq   uint64 // of the dispatched message
}

func newSignals() *signals { return &signals{wake: make(chan struct{}, 1)} }

// leave changes the signals by fn and wakes the loop.
func (s *signals) leave(fn func(*signals)) {
	s.mu.Lock()
	fn(s)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *signals) registryChanged() { s.leave(func(s *signals) { s.registry = true }) }
func (s *signals) dispatchLost()    { s.leave(func(s *signals) { s.lost = true }) }
func (s *signals) sweepNow()        { s.leave(func(s *signals) { s.sweep = true }) }

func (s *signals) pushFailed(t events.Token) {
	s.leave(func(s *signals) { s.failed = bounded(s, s.failed, t) })
}

func (s *signals) leaseExpired(e expiry) {
	s.leave(func(s *signals) { s.expired = bounded(s, s.expired, e) })
}

func (s *signals) heartbeat(h wire.Heartbeat) {
	s.leave(func(s *signals) { s.beats = bounded(s, s.beats, h) })
}

func (s *signals) consumersWanted(t events.Type) {
	s.leave(func(s *signals) { s.types = bounded(s, s.types, t) })
}

// pushed notes a message's place. It wakes nobody: the loop reads it before it
// next needs it, and can do without.
func (s *signals) pushed(t events.Token, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.acks) < maxSignals {
		s.acks = append(s.acks, pushAck{t, seq})
	}
}

// takeAcks returns the places noted since the last call.
func (s *signals) takeAcks(reuse []pushAck) []pushAck {
	s.mu.Lock()
	defer s.mu.Unlock()
	acks := s.acks
	s.acks = reuse[:0]
	return acks
}

func bounded[T any](s *signals, list []T, v T) []T {
	if len(list) >= maxSignals {
		s.sweep = true
		return list
	}
	return append(list, v)
}

// taken is what the loop takes at once.
type taken struct {
	registry, lost, sweep bool
	reload                bool
	failed                []events.Token
	expired               []expiry
	beats                 []wire.Heartbeat
	types                 []events.Type
}

func (s *signals) take() taken {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := taken{s.registry, s.lost, s.sweep, s.reload, s.failed, s.expired, s.beats, s.types}
	s.registry, s.lost, s.sweep, s.reload = false, false, false, false
	s.failed, s.expired, s.beats, s.types = nil, nil, nil, nil
	return t
}
