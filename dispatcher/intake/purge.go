package intake

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
)

// Purge removes what the log answers from the intake, once that is surely on disk.
type Purge struct {
	Next time.Time // when Now is to be called; zero: never

	clock    *clock.Clock
	within   time.Duration        // how soon a durable event is on disk
	through  func(through uint64) // purges the stream
	answered uint64               // intake position answered durably
	synced   uint64               // intake position whose answer is on disk at Next
	purged   uint64
}

// NewPurge returns a Purge that calls through when a durable event has had within to get
// onto the disk.
func NewPurge(c *clock.Clock, within time.Duration, through func(uint64)) *Purge {
	return &Purge{clock: c, within: within, through: through}
}

// Note notes that the log answers the intake up to a position.
func (p *Purge) Note(through uint64) {
	p.answered = through
	if p.Next.IsZero() && through > p.purged {
		p.synced, p.Next = through, p.clock.Now().Add(p.within)
	}
}

// Now purges.
func (p *Purge) Now() {
	p.Next = time.Time{}
	p.through(p.synced)
	p.purged = p.synced
	p.Note(p.answered)
}
