package dispatcher

import (
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// News of native runs is captured twice, as the workers send it and as the server takes it,
// so that either may be lost. The sweep looks for runs of which neither was heard, or only
// the worker's part. A message at or below its consumer's ack floor is over. But the floor
// passes a message whose lease has ended just as it passes one that was acked, and
// afterwards the server can't tell the two apart (it reports no redelivered messages where
// one delivery is allowed). So a run that is over without news counts as a lost lease: it
// runs again, rather than being taken for done.

// nativeAgain is the time after which a sweep's finding counts if it is still the same: the
// ordinary news may only be late.
const nativeAgain = time.Second

// nativeGrace is the time that a worker's answer waits for the server's word on it; then
// the answer is taken as it is.
const nativeGrace = 2 * time.Second

// sweepNatives looks for native runs whose news was lost.
func (a *ackRuns) sweepNatives(now time.Time) error {
	a.cleaning = false
	waiting := map[events.Type][]natsio.Stored{}
	unseen := map[events.Type]bool{}
	var overdue []*table.Dispatch
	for tok, d := range a.l.table.Natives {
		if d.Unseen() && !d.Orphan {
			unseen[d.Type] = true
		}
		switch {
		case d.Seq == 0 || d.Orphan || d.Lingering:
		case d.Word != nil && now.Sub(d.Word.At) >= nativeGrace:
			overdue = append(overdue, d)
		default:
			waiting[d.Type] = append(waiting[d.Type], natsio.Stored{Token: tok, Seq: d.Seq})
		}
	}
	for _, d := range table.Sorted(overdue) {
		if !a.l.pipe.room() {
			a.l.sweeper.next = clock.Sooner(a.l.sweeper.next, now.Add(nativeAgain))
			break
		}
		if err := a.decideNative(d, d.Word); err != nil {
			return err
		}
	}
	for _, t := range slices.Sorted(maps.Keys(a.on)) {
		switch c := a.on[t]; {
		case c.Native && !a.ready[t]:
			a.makeNative(t) // making it failed before
		case c.Native || len(waiting[t]) > 0:
			a.l.out.InspectNative(a.nativeWants(t), waiting[t])
		}
		if unseen[t] && a.nativeWants(t).Paused && a.settling.until.IsZero() {
			a.withdrawNatives(t) // messages that were being stored when the consumer was paused
		}
	}
	a.cleanNatives()
	return nil
}

// nativeLooks handles the results of inspections.
func (a *ackRuns) nativeLooks(looks []ackmode.Look, now time.Time) error {
	for _, look := range looks {
		d := a.l.table.ByToken[look.Token]
		if d == nil || !d.Native || d.Lingering {
			continue
		}
		if err := a.nativeLooked(d, look.Finding, now); err != nil {
			return err
		}
	}
	return nil
}

func (a *ackRuns) nativeLooked(d *table.Dispatch, found ackmode.Finding, now time.Time) error {
	switch found {
	case ackmode.TakenBack:
		_, err := a.l.flight.putBack(d)
		return err
	case ackmode.Gone:
		back, err := a.l.flight.putBack(d)
		if !back && err == nil && !d.Orphan {
			a.l.table.Orphaned(d, now)
			a.l.leases.watchOrphans(now)
		}
		return err
	}
	if !a.l.pipe.room() {
		a.l.sweeper.next = clock.Sooner(a.l.sweeper.next, now.Add(nativeAgain))
		return nil
	}
	if found == ackmode.Delivered {
		return a.nativeSeen(d)
	}
	if d.Spent.IsZero() || now.Sub(d.Spent) < nativeAgain {
		if d.Spent.IsZero() {
			d.Spent = now
		}
		a.l.sweeper.next = clock.Sooner(a.l.sweeper.next, clock.Later(d.Spent.Add(nativeAgain), now.Add(time.Millisecond)))
		return nil
	}
	w := d.Word
	if w == nil {
		w = &ackmode.Word{Kind: core.NativeExpired}
		a.l.cfg.Logger.Warn("what became of a native run was not heard: it counts as lost", "id", d.ID, "type", d.Type)
	}
	return a.decideNative(d, w)
}

// nativeLost handles the loss of the native stream with all its messages. Everything is
// dispatched anew, even if a worker has it, except runs that have been seen: those are lost
// when their lease ends.
func (a *ackRuns) nativeLost(now time.Time) error {
	a.l.cfg.Logger.Warn("the stream of native workers was deleted: dispatching anew", "dispatched", len(a.l.table.Natives))
	a.l.flight.noteAcks()
	a.ended, a.cleaning = nil, false
	for d := range table.InOrder(a.l.table.Natives) {
		delete(a.l.table.BySeq, d.Seq)
		d.Seq, d.After, d.Word = 0, 0, nil
		if d.Lingering {
			a.l.flight.letGo(d)
			continue
		}
		back, err := a.l.flight.putBack(d)
		if err != nil {
			return err
		}
		if !back && !d.Orphan {
			a.l.table.Orphaned(d, now)
		}
	}
	a.top = 0
	clear(a.ready)
	a.l.leases.watchOrphans(now)
	a.makeNatives()
	return nil
}

// nativeWants returns the consumer that a type should have now. It is paused while the type
// is held back, while earlier words are being settled, and when the type has another
// protocol.
func (a *ackRuns) nativeWants(t events.Type) ackmode.Consumer {
	set, _ := a.l.state.Settings(t)
	return ackmode.Consumer{Type: t, Native: set.Native(), Lease: a.l.leases.ackWait(t), Window: nativeWindow(&set),
		Paused: a.l.gates.stopped[t] || !set.Native() || !a.settling.until.IsZero()}
}

// nativeWindow returns the most native items of a type that may be on their way or running.
func nativeWindow(set *events.TypeSettings) int { return min(set.Capacity, lanes.MaxPending) }

// makeNative makes a type's consumer, or updates it, if the type has or had protocol ack.
func (a *ackRuns) makeNative(t events.Type) {
	if _, on := a.on[t]; !on {
		return
	}
	c := a.nativeWants(t)
	a.on[t] = c
	a.l.out.EnsureNative(c)
}

func (a *ackRuns) makeNatives() {
	for t := range a.on {
		a.makeNative(t)
	}
}

// nativesChanged follows changes of types.
func (a *ackRuns) nativesChanged(changed []events.TypeInfo) error {
	for _, t := range changed {
		if err := a.nativeChanged(t); err != nil {
			return err
		}
	}
	return nil
}

// nativeSignals handles what other goroutines have left about native dispatches.
func (a *ackRuns) nativeSignals(t *natsio.Taken, now time.Time) error {
	if t.Another {
		if err := a.nativeLost(now); err != nil {
			return err
		}
	}
	if t.Native {
		// A consumer that is made anew delivers again what is in the stream; it must not
		// deliver what has been answered.
		a.settling = settling{until: now.Add(nativeSettle), heard: true}
		a.makeNatives()
	}
	for _, typ := range t.Made {
		a.ready[typ], a.l.sender.dirty[typ] = true, true
	}
	if t.Cleaned {
		a.cleaning = false
		a.cleanNatives()
	}
	a.settling.heard = a.settling.heard || t.Heard
	a.words = append(a.words, t.Words...)
	if err := a.hearNatives(); err != nil {
		return err
	}
	return a.nativeLooks(t.Looks, now)
}

// nativeChanged follows a type's settings. What was dispatched by another protocol and is
// not running is taken back; what runs goes on to its end.
func (a *ackRuns) nativeChanged(t events.TypeInfo) error {
	was, on := a.on[t.Type]
	if !on && !t.Settings.Native() {
		return nil
	}
	if native := t.Settings.Native(); native && !was.Native {
		if !on {
			was.Paused = true // like a consumer that does not exist
			a.on[t.Type] = was
		}
		if err := a.l.flight.withdrawIf(func(d *table.Dispatch) bool { return d.Type == t.Type && !d.Native }); err != nil {
			return err
		}
	}
	wants := a.nativeWants(t.Type)
	if wants == was {
		return nil
	}
	if wants.Paused && !was.Paused {
		a.withdrawNatives(t.Type)
		return nil
	}
	a.makeNative(t.Type)
	return nil
}

// withdrawNatives pauses a type's consumer, and takes back what it has not delivered.
func (a *ackRuns) withdrawNatives(t events.Type) {
	if _, on := a.on[t]; !on {
		return
	}
	a.l.flight.noteAcks()
	c := a.nativeWants(t)
	a.on[t] = c
	var waiting []natsio.Stored
	for tok, d := range a.l.table.Natives {
		if d.Type == t && d.Unseen() {
			waiting = append(waiting, natsio.Stored{Token: tok, Seq: d.Seq})
		}
	}
	a.l.out.WithdrawNative(c, waiting)
}
