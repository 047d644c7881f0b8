package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// Items of an ack type go to a stream, from which any JetStream consumer is a worker: see
// docs/guides/ACK.md. Such workers don't register and don't report. News of a run comes
// from the stream that captures the acks, and from the consumer's state, which the sweep
// inspects (acksweep.go). All of it arrives here and becomes a core.AckRun, and the first
// word that ends a run counts.
//
// The stream keeps a message until its outcome is in the log. So dispatches outlive the
// engine, a message that is gone is never mistaken for an acked one, and each word's
// sequence can be looked up.

// ackRuns follows the messages and runs of ack types. Owned by the loop.
type ackRuns struct {
	*decider
	cfg     *Config
	table   *table.Table
	flight  *flight
	leases  *leases
	gates   *gates
	signals *natsio.Signals
	halt    *halt
	dirty   dirty
	out     effects
	sweepBy func(time.Time) // moves the next sweep forward

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

	noted   []natsio.Stored // reused
	nextAck time.Time       // when the oldest push must have been answered; zero: no push waits
	hold    time.Time       // after a failed push, nothing is pushed before this time; zero: pushes go on
	holdFor time.Duration
}

// heldNak is a nak whose delay is not known yet: the worker's own message, which says it,
// and the server's word come in either order.
type heldNak struct {
	token events.Token
	due   time.Time
}

// nakWait is the longest that a nak waits for its delay.
const nakWait = 250 * time.Millisecond

// onTime does what is due.
func (a *ackRuns) onTime(now time.Time) error {
	if err := a.hearAll(); err != nil {
		return err
	}
	if err := a.heldNaks(now); err != nil {
		return err
	}
	if err := a.settle(now); err != nil {
		return err
	}
	if clock.Passed(a.hold, now) {
		a.endHold()
	}
	if clock.Passed(a.nextAck, now) {
		return a.pushAgain(now)
	}
	return nil
}

// next returns when something is due next; zero for never.
func (a *ackRuns) next() time.Time {
	at := clock.Sooner(a.hold, clock.Sooner(a.nextAck, a.settling.until))
	return clock.Sooner(at, a.nextNak())
}

// window returns how many more items of a type may be pushed. Workers of ack types don't
// register, so nobody knows their capabilities.
func (a *ackRuns) window(t events.Type, set *events.TypeSettings, lane string) int {
	if lane != "" || !a.ready[t] || !a.hold.IsZero() {
		return 0
	}
	return ackWindow(set) - a.table.ByType[t].All
}

// push sends an item to the stream under a fresh token.
func (a *ackRuns) push(id events.ID, set *events.TypeSettings, now time.Time) error {
	it, err := a.state.Item(id)
	if err != nil {
		return err
	}
	if it == nil || it.State != events.StateQueued || a.table.ByID[id] != nil {
		return nil // changed in the batch being built
	}
	params, err := a.state.Params(id)
	if err != nil {
		return err
	}
	d := &table.Dispatch{ID: id, Token: a.token(), Type: it.Type, Group: it.Group, Priority: it.Priority, At: now, Lease: set.Lease.Duration, After: a.top, Ack: true}
	a.table.Add(d)
	a.nextAck = clock.Sooner(a.nextAck, d.At.Add(pushTimeout))
	a.out.PushAck(d, it, params)
	if h := a.cfg.Hooks.Dispatched; h != nil {
		h(it.Type)
	}
	return nil
}

// pushTimeout is the time after which a push without an answer is repeated.
const pushTimeout = 5 * time.Second

// pushAgain repeats the pushes that were not answered in time. Their messages may have
// arrived and be running, so they can't be taken back; the stream stores each only once.
func (a *ackRuns) pushAgain(now time.Time) error {
	a.noteAcks()
	a.nextAck = time.Time{}
	var late []*table.Dispatch
	for _, d := range a.table.Acks {
		switch {
		case d.Seq != 0 || d.Claimed || d.Leased:
		case d.At.Add(pushTimeout).After(now):
			a.nextAck = clock.Sooner(a.nextAck, d.At.Add(pushTimeout))
		default:
			late = append(late, d)
		}
	}
	for _, d := range table.Sorted(late) {
		it, err := a.state.Item(d.ID)
		if err != nil {
			return err
		}
		if it == nil || it.State != events.StateQueued {
			continue
		}
		params, err := a.state.Params(d.ID)
		if err != nil {
			return err
		}
		set, _ := a.state.Settings(d.Type)
		d.At, d.Again, d.Lease = now, true, set.Lease.Duration
		a.nextAck = clock.Sooner(a.nextAck, now.Add(pushTimeout))
		a.out.PushAck(d, it, params)
	}
	return nil
}

