package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// Items of a type whose protocol is ack go to a stream of their own, from which
// any JetStream consumer is a worker: see docs/guides/NATIVE.md. Nobody claims and
// nobody reports. What is heard of a run comes from the stream that captures
// the acks, and from what the sweep finds the consumer to be
// at (nativesweep.go); all of it meets here, becomes an core.Native, and the
// first word that ends a run is the one that counts.
//
// The stream keeps a message until its outcome is in the log: so what is on its
// way outlives the engine, a message that is gone is never taken for one that
// was acked, and each word's sequence can be looked up.

// ackEffects is the part of effects that native dispatching asks for.
type ackEffects interface {
	// PushNative sends an item to the native stream. Sent again under the same
	// token it is stored once.
	PushNative(it *events.Item, params []byte, token events.Token, lease time.Duration)
	// DeleteNative removes a message that is not to be run, or no longer; 0 does
	// nothing.
	DeleteNative(seq uint64)
	// CleanNative removes messages whose outcome is recorded: all below floor, and
	// those of ended. It ends with a signal.
	CleanNative(floor uint64, ended []uint64)
	// EnsureNative makes a type's consumer.
	EnsureNative(c ackmode.Consumer)
	// WithdrawNative stops a type's consumer, and takes back those messages that
	// it has not delivered.
	WithdrawNative(c ackmode.Consumer, waiting []natsio.Stored)
	// InspectNative finds out how far a type's consumer is with messages, and
	// mends one that is not as it is to be.
	InspectNative(c ackmode.Consumer, waiting []natsio.Stored)
	// LookUpNative finds out which dispatch a word is about.
	LookUpNative(w ackmode.Word)
}

// ackRuns is what the loop knows of native dispatching beyond the table.
type ackRuns struct {
	l *loop

	on       map[events.Type]ackmode.Consumer // types with the protocol, and their consumers as asked for
	ready    map[events.Type]bool             // whose consumers are there
	words    []ackmode.Word                   // heard, and not decided for want of room
	top      uint64                           // highest sequence that a push is known to have got
	ended    []uint64                         // messages whose outcome is recorded, to be removed
	cleaning bool
	naks     []heldNak
	since    time.Time // words of before concern nothing that is dispatched
	done     ackmode.Recent
	settling settling
}

// heldNak is a refusal whose delay is not known yet: the worker's own message,
// which says it, and the server's word come in either order.
type heldNak struct {
	token events.Token
	due   time.Time
}

// nakWait is how long a refusal waits for its delay.
const nakWait = 250 * time.Millisecond

func newAckRuns() ackRuns {
	return ackRuns{on: map[events.Type]ackmode.Consumer{}, ready: map[events.Type]bool{}}
}

// PushNative sends a dispatch, or sends it again.
func (a *ackRuns) pushNative(d *table.Dispatch, it *events.Item, params []byte, lease time.Duration) {
	d.After = a.top
	a.l.out.PushNative(it, params, d.Token, lease)
}

// pushNativeAgain sends what was pushed and not answered: it may have arrived
// and be running, so that it can't be taken back, and is stored only once.
func (a *ackRuns) pushNativeAgain(d *table.Dispatch, now time.Time) error {
	it, err := a.l.state.Item(d.ID)
	if err != nil || it == nil || it.State != events.StateQueued {
		return err
	}
	params, err := a.l.state.Params(d.ID)
	if err != nil {
		return err
	}
	set, _ := a.l.state.Settings(d.Type)
	d.At, d.Again = now, true
	a.l.flight.nextAck = clock.Sooner(a.l.flight.nextAck, now.Add(pushTimeout))
	a.l.out.PushNative(it, params, d.Token, set.Lease())
	return nil
}

// nativeStored notes where a dispatch's message is.
func (a *ackRuns) nativeStored(d *table.Dispatch, seq uint64) {
	d.Seq = seq
	a.l.table.BySeq[seq] = d
	a.top = max(a.top, seq)
}

// nativeStray has a message removed whose dispatch was given up before it was
// known where it is.
func (a *ackRuns) nativeStray(seq uint64) {
	a.top = max(a.top, seq)
	a.done.Put(seq)
	a.l.out.DeleteNative(seq)
}

// hearNatives decides what was heard, as far as the batch has room.
func (a *ackRuns) hearNatives() error {
	for len(a.words) > 0 && a.l.pipe.room() {
		w := a.words[0]
		if a.words = a.words[1:]; len(a.words) == 0 {
			a.words = nil
		}
		if w.Token == 0 { // else its room was given back before it was looked up
			select {
			case <-a.l.signals.WordRoom:
			default:
			}
		}
		if err := a.hearNative(&w); err != nil {
			return err
		}
	}
	return nil
}

// hearNative follows one word. What concerns no dispatch of this ownership's,
// or has been answered by one heard before, is passed over.
func (a *ackRuns) hearNative(w *ackmode.Word) error {
	d := a.l.table.BySeq[w.Seq]
	if d == nil {
		a.l.flight.noteAcks()
		d = a.l.table.BySeq[w.Seq]
	}
	if d == nil && w.Token != 0 {
		if d = a.l.table.ByToken[w.Token]; d != nil && d.Native && d.Seq == 0 {
			a.nativeStored(d, w.Seq)
		}
	}
	if d == nil {
		if w.Token == 0 && !a.done.Has(w.Seq) {
			a.l.out.LookUpNative(*w)
		}
		return nil
	}
	switch {
	case !d.Native || w.Type != d.Type: // a consumer that is not ours
		return nil
	case d.Lingering:
		if w.Kind != core.NativeSeen {
			a.l.flight.letGo(d) // its worker has let go
		}
		return nil
	case w.Kind == core.NativeSeen:
		return a.nativeSeen(d)
	case w.Raw:
		return a.nativeSaid(d, w)
	}
	return a.nativeTold(d, w)
}

