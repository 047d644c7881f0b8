package eventlog

import (
	"fmt"

	"github.com/streamwright/streamwright/events"
)

// Grouper assembles the events of a log, given in order, into decisions. It is
// the one place that says which events count. The zero Grouper is ready for a
// log that is read from the start of a decision. It holds at most
// events.MaxDecisionEvents pending events, and is not safe for concurrent use.
type Grouper struct {
	// Midway allows the first events to be the rest of a group whose start was
	// not read: they are skipped.
	Midway bool

	pending    []events.Event // of the group that is not complete
	pendingSum uint64         // of the last of pending
	pendingLen int            // bytes of pending as stored
	out        []events.Event // decided, not taken
	room       int            // of the last that was taken: the next will be like it
	outSkipped int            // messages skipped before an event in out
	outSum     uint64         // of the last of out
	outLen     int            // bytes of out as stored
	held       int            // messages skipped behind the last event in out
	heldTo     events.Seq     // the last of held
	heldSum    uint64         // of heldTo
}

// Event takes the next event; sum is the checksum of its stored bytes, size
// their number.
func (g *Grouper) Event(ev events.Event, sum uint64, size int) error {
	switch {
	case ev.Tx.Of == 0 || ev.Tx.N == 1:
		g.interrupt()
		g.Midway = false
	case g.Midway:
		g.skip(ev.Seq, sum)
		return nil
	case len(g.pending) == 0:
		return &CorruptError{Seq: ev.Seq, Reason: fmt.Sprintf("it is %d of %d of a decision that has no beginning", ev.Tx.N, ev.Tx.Of)}
	default:
		last := g.pending[len(g.pending)-1]
		if ev.Tx.N != last.Tx.N+1 || ev.Tx.Of != last.Tx.Of || ev.Seq != last.Seq+1 {
			return &CorruptError{Seq: ev.Seq, Reason: fmt.Sprintf("it is %d of %d of a decision, behind %d of %d at %d", ev.Tx.N, ev.Tx.Of, last.Tx.N, last.Tx.Of, last.Seq)}
		}
	}
	if !ev.Tx.Last() {
		g.pending, g.pendingSum = append(g.pending, ev), sum
		g.pendingLen += size
		return nil
	}
	if g.out == nil {
		g.out = make([]events.Event, 0, g.room)
	}
	g.out = append(append(g.out, g.pending...), ev)
	g.outSum = sum
	g.outLen += g.pendingLen + size
	g.outSkipped += g.held
	g.held = 0
	g.drop()
	return nil
}

// Foreign takes a message that is no event. Since nothing can be appended to a
// group behind it, it interrupts one.
func (g *Grouper) Foreign(seq events.Seq, sum uint64) {
	g.interrupt()
	g.skip(seq, sum)
}

func (g *Grouper) skip(seq events.Seq, sum uint64) {
	g.held++
	g.heldTo, g.heldSum = seq, sum
}

// interrupt skips the pending group: it was never decided.
func (g *Grouper) interrupt() {
	if n := len(g.pending); n > 0 {
		g.held += n
		g.heldTo, g.heldSum = g.pending[n-1].Seq, g.pendingSum
		g.drop()
	}
}

func (g *Grouper) drop() {
	clear(g.pending)
	g.pending, g.pendingLen = g.pending[:0], 0
}

// Pending is the number of events of the group that is not complete.
func (g *Grouper) Pending() int { return len(g.pending) }

// Take returns the messages consumed since the last Take, false for none: first
// a Group that ends with an event, then one of the messages skipped behind it.
// A pending group is not consumed.
func (g *Grouper) Take() (Group, bool) {
	switch {
	case len(g.out) > 0:
		grp := Group{Events: g.out, Through: g.out[len(g.out)-1].Seq, Skipped: g.outSkipped, Bytes: g.outLen, Checksum: g.outSum}
		g.room = min(len(g.out)+len(g.out)/8, chunkMessages)
		g.out, g.outSkipped, g.outLen = nil, 0, 0
		return grp, true
	case g.held > 0:
		grp := Group{Through: g.heldTo, Skipped: g.held, Checksum: g.heldSum}
		g.held = 0
		return grp, true
	}
	return Group{}, false
}
