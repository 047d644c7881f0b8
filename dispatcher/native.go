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

// Items of a type whose protocol is ack go to a stream of their own, from which any
// JetStream consumer is a worker: see docs/guides/NATIVE.md. Native workers don't claim and
// don't report. News of a run comes from the streams that capture the acks, and from the
// consumer's state, which the sweep inspects (nativesweep.go). All of it arrives here and
// becomes a core.Native, and the first word that ends a run counts.
//
// The stream keeps a message until its outcome is in the log. So dispatches outlive the
// engine, a message that is gone is never mistaken for an acked one, and each word's
// sequence can be looked up.

// ackEffects is the part of effects that native dispatching needs.
type ackEffects interface {
	// PushNative sends an item to the native stream. If it is sent again under the same
	// token, it is stored once.
	PushNative(it *events.Item, params []byte, token events.Token, lease time.Duration)
	// DeleteNative removes a message that must not run, or no longer; 0 does nothing.
	DeleteNative(seq uint64)
	// CleanNative removes messages whose outcome is recorded: all below floor, and those of
	// ended. A signal reports its end.
	CleanNative(floor uint64, ended []uint64)
	// EnsureNative makes a type's consumer.
	EnsureNative(c ackmode.Consumer)
	// WithdrawNative pauses a type's consumer, and takes back the messages that it has not
	// delivered.
	WithdrawNative(c ackmode.Consumer, waiting []natsio.Stored)
	// InspectNative finds how far a type's consumer is with messages, and repairs a
	// consumer whose configuration has been changed.
	InspectNative(c ackmode.Consumer, waiting []natsio.Stored)
	// LookUpNative finds the dispatch that a word is about.
	LookUpNative(w ackmode.Word)
}

// ackRuns is the loop's state of native dispatching beyond the table.
type ackRuns struct {
	l *loop

	on       map[events.Type]ackmode.Consumer // types with the protocol, and their consumers as requested
	ready    map[events.Type]bool             // types whose consumers exist
	words    []ackmode.Word                   // words heard, waiting for room in the batch
	top      uint64                           // highest sequence known to be given to a push
	ended    []uint64                         // messages to be removed, since their outcome is recorded
	cleaning bool
	naks     []heldNak
	since    time.Time // earlier words concern no present dispatch
	done     ackmode.Recent
	settling settling
}

// heldNak is a nak whose delay is not known yet: the worker's own message, which says it,
// and the server's word come in either order.
type heldNak struct {
	token events.Token
	due   time.Time
}

// nakWait is the longest that a nak waits for its delay.
const nakWait = 250 * time.Millisecond

func newAckRuns() ackRuns {
	return ackRuns{on: map[events.Type]ackmode.Consumer{}, ready: map[events.Type]bool{}}
}

// pushNative sends a dispatch.
func (a *ackRuns) pushNative(d *table.Dispatch, it *events.Item, params []byte, lease time.Duration) {
	d.After = a.top
	a.l.out.PushNative(it, params, d.Token, lease)
}

// pushNativeAgain sends a dispatch again whose push was not answered. It may have arrived
// and be running, so it can't be taken back; the stream stores it only once.
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

// nativeStored notes the sequence of a dispatch's message.
func (a *ackRuns) nativeStored(d *table.Dispatch, seq uint64) {
	d.Seq = seq
	a.l.table.BySeq[seq] = d
	a.top = max(a.top, seq)
}

// nativeStray removes a message whose dispatch was given up before its sequence was known.
func (a *ackRuns) nativeStray(seq uint64) {
	a.top = max(a.top, seq)
	a.done.Put(seq)
	a.l.out.DeleteNative(seq)
}

// hearNatives decides the words heard, while the batch has room.
func (a *ackRuns) hearNatives() error {
	for len(a.words) > 0 && a.l.pipe.room() {
		w := a.words[0]
		if a.words = a.words[1:]; len(a.words) == 0 {
			a.words = nil
		}
		if w.Token == 0 { // otherwise its room was given back before the look-up
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

// hearNative handles one word. It ignores a word that concerns no dispatch of this
// ownership, or a run that an earlier word has ended.
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
	case !d.Native || w.Type != d.Type: // not the engine's consumer
		return nil
	case d.Lingering:
		if w.Kind != core.NativeSeen {
			a.l.flight.letGo(d) // the worker has let go
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

// nativeSaid notes the answer that a worker has sent. The answer counts once the server
// confirms that it took it; if that does not come, the sweep takes the answer as it is.
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

// nativeTold handles the server's word on a message.
func (a *ackRuns) nativeTold(d *table.Dispatch, w *ackmode.Word) error {
	switch {
	case w.Kind == core.NativeExpired && d.Word != nil:
		return a.decideNative(d, d.Word) // the worker had answered, but too late for the server
	case w.Kind == core.NativeNak && d.Word == nil:
		a.naks = append(a.naks, heldNak{d.Token, a.l.clock.Now().Add(nakWait)})
		return nil
	case w.Kind == core.NativeNak && d.Word.Kind == core.NativeNak:
		return a.decideNative(d, d.Word)
	}
	return a.decideNative(d, w)
}

// heldNaks decides the naks whose delay has not come in time.
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

// nextNak returns when the next held nak is due; zero for none.
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
		d.Answered = d.Answered || w.Kind != core.NativeNak // a message whose nak has a delay is still pending
	}
	if it != nil && !dec.Repeat && w.Kind == core.NativeExpired {
		a.l.cfg.Logger.Warn("a native worker's lease expired", "id", it.ID, "type", it.Type, "attempt", it.Attempt, "trace", it.Trace)
		if h := a.l.cfg.Hooks.LeaseExpired; h != nil {
			h(it.Type)
		}
	}
	return nil
}

// nativeLetGo removes the message of a dispatch that is over: soon, with others, if its
// worker has answered it; otherwise at once, so that it is not delivered, and no longer
// counts as being worked on.
func (a *ackRuns) nativeLetGo(d *table.Dispatch) {
	if d.Seq == 0 {
		return // noteAcks removes the message once its sequence is known
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
	maxEnded = 8192 // messages that wait to be removed; beyond it, each is removed by itself
	maxClean = 256  // messages removed one by one per clean-up
)

// cleanNatives removes messages whose outcome is recorded: all below the first dispatched
// one with one request, later ones one by one.
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
