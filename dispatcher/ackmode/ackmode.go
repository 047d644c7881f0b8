package ackmode

import (
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// Consumer describes the consumer that a type should have.
type Consumer struct {
	Type   events.Type
	Ack    bool // the type still has protocol ack
	Lease  time.Duration
	Window int // most messages delivered and not answered
	Paused bool
}

// MaxPending bounds a consumer's messages that are delivered and not answered: above 1,024,
// the server may notice an expired lease 100 ms late.
const MaxPending = 1000

// Word is a piece of news about a dispatch.
type Word struct {
	Seq    uint64      // of the message
	Type   events.Type // from the consumer's name
	Kind   core.AckSignal
	Raw    bool // as the worker sent it; otherwise the server's confirmation
	At     time.Time
	Took   time.Duration // since the delivery, if the server says
	Delay  time.Duration
	Reason string
	Token  events.Token // once it has been looked up
}

// Recent remembers the sequences put in last: most news of a run arrives twice.
type Recent struct {
	set   map[uint64]bool
	order []uint64 // a ring buffer
	next  int
}

// Has reports whether seq is among the remembered sequences.
func (r *Recent) Has(seq uint64) bool { return r.set[seq] }

// maxRecent bounds the sequences that Recent remembers.
const maxRecent = 16384

// Put adds a sequence, and forgets the oldest one if the buffer is full.
func (r *Recent) Put(seq uint64) {
	switch {
	case r.set == nil:
		r.set = map[uint64]bool{}
	case r.set[seq]:
		return
	}
	if len(r.order) < maxRecent {
		r.order = append(r.order, seq)
	} else {
		delete(r.set, r.order[r.next])
		r.order[r.next] = seq
		r.next = (r.next + 1) % maxRecent
	}
	r.set[seq] = true
}

// Look is the result of inspecting a dispatch.
type Look struct {
	Token   events.Token
	Finding Finding
}

type Finding uint8

const (
	Delivered Finding = iota + 1 // not known to be answered
	Over                         // answered, or its lease has ended
	Gone                         // not in the stream
	TakenBack                    // removed before it was delivered
)
