package ackmode

import (
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// Consumer is a type's consumer, as it is to be.
type Consumer struct {
	Type   events.Type
	Native bool // the type has the protocol, still
	Lease  time.Duration
	Window int // messages delivered and not answered, at most
	Paused bool
}

// Word is something heard about a native dispatch.
type Word struct {
	Seq    uint64      // of the message
	Type   events.Type // by the name of the consumer
	Kind   core.AckSignal
	Raw    bool // as its worker sent it; else the server's word that it has taken it
	At     time.Time
	Took   time.Duration // since the delivery, where the server says so
	Delay  time.Duration
	Reason string
	Token  events.Token // once it has been looked up
}

// Recent remembers the last sequences that were put in: most of what is heard
// of a run is heard twice.
type Recent struct {
	set   map[uint64]bool
	order []uint64 // used round and round
	next  int
}

// Has reports whether a sequence is among the last ones.
func (r *Recent) Has(seq uint64) bool { return r.set[seq] }

// maxRecent bounds recent.
const maxRecent = 16384

// Put adds a sequence, and forgets the oldest one if there are too many.
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

// Look is what an inspection has found about a dispatch.
type Look struct {
	Token   events.Token
	Finding Finding
}

type Finding uint8

const (
	Delivered Finding = iota + 1 // and, as far as is known, not answered
	Over                         // answered, or its lease has ended
	Gone                         // not in the stream
	TakenBack                    // removed before it was delivered
)