// nativeSeen notes that a worker has the message.
func (a *ackRuns) nativeSeen(d *table.Dispatch) error {
	d.Heard, d.Spent = a.l.clock.Now(), time.Time{}
	if d.Claimed {
		return nil
	}
	return a.decideNative(d, &ackmode.Word{Kind: core.NativeSeen})
}

// nativeSaid notes what a worker has sent. It counts once the server has said
// that it has taken it; when that does not come, the sweep makes do with this.
func (a *ackRuns) nativeSaid(d *table.Dispatch, w *ackmode.Word) error {
	if d.Word != nil {
		return nil // the first one counts, as it does for the server
	}
	said := *w
	said.At = a.l.clock.Now()
	d.Word = &said
	for i, h := range a.naks {
		if h.token == d.Token {
			a.naks = append(a.naks[:i], a.naks[i+1:]...)
			return a.decideNative(d, &said)
		}
	}
	return nil
}

// nativeTold follows the server's word on a message.
func (a *ackRuns) nativeTold(d *table.Dispatch, w *ackmode.Word) error {
	switch {
	case w.Kind == core.NativeExpired && d.Word != nil:
		return a.decideNative(d, d.Word) // it had answered, if too late for the server
	case w.Kind == core.NativeNak && d.Word == nil:
		a.naks = append(a.naks, heldNak{d.Token, a.l.clock.Now().Add(nakWait)})
		return nil
	case w.Kind == core.NativeNak && d.Word.Kind == core.NativeNak:
		return a.decideNative(d, d.Word)
	}
	return a.decideNative(d, w)
}

// heldNaks decides the refusals whose delay has not come.
func (a *ackRuns) heldNaks(now time.Time) error {
	for len(a.naks) > 0 && !a.naks[0].due.After(now) && a.l.pipe.room() {
		h := a.naks[0]
		if a.naks = a.naks[1:]; len(a.naks) == 0 {
			a.naks = nil
		}
		if d := a.l.table.ByToken[h.token]; d != nil && !d.Lingering {
			if err := a.decideNative(d, &ackmode.Word{Kind: core.NativeNak}); err != nil {
				return err
			}
		}
	}
	return nil
}

// nextNak is when the next held refusal is due; zero: none is.
func (a *ackRuns) nextNak() time.Time {
	if len(a.naks) == 0 || !a.l.pipe.room() {
		return time.Time{}
	}
	return a.naks[0].due
}

// decideNative records a word. REQUIRES: room.
func (a *ackRuns) decideNative(d *table.Dispatch, w *ackmode.Word) error {
	now := a.l.clock.Now()
	dec, it, err := a.l.decide(core.Native{
		ID: d.ID, Token: d.Token, Dispatched: d.Token, Word: w.Kind, Took: min(max(w.Took, 0), max(now.Sub(d.At), 0)),
		Delay: w.Delay, Reason: w.Reason, Random: random(),
	})
	if fatal(err) != nil {
		return err
	}
	if w.Kind != core.NativeSeen {
		d.Answered = d.Answered || w.Kind != core.NativeNak // a message that was refused with a delay is still pending
	}
	if it != nil && !dec.Repeat && w.Kind == core.NativeExpired {
		a.l.cfg.Logger.Warn("a native worker's lease expired", "id", it.ID, "type", it.Type, "attempt", it.Attempt, "trace", it.Trace)
		if h := a.l.cfg.Hooks.LeaseExpired; h != nil {
			h(it.Type)
		}
	}
	return nil
}

// nativeLetGo has the message of a dispatch that is over removed: soon, with
// others, if its worker has answered it; else at once, so that it is not
// delivered, or counts no longer as being worked on.
func (a *ackRuns) nativeLetGo(d *table.Dispatch) {
	if d.Seq == 0 {
		return // noteAcks removes it once it is known where it is
	}
	a.done.Put(d.Seq)
	if d.Answered && len(a.ended) < maxEnded {
		a.ended = append(a.ended, d.Seq)
		return
	}
	a.l.out.DeleteNative(d.Seq)
}

// Bounds of the removal of messages.
const (
	maxEnded = 8192 // that wait to be removed; beyond, each is removed by itself
	maxClean = 256  // removed one by one in one go
)

// cleanNatives removes messages whose outcome is recorded: all below the first
// that is still on its way with one request, those above it one by one.
func (a *ackRuns) cleanNatives() {
	if a.cleaning || len(a.ended) == 0 {
		return
	}
	floor := a.top + 1
	for _, d := range a.l.table.Natives {
		if at := d.After + 1; d.Seq == 0 {
			floor = min(floor, at)
		} else {
			floor = min(floor, d.Seq)
		}
	}
	var now, later []uint64
	for _, seq := range a.ended {
		switch {
		case seq < floor:
		case len(now) < maxClean:
			now = append(now, seq)
		default:
			later = append(later, seq)
		}
	}
	a.ended, a.cleaning = later, true
	a.l.out.CleanNative(floor, now)
}
