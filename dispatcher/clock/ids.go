package clock

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/events"
)

// IDs makes ids. The zero value is ready; any goroutine may use it.
type IDs struct {
	mu      sync.Mutex // guards entropy
	entropy *ulid.MonotonicEntropy
}

// New returns an id with a time. Each id of a millisecond is higher than the ones before.
func (s *IDs) New(at time.Time) events.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entropy == nil {
		s.entropy = ulid.Monotonic(rand.Reader, 0)
	}
	id, err := ulid.New(ulid.Timestamp(at), s.entropy)
	if err != nil { // the entropy of this millisecond has run over
		s.entropy = ulid.Monotonic(rand.Reader, 0)
		id = ulid.MustNew(ulid.Timestamp(at), s.entropy)
	}
	return events.ID(id)
}