// The wait before anything is pushed again after a push has failed.
const (
	minHold = 10 * time.Millisecond
	maxHold = 2 * time.Second
)

// failed takes back what could not be pushed, and holds all pushes, longer each time until
// one succeeds: a server in trouble is not hammered.
func (a *ackRuns) failed(tokens []events.Token, now time.Time) error {
	if len(tokens) == 0 {
		return nil
	}
	a.cfg.Logger.Warn("items could not be dispatched: trying again", "items", len(tokens))
	a.holdFor = min(max(2*a.holdFor, minHold), maxHold)
	a.hold = now.Add(a.holdFor)
	for _, tok := range tokens {
		d := a.table.ByToken[tok]
		if d == nil || d.Again { // the first of two may have arrived
			continue
		}
		back, err := a.putBack(d)
		if err != nil {
			return err
		}
		if back {
			a.flight.returned(d.Type, wire.RecoveryDispatchLost, 1)
		}
	}
	return nil
}

// endHold lets pushes go on.
func (a *ackRuns) endHold() {
	a.hold = time.Time{}
	for t := range a.on {
		a.dirty.mark(t)
	}
}

// unseen reports whether no word about a dispatch is decided. A word counts from its
// decision on, even in a batch that is not durable yet.
func unseen(state *core.State, d *table.Dispatch) (bool, error) {
	if d.Claimed || d.Lingering {
		return false, nil
	}
	it, err := state.Item(d.ID)
	return err == nil && it != nil && it.State == events.StateQueued && it.Token != d.Token, err
}

// putBack takes back a dispatch if it is unseen, and reports whether it did. The item is
// then ready again, and goes out under another token.
func (a *ackRuns) putBack(d *table.Dispatch) (bool, error) {
	free, err := unseen(a.state, d)
	if !free || err != nil {
		return false, err
	}
	it, err := a.state.Item(d.ID)
	if err != nil {
		return false, err
	}
	a.flight.letGo(d)
	if !a.clock.Reached(it.AvailableAt) {
		return true, nil
	}
	return true, a.flight.makeReady(it)
}

// noteAcks notes the sequences of the messages stored since the last call.
func (a *ackRuns) noteAcks() {
	a.noted = a.signals.TakeAcks(a.noted)
	if len(a.noted) > 0 {
		a.holdFor = 0
	}
	for _, n := range a.noted {
		if d := a.table.ByToken[n.Token]; d != nil {
			a.stored(d, n.Seq)
		} else { // it was given up before its sequence was known
			a.top = max(a.top, n.Seq)
			a.done.Put(n.Seq)
			a.out.DeleteAck(n.Seq)
		}
	}
}

// stored notes the sequence of a dispatch's message.
func (a *ackRuns) stored(d *table.Dispatch, seq uint64) {
	d.Seq = seq
	a.table.BySeq[seq] = d
	a.top = max(a.top, seq)
}

// hearAll decides the words heard, while the batch has room.
func (a *ackRuns) hearAll() error {
	for len(a.words) > 0 && a.room() {
		w := a.words[0]
		if a.words = a.words[1:]; len(a.words) == 0 {
			a.words = nil
		}
		if w.Token == 0 { // otherwise its room was given back before the look-up
			select {
			case <-a.signals.WordRoom:
			default:
			}
		}
		if err := a.hear(&w); err != nil {
			return err
		}
	}
	return nil
}

// hear handles one word. It ignores a word that concerns no dispatch of this
// ownership, or a run that an earlier word has ended.
func (a *ackRuns) hear(w *ackmode.Word) error {
	d := a.table.BySeq[w.Seq]
	if d == nil {
		a.noteAcks()
		d = a.table.BySeq[w.Seq]
	}
	if d == nil && w.Token != 0 {
		if d = a.table.ByToken[w.Token]; d != nil && d.Ack && d.Seq == 0 {
			a.stored(d, w.Seq)
		}
	}
	if d == nil {
		if w.Token == 0 && !a.done.Has(w.Seq) {
			a.out.LookUpAck(*w)
		}
		return nil
	}
	switch {
	case !d.Ack || w.Type != d.Type: // not the engine's consumer
		return nil
	case d.Lingering:
		if w.Kind != core.AckSeen {
			a.flight.letGo(d) // the worker has let go
		}
		return nil
	case w.Kind == core.AckSeen:
		return a.seen(d)
	case w.Raw:
		return a.said(d, w)
	}
	return a.told(d, w)
}

