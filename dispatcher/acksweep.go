package dispatcher

import (
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// News of the runs of ack types is captured twice, as the workers send it and as the server
// takes it, so that either may be lost. The sweep looks for runs of which neither was heard,
// or only the worker's part. A message at or below its consumer's ack floor is over. But the floor
// passes a message whose lease has ended just as it passes one that was acked, and
// afterwards the server can't tell the two apart (it reports no redelivered messages where
// one delivery is allowed). So a run that is over without news counts as a lost lease: it
// runs again, rather than being taken for done.

// ackAgain is the time after which a sweep's finding counts if it is still the same: the
// ordinary news may only be late.
const ackAgain = time.Second

// ackGrace is the time that a worker's answer waits for the server's word on it; then
// the answer is taken as it is.
const ackGrace = 2 * time.Second

// sweep looks for runs whose news was lost.
func (a *ackRuns) sweep(now time.Time) error {
	a.cleaning = false
	waiting := map[events.Type][]natsio.Stored{}
	unseen := map[events.Type]bool{}
	var overdue []*table.Dispatch
	for tok, d := range a.table.Acks {
		if d.Unseen() && !d.Leased {
			unseen[d.Type] = true
		}
		switch {
		case d.Lingering && !d.Leased && now.Sub(d.LeaseFrom()) > a.leases.leaseOf(d)+a.cfg.Gone:
			a.flight.letGo(d)
		case d.Seq == 0 || d.Leased || d.Lingering:
		case d.Word != nil && now.Sub(d.Word.At) >= ackGrace:
			overdue = append(overdue, d)
		default:
			waiting[d.Type] = append(waiting[d.Type], natsio.Stored{Token: tok, Seq: d.Seq})
		}
	}
	for _, d := range table.Sorted(overdue) {
		if !a.room() {
			a.sweepBy(now.Add(ackAgain))
			break
		}
		if err := a.record(d, d.Word); err != nil {
			return err
		}
	}
	for _, t := range slices.Sorted(maps.Keys(a.on)) {
		switch c := a.on[t]; {
		case c.Ack && !a.ready[t]:
			a.make(t) // making it failed before
		case c.Ack || len(waiting[t]) > 0:
			a.out.InspectAcks(a.wants(t), waiting[t])
		}
		if unseen[t] && a.wants(t).Paused && a.settling.until.IsZero() {
			a.withdraw(t) // messages that were being stored when the consumer was paused
		}
	}
	a.clean()
	return nil
}

// looks handles the results of inspections.
func (a *ackRuns) looks(looks []ackmode.Look, now time.Time) error {
	for _, look := range looks {
		d := a.table.ByToken[look.Token]
		if d == nil || !d.Ack || d.Lingering {
			continue
		}
		if err := a.looked(d, look.Finding, now); err != nil {
			return err
		}
	}
	return nil
}

func (a *ackRuns) looked(d *table.Dispatch, found ackmode.Finding, now time.Time) error {
	switch found {
	case ackmode.TakenBack:
		_, err := a.putBack(d)
		return err
	case ackmode.Gone:
		back, err := a.putBack(d)
		if !back && err == nil && !d.Leased {
			a.table.Lease(d, now)
			a.leases.watch(now)
		}
		return err
	}
	if !a.room() {
		a.sweepBy(now.Add(ackAgain))
		return nil
	}
	if found == ackmode.Delivered {
		return a.seen(d)
	}
	if d.Over.IsZero() || now.Sub(d.Over) < ackAgain {
		if d.Over.IsZero() {
			d.Over = now
		}
		a.sweepBy(clock.Later(d.Over.Add(ackAgain), now.Add(time.Millisecond)))
		return nil
	}
	w := d.Word
	if w == nil {
		w = &ackmode.Word{Kind: core.AckExpired}
		a.cfg.Logger.Warn("what became of a run was not heard: it counts as lost", "id", d.ID, "type", d.Type)
	}
	return a.record(d, w)
}

// lost handles the loss of the dispatch stream with all its messages. Everything is
// dispatched anew, even if a worker has it, except runs that have been seen: those are lost
// when their lease ends.
func (a *ackRuns) lost(now time.Time) error {
	a.cfg.Logger.Warn("the dispatch stream was deleted: dispatching anew", "dispatched", len(a.table.Acks))
	a.noteAcks()
	a.ended, a.cleaning = nil, false
	for d := range table.InOrder(a.table.Acks) {
		delete(a.table.BySeq, d.Seq)
		d.Seq, d.After, d.Word = 0, 0, nil
		if d.Lingering {
			a.flight.letGo(d)
			continue
		}
		back, err := a.putBack(d)
		if err != nil {
			return err
		}
		if !back && !d.Leased {
			a.table.Lease(d, now)
		}
	}
	a.top = 0
	clear(a.ready)
	a.leases.watch(now)
	a.makeAll()
	return nil
}

// wants returns the consumer that a type should have now. It is paused while the type
// is held back, while earlier words are being settled, and when the type has another
// protocol.
func (a *ackRuns) wants(t events.Type) ackmode.Consumer {
	set, _ := a.state.Settings(t)
	return ackmode.Consumer{Type: t, Ack: set.Ack(), Lease: a.ackWait(t), Window: ackWindow(&set),
		Paused: a.gates.stopped[t] || !set.Ack() || !a.settling.until.IsZero()}
}

// ackWindow returns the most items of an ack type that may be on their way or running.
func ackWindow(set *events.TypeSettings) int { return min(set.Capacity, ackmode.MaxPending) }

// ackWait returns the ack-wait that a type's consumer should have now: the type's lease, or
// a longer one that was told with a message that has not ended. The ack-wait applies to all
// messages of a consumer, also to delivered ones: were it shortened at once, the server
// would give up workers that renew as seldom as they were told.
func (a *ackRuns) ackWait(t events.Type) time.Duration {
	set, _ := a.state.Settings(t)
	wait := set.Lease.Duration
	for _, d := range a.table.Acks {
		if d.Type == t {
			wait = max(wait, d.Lease)
		}
	}
	return wait
}

// leaseEnded gives a type's consumer the type's shorter lease once the last message has
// ended that was told a longer one.
func (a *ackRuns) leaseEnded(d *table.Dispatch) {
	if set, _ := a.state.Settings(d.Type); d.Lease > set.Lease.Duration && a.ackWait(d.Type) < d.Lease {
		a.make(d.Type)
	}
}

// make makes a type's consumer, or updates it, if the type has or had protocol ack.
func (a *ackRuns) make(t events.Type) {
	if _, on := a.on[t]; !on {
		return
	}
	c := a.wants(t)
	a.on[t] = c
	a.out.EnsureAck(c)
}

func (a *ackRuns) makeAll() {
	for t := range a.on {
		a.make(t)
	}
}

// hearSignals handles what other goroutines have left about ack types.
func (a *ackRuns) hearSignals(t *natsio.Taken, now time.Time) error {
	if t.Another {
		if err := a.lost(now); err != nil {
			return err
		}
	}
	if err := a.failed(t.Failed, now); err != nil {
		return err
	}
	if t.Missing {
		// A consumer that is made anew delivers again what is in the stream; it must not
		// deliver what has been answered.
		a.settling = settling{until: now.Add(ackSettle), heard: true}
		a.makeAll()
	}
	for _, typ := range t.Made {
		a.ready[typ] = true
		a.dirty.mark(typ)
	}
	if t.Cleaned {
		a.cleaning = false
		a.clean()
	}
	a.settling.heard = a.settling.heard || t.Heard
	a.words = append(a.words, t.Words...)
	if err := a.hearAll(); err != nil {
		return err
	}
	return a.looks(t.Looks, now)
}

// typeChanged follows a type's settings. When the protocol changes, the engine takes back
// the messages that are not delivered, and lets the runs end.
func (a *ackRuns) typeChanged(t *events.TypeInfo) {
	was, on := a.on[t.Type]
	if !on && !t.Settings.Ack() {
		return
	}
	if !on {
		was.Paused = true // like a consumer that does not exist
		a.on[t.Type] = was
	}
	wants := a.wants(t.Type)
	switch {
	case wants == was:
	case wants.Paused && !was.Paused:
		a.withdraw(t.Type)
	default:
		a.make(t.Type)
	}
}

// gateChanged pauses the consumer of a type that was stopped, or lets it go on.
func (a *ackRuns) gateChanged(t events.Type) {
	if a.gates.stopped[t] {
		a.withdraw(t)
	} else {
		a.make(t)
	}
}

// withdraw pauses a type's consumer, and takes back what it has not delivered.
func (a *ackRuns) withdraw(t events.Type) {
	if _, on := a.on[t]; !on {
		return
	}
	a.noteAcks()
	c := a.wants(t)
	a.on[t] = c
	var waiting []natsio.Stored
	for tok, d := range a.table.Acks {
		if d.Type == t && d.Unseen() {
			waiting = append(waiting, natsio.Stored{Token: tok, Seq: d.Seq})
		}
	}
	a.out.WithdrawAcks(c, waiting)
}
