package streamwright

import (
	"bufio"
	"crypto/rand"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/events"
)

// idSource makes ULIDs that rise within a client, so that items submitted one
// after the other sort that way. The zero idSource is ready.
type idSource struct {
	mu      sync.Mutex
	entropy *ulid.MonotonicEntropy
	last    uint64 // milliseconds; never goes back, whatever the clock does
}

func (s *idSource) next() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entropy == nil {
		// Monotonic entropy reads random bytes once a millisecond; buffered, so
		// that it does not ask the kernel each time.
		s.entropy = ulid.Monotonic(bufio.NewReaderSize(rand.Reader, 1024), 0)
	}
	s.last = max(s.last, ulid.Timestamp(time.Now()))
	id, err := ulid.New(s.last, s.entropy)
	if err != nil { // the millisecond's 80 bits ran over: begin the next
		s.last++
		if id, err = ulid.New(s.last, s.entropy); err != nil {
			return "", events.Refuse(events.CodeInternal, "make an id: %v", err)
		}
	}
	return id.String(), nil
}