// seen notes that a worker has the message.
func (a *ackRuns) seen(d *table.Dispatch) error {
	d.Heard, d.Over = a.clock.Now(), time.Time{}
	if d.Claimed {
		return nil
	}
	return a.record(d, &ackmode.Word{Kind: core.AckSeen})
}

// said notes the answer that a worker has sent. The answer counts once the server
// confirms that it took it; if that does not come, the sweep takes the answer as it is.
func (a *ackRuns) said(d *table.Dispatch, w *ackmode.Word) error {
	if d.Word != nil {
		return nil // the first one counts, as it does for the server
	}
	said := *w
	said.At = a.clock.Now()
	d.Word = &said
	for i, h := range a.naks {
		if h.token == d.Token {
			a.naks = append(a.naks[:i], a.naks[i+1:]...)
			return a.record(d, &said)
		}
	}
	return nil
}

// told handles the server's word on a message.
func (a *ackRuns) told(d *table.Dispatch, w *ackmode.Word) error {
	switch {
	case w.Kind == core.AckExpired && d.Word != nil:
		return a.record(d, d.Word) // the worker had answered, but too late for the server
	case w.Kind == core.AckNak && d.Word == nil:
		a.naks = append(a.naks, heldNak{d.Token, a.clock.Now().Add(nakWait)})
		return nil
	case w.Kind == core.AckNak && d.Word.Kind == core.AckNak:
		return a.record(d, d.Word)
	}
	return a.record(d, w)
}

// heldNaks decides the naks whose delay has not come in time.
func (a *ackRuns) heldNaks(now time.Time) error {
	for len(a.naks) > 0 && !a.naks[0].due.After(now) && a.room() {
		h := a.naks[0]
		if a.naks = a.naks[1:]; len(a.naks) == 0 {
			a.naks = nil
		}
		if d := a.table.ByToken[h.token]; d != nil && !d.Lingering {
			if err := a.record(d, &ackmode.Word{Kind: core.AckNak}); err != nil {
				return err
			}
		}
	}
	return nil
}

// nextNak returns when the next held nak is due; zero for none.
func (a *ackRuns) nextNak() time.Time {
	if len(a.naks) == 0 || !a.room() {
		return time.Time{}
	}
	return a.naks[0].due
}

// record decides a word. REQUIRES: room.
func (a *ackRuns) record(d *table.Dispatch, w *ackmode.Word) error {
	now := a.clock.Now()
	dec, it, err := a.decide(core.AckRun{
		ID: d.ID, Token: d.Token, Dispatched: d.Token, Word: w.Kind, Took: min(max(w.Took, 0), max(now.Sub(d.At), 0)),
		Delay: w.Delay, Reason: w.Reason, Random: random(),
	})
	if fatal(err) != nil {
		return err
	}
	if w.Kind != core.AckSeen {
		d.Answered = d.Answered || w.Kind != core.AckNak // a message whose nak has a delay is still pending
	}
	if it != nil && !dec.Repeat && w.Kind == core.AckExpired {
		a.cfg.Logger.Warn("a lease expired", "id", it.ID, "type", it.Type, "attempt", it.Attempt, "trace", it.Trace)
		if h := a.cfg.Hooks.LeaseExpired; h != nil {
			h(it.Type)
		}
	}
	return nil
}

// gone follows the end of a dispatch.
func (a *ackRuns) gone(d *table.Dispatch) {
	a.remove(d)
	a.leaseEnded(d)
}

// remove removes the message of a dispatch that is over: soon, with others, if its
// worker has answered it; otherwise at once, so that it is not delivered, and no longer
// counts as being worked on.
func (a *ackRuns) remove(d *table.Dispatch) {
	if d.Seq == 0 {
		return // noteAcks removes the message once its sequence is known
	}
	a.done.Put(d.Seq)
	if d.Answered && len(a.ended) < maxEnded {
		a.ended = append(a.ended, d.Seq)
		return
	}
	a.out.DeleteAck(d.Seq)
}

// Bounds of the removal of messages.
const (
	maxEnded = 8192 // messages that wait to be removed; beyond it, each is removed by itself
	maxClean = 256  // messages removed one by one per clean-up
)

// clean removes messages whose outcome is recorded: all below the first dispatched
// one with one request, later ones one by one.
func (a *ackRuns) clean() {
	if a.cleaning || len(a.ended) == 0 {
		return
	}
	floor := a.top + 1
	for _, d := range a.table.Acks {
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
	a.out.CleanAcks(floor, now)
}
